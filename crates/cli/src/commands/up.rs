//! `twinstack up`: everything that is built, in one process, with a word on what to try.

mod banner;

use super::{Command, apiserver, controller_manager, dns_operator, ingress_operator, init};
use crate::{
    component,
    flag::{Flag, flag},
    read,
};
use ::apiserver::launch;
use anyhow::Context;
use banner::Banner;
use runtime::config::Settings;
use serde_json::{Map, Value};
use std::path::PathBuf;

pub(crate) use banner::Part;

pub(super) const COMMAND: Command = Command {
    name: "up",
    about: "run a cluster on this machine, all components in one process",
    more: "Listens on loopback, keeps its state in a folder of yours, and goes on where it left off when it is started again. \
           Takes the flags of `twinstack apiserver` and `twinstack controller-manager` as well, in the file of --config or in the environment. \
           With --config naming a folder that `twinstack init` wrote, the server starts as that says and has its objects.",
    example: "twinstack up\nkubectl --kubeconfig ~/.local/share/twinstack/admin.kubeconfig get services --all-namespaces",
    flags: &[FLAGS],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("data-dir", "FOLDER", "~/.local/share/twinstack, or /var/lib/twinstack for root", "where state, certificates and admin.kubeconfig are kept"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "where to listen: one address, one of each family, or :: for both"),
    flag("secure-port", "PORT", "6443", "port of the API; 0 takes a free one"),
    flag("service-cluster-ip-range", "CIDR[,CIDR]", apiserver::SERVICE_RANGES, "addresses for Services, one range or one of each family; the first is the default family"),
    flag("cluster-cidr", "CIDR[,CIDR]", "10.244.0.0/16, fd00:10:244::/56", "addresses for pods; nodes get a CIDR of each family in this order"),
    flag("load-balancer-ip-range", "CIDR[,CIDR]", "", "addresses for Services of type LoadBalancer that ask for the class twinstack.dev/lab, or for all with --cloud-provider lab"),
    flag("cloud-provider", "NAME", "none", "who makes load balancers for Services without a class: lab, none, or external (somebody else)"),
    flag("controllers", "NAME,...", "*", "which controllers to run: * for all that are on by default, a name, -name for not that one"),
    flag("hollow-nodes", "COUNT", "0", "nodes without a machine, whose pods turn Running and Ready: for tests and scale runs"),
    flag("dns-bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "where DNS is answered: one address, one of each family, or :: for both"),
    flag("dns-port", "PORT", "10053", "port of DNS for UDP and TCP; 0 takes free ones"),
    flag("ingress-domain", "DOMAIN", "", "domain of the IngressController default, whose router listens on ports 10080 and 10443; without it no operator runs and no port is opened"),
    flag("ingress-bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "where that router listens: one address or one of each family, such as 0.0.0.0,::"),
];

fn run(settings: Settings) -> anyhow::Result<()> {
    let settings = settings.defaults([
        ("data-dir".to_owned(), data_dir().display().to_string()),
        ("bind-address".to_owned(), "127.0.0.1,::1".to_owned()),
    ]);
    let (settings, mut objects) = from_folder(settings);
    let (log, options, selection, mut control, dns, ingress) = settings.read(|given| {
        let log = component::log(given);
        let options = apiserver::read(given)?;
        let control = controller_manager::options_for_up(given, &options.service_ranges);
        let dns = dns_operator::ForUp::read(given)?;
        let ingress = ingress_operator::ForUp::read(given);
        Some((log, options, controller_manager::selection(given), control, dns, ingress))
    })?;
    let pods = control.node_ipam.blocks.as_ref().map(|blocks| blocks.as_ref().map(|_, block| block.cluster()));
    objects.extend(dns_operator::objects(&objects, &options.service_ranges, pods));
    objects.extend(ingress_operator::objects(&objects, ingress.domain()));
    component::run(&log, async |admin, tasks| {
        let started = launch::start(options, admin.clone(), &tasks).await.context("the API server did not come up")?;
        init::apply::apply(&started.server, &objects).await?;
        control.housekeeping.root_ca = controller_manager::root_ca(&started.kubeconfig);
        let context =
            ::control::framework::Context::new(controller_manager::insider(&started.server), control, &admin, &tasks);
        controller_manager::start(&context, &selection);
        // Its /readyz is the API server's, which is ready whatever its own clients see.
        admin.health.remove("watches");
        let banner = Banner::new(&started, dns.serving(), ingress.serving(context.client()));
        dns.start(&context, &started.kubeconfig);
        ingress.start(&context, &started.kubeconfig);
        banner.print_when_serving(&tasks);
        Ok(())
    })
}

/// What a folder that `init` wrote adds: settings of the API server, and objects to start with.
fn from_folder(mut settings: Settings) -> (Settings, Vec<Value>) {
    let config = settings.optional("config", "a file or a folder", read::path);
    let Some(folder) = config.filter(|path| path.is_dir()) else { return (settings, Vec::new()) };
    let loaded = install::settings(&folder).and_then(|given| Ok((given, install::objects(&folder)?)));
    match loaded {
        Ok((given, objects)) => {
            let given: Map<String, Value> = given.into_iter().map(|(name, text)| (name, Value::from(text))).collect();
            let content = Value::Object(given).to_string();
            (settings.file_content(&folder, content.as_bytes()), objects)
        }
        Err(error) => {
            settings.reject("config", error.to_string());
            (settings, Vec::new())
        }
    }
}

/// Where a user's programs keep their state.
pub(super) fn data_dir() -> PathBuf {
    let home = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/twinstack");
    }
    let share = home("XDG_DATA_HOME").or_else(|| home("HOME").map(|home| home.join(".local/share")));
    share.unwrap_or_else(std::env::temp_dir).join("twinstack")
}
