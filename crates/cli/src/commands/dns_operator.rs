//! `twinstack dns-operator`: the DNS resource becomes a Corefile and the servers that run it. `up` runs it in its own process.

mod for_up;

pub(crate) use for_up::{ForUp, Serving, objects};

use super::Command;
use crate::{
    component,
    flag::{Flag, flag},
    kubeconfig,
    manager::{AfterLoss, Manager, Own},
    read, release_version,
};
use ::dns::operator::{self, CONTROLLERS, Local, Operand, Options, Program, Reports};
use ::dns::wire::Name;
use runtime::{
    config::Settings,
    controller::{self, Context, Selection},
    listen::{Hosts, Machine},
};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
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
    flags: &[&[kubeconfig::FLAG], FLAGS, &OWN.flags()],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("operand", "workload|process", "workload", "what runs the Corefile: a DaemonSet, or the server in this process"),
    flag("image", "IMAGE", IMAGE, "image of the DaemonSet's Pods"),
    flag("server", "twinstack|coredns", "twinstack", "program in that image"),
    flag("cluster-domain", "DOMAIN", "cluster.local", "domain of Services"),
    release_version::FLAG,
    flag("dns-bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "with --operand process: where to answer; one address, one of each family, or :: for both"),
    flag("dns-port", "PORT", "10053", "with --operand process: port for UDP and TCP; 0 takes free ones"),
    flag("dns-data-dir", "FOLDER", "a folder for temporary files", "with --operand process: where the Corefile of this machine is kept"),
    flag("dns-threads", "COUNT", "one per core", "with --operand process: threads for UDP"),
];

const IMAGE: &str = "localhost/twinstack:latest";
pub(super) const OWN: Own = Own::new("dns-operator", "10263");
/// How often servers in Pods are asked while one of them lags.
const POLL: Duration = Duration::from_secs(2);
const LOOPBACK: &str = "127.0.0.1,::1";

/// Everything the flags say.
struct Flags {
    manager: Manager,
    options: Options,
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

fn start(context: &Context<Options>) {
    let all: Vec<_> = CONTROLLERS.iter().collect();
    controller::start(context, &all, &Selection::default());
}

/// Reads the flags as [`run`] does, and nothing else.
pub(super) fn check(given: &mut Settings) -> Option<()> {
    component::log(given);
    flags(given).map(drop)
}

fn flags(given: &mut Settings) -> Option<Flags> {
    let manager = Manager::read(given, &OWN)?;
    let folder = std::env::temp_dir().join(format!("twinstack-dns-{}", std::process::id()));
    let folder = given.or("dns-data-dir", folder, "a folder", read::path);
    let local = local(given, manager.kubeconfig().map(Path::to_owned), folder)?;
    let image = given.or("image", IMAGE.to_owned(), "an image", |text| {
        if text.trim().is_empty() { Err("is empty") } else { Ok(text.to_owned()) }
    });
    let program = given.or("server", Program::default(), "twinstack, coredns", |text| match text {
        "twinstack" => Ok(Program::Twinstack),
        "coredns" => Ok(Program::CoreDns),
        _ => Err("is no program that is known here"),
    });
    let in_process = given.or("operand", false, "workload, process", |text| match text {
        "workload" => Ok(false),
        "process" => Ok(true),
        _ => Err("is no operand"),
    });
    let operand = if in_process { Operand::Process(local) } else { Operand::Workload { image, program } };
    let options = options(given, operand)?;
    Some(Flags { manager, options })
}

fn hosts(given: &mut Settings, name: &'static str) -> Option<Hosts> {
    Some(given.or(name, Hosts::from_str(LOOPBACK).ok()?, "one address, or one of each family", Hosts::from_str))
}

/// What this machine has of them; what it has not is told.
fn there(hosts: &Hosts) -> Hosts {
    let machine = Machine::look();
    let there = hosts.on(machine);
    if let Some(lacking) = hosts.lacking(machine) {
        tracing::warn!(flag = "dns-bind-address", %hosts, on = %there, "{lacking}; answering on what is there");
    }
    there
}

/// Where and how the server of this process answers.
fn local(given: &mut Settings, kubeconfig: Option<PathBuf>, folder: PathBuf) -> Option<Local> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = |text: &str| text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or("is out of range");
    Some(Local {
        hosts: hosts(given, "dns-bind-address")?,
        port: given.or("dns-port", 10053, "a port from 0 to 65535", str::parse::<u16>),
        kubeconfig: kubeconfig.map(|path| std::path::absolute(&path).unwrap_or(path)),
        folder,
        threads: given.or("dns-threads", cores, "a number from 1 to 1024", threads),
    })
}

fn options(given: &mut Settings, operand: Operand) -> Option<Options> {
    let domain = Name::parse("cluster.local").ok()?;
    let cluster_domain = given.or("cluster-domain", domain, "a DNS name such as cluster.local", |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let name = Name::parse(text).map(|name| name.lower()).map_err(|error| error.to_string())?;
        match !name.is_root() && text.bytes().all(plain) {
            true => Ok(name),
            false => Err("is no domain".to_owned()),
        }
    });
    let release = release_version::read(given);
    Some(Options { operand, cluster_domain, release, reports: Reports::default(), poll: POLL })
}
