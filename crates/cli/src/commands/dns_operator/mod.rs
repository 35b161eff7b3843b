//! `twinstack dns-operator`: the DNS resource becomes a Corefile and the servers that run it. `up` runs it in its own process.

mod for_up;

pub(crate) use for_up::{ForUp, Serving, objects};

use super::{Command, dns::threads};
use crate::{
    component,
    flag::{
        CLUSTER_DOMAIN, DefaultFlag, Flag, IMAGE, KUBECONFIG, LOOPBACK, RELEASE_VERSION, flags, folder, hosts, port,
        word,
    },
    manager::{AfterLoss, Manager, Own},
};
use ::dns::{
    operator::{self, CONTROLLERS, Local, Operand, OperatorOptions, Program, Reports},
    wire::Name,
};
use runtime::{
    config::Settings,
    controller::{self, Context, Selection},
    listen::{Hosts, Machine},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub(super) const COMMAND: Command = Command {
    name: "dns-operator",
    about: "run the DNS servers of a cluster as its DNS resource says",
    more: "Turns dnses.operator.openshift.io/default into a Corefile, a DaemonSet and a dual-stack Service, and says in the \
           resource's conditions how that goes. Makes the definitions and the resource where they are missing. \
           With --operand process the server runs in this process instead, and takes up changes without losing a query.",
    example: "twinstack dns-operator --kubeconfig ~/.kube/config --image registry.example.com/twinstack:latest\n\
              twinstack dns-operator --kubeconfig ./data/admin.kubeconfig --operand process --dns-port 10053",
    flags: &[&[&KUBECONFIG], FLAGS, &OWN.flags()],
    positional: None,
    long_running: true,
    check: |given| flags(given).map(drop),
    run,
};

flags! {
    pub(super) FLAGS:
    OPERAND: DefaultFlag<OperandKind> = Flag::new("operand", "workload|process", "workload, process", operand_kind, "what runs the Corefile: a DaemonSet, or the server in this process").or("workload");
    DNS_IMAGE: DefaultFlag<String> = word("image", "IMAGE", "an image", "image of the DaemonSet's Pods").or(IMAGE);
    SERVER: DefaultFlag<Program> = Flag::new("server", "twinstack|coredns", "twinstack, coredns", program, "program in that image").or("twinstack");
    DOMAIN: DefaultFlag<Name> = Flag::new("cluster-domain", "DOMAIN", "a DNS name such as cluster.local", domain, "domain of Services").or(CLUSTER_DOMAIN);
    RELEASE: Flag<String> = RELEASE_VERSION;
    DNS_BIND_ADDRESS: DefaultFlag<Hosts> = hosts("dns-bind-address", "with --operand process: where to answer; one address, one of each family, or :: for both").or(LOOPBACK);
    DNS_PORT: DefaultFlag<u16> = port("dns-port", "with --operand process: port for UDP and TCP; 0 takes free ones").or("10053");
    DNS_DATA_DIR: DefaultFlag<PathBuf> = folder("dns-data-dir", "with --operand process: where the Corefile of this machine is kept").or_else("a folder for temporary files", || std::env::temp_dir().join(format!("twinstack-dns-{}", std::process::id())));
    DNS_THREADS: DefaultFlag<usize> = threads("dns-threads", "with --operand process: threads for UDP");
}

/// What runs what an operator manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandKind {
    Workload,
    Process,
}

pub(super) fn operand_kind(text: &str) -> Result<OperandKind, String> {
    match text {
        "workload" => Ok(OperandKind::Workload),
        "process" => Ok(OperandKind::Process),
        _ => Err("is no operand".to_owned()),
    }
}

pub(super) const OWN: Own = Own::new("dns-operator", "10263");
/// How often servers in Pods are asked while one of them lags.
const POLL: Duration = Duration::from_secs(2);

/// Everything the flags say.
struct Flags {
    manager: Manager,
    options: OperatorOptions,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, flags) = settings.read(|given| Some((component::log(given), flags(given)?)))?;
    let Flags { manager, mut options } = flags;
    component::run(&log, async |admin, tasks| {
        if let Operand::Process(local) = &mut options.operand {
            local.hosts = there(&local.hosts);
        }
        let client = manager.connect("twinstack-dns-operator", &admin, &tasks).await?;
        // The server answers whoever leads.
        if let Operand::Process(local) = &options.operand {
            operator::start_server(client.clone(), local.clone(), options.reports.clone(), &admin, &tasks);
        }
        manager.lead_in_terms(Context::new(client, options, &admin, &tasks), AfterLoss::Wait, start);
        Ok(())
    })
}

fn start(context: &Context<OperatorOptions>) {
    let all: Vec<_> = CONTROLLERS.iter().collect();
    controller::start(context, &all, &Selection::default());
}

fn flags(given: &mut Settings) -> Option<Flags> {
    let manager = Manager::read(given, &OWN);
    let folder = given.get(&DNS_DATA_DIR);
    let local = local(given, manager.kubeconfig().map(Path::to_owned), folder);
    let (image, program) = (given.get(&DNS_IMAGE), given.get(&SERVER));
    let operand = match given.get(&OPERAND) {
        OperandKind::Process => Operand::Process(local),
        OperandKind::Workload => Operand::Workload { image, program },
    };
    let options = options(given, operand);
    Some(Flags { manager, options })
}

fn program(text: &str) -> Result<Program, String> {
    match text {
        "twinstack" => Ok(Program::Twinstack),
        "coredns" => Ok(Program::CoreDns),
        _ => Err("is no program that is known here".to_owned()),
    }
}

fn domain(text: &str) -> Result<Name, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let name = Name::parse(text).map(|name| name.lower()).map_err(|error| error.to_string())?;
    if !name.is_root() && text.bytes().all(plain) { Ok(name) } else { Err("is no domain".to_owned()) }
}

/// What this machine has of them; what it has not is told.
fn there(hosts: &Hosts) -> Hosts {
    let machine = Machine::look();
    let there = hosts.on(machine);
    if let Some(lacking) = hosts.lacking(machine) {
        tracing::warn!(flag = DNS_BIND_ADDRESS.name, %hosts, on = %there, "{lacking}; answering on what is there");
    }
    there
}

/// Where and how the server of this process answers.
fn local(given: &mut Settings, kubeconfig: Option<PathBuf>, folder: PathBuf) -> Local {
    Local {
        hosts: given.get(&DNS_BIND_ADDRESS),
        port: given.get(&DNS_PORT),
        kubeconfig: kubeconfig.map(|path| std::path::absolute(&path).unwrap_or(path)),
        folder,
        records: false,
        threads: given.get(&DNS_THREADS),
    }
}

fn options(given: &mut Settings, operand: Operand) -> OperatorOptions {
    OperatorOptions {
        operand,
        cluster_domain: given.get(&DOMAIN),
        release: given.optional(&RELEASE),
        reports: Reports::default(),
        poll: POLL,
    }
}
