//! `twinstack up`: everything that is built, in one process, with a word on what to try.

mod banner;

use super::{Command, apiserver, controller_manager, dns_operator, ingress_operator, init};
use crate::{
    component,
    flag::{AnyFlag, CONFIG, DefaultFlag, Flag, Flags, LOOPBACK, addresses},
};
use ::apiserver::launch;
use anyhow::Context;
use api::kinds::names::is_domain;
use banner::Banner;
use net::{Cidr, DualStack, Family, HasFamily, ServiceRange};
use runtime::{config::Settings, controller::Selection, listen::Hosts};
use serde_json::{Map, Value};
use std::{net::IpAddr, path::PathBuf};

pub(crate) use banner::Part;
use controller_manager::{
    ALLOCATE_NODE_CIDRS, CLOUD_PROVIDER, CLUSTER_CIDR, CONTROLLERS, HOLLOW_NODES, LOAD_BALANCER_IP_RANGE,
};
use dns_operator::{DNS_BIND_ADDRESS, DNS_PORT};

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
    check: |given| read(given).map(drop),
    run,
};

/// Flags of the components it runs, with a word on what they mean here; the others stand in files and the environment.
#[rustfmt::skip]
const FLAGS: Flags = &[
    &apiserver::DATA_DIR.otherwise("~/.local/share/twinstack, or /var/lib/twinstack for root"),
    &BIND_ADDRESS,
    &apiserver::SECURE_PORT.help("port of the API; 0 takes a free one"),
    &apiserver::SERVICE_CLUSTER_IP_RANGE,
    &CLUSTER_CIDR.help("addresses for pods; nodes get a CIDR of each family in this order").otherwise(POD_RANGES),
    &LOAD_BALANCER_IP_RANGE.help("addresses for Services of type LoadBalancer that ask for the class twinstack.dev/lab, or for all with --cloud-provider lab"),
    &CLOUD_PROVIDER,
    &CONTROLLERS.help("which controllers to run: * for all that are on by default, a name, -name for not that one"),
    &HOLLOW_NODES,
    &DNS_BIND_ADDRESS.help("where DNS is answered: one address, one of each family, or :: for both"),
    &DNS_PORT.help("port of DNS for UDP and TCP; 0 takes free ones"),
    &INGRESS_DOMAIN,
    &INGRESS_BIND_ADDRESS,
];

/// Nobody else reaches a cluster that was started to try something.
const BIND_ADDRESS: DefaultFlag<Hosts> = apiserver::BIND_ADDRESS.or(LOOPBACK);
/// Blocks of pods; of a family that Services do not have, none.
const POD_RANGES: &str = "10.244.0.0/16, fd00:10:244::/56";

#[rustfmt::skip]
pub(super) const INGRESS_DOMAIN: Flag<String> = Flag::new("ingress-domain", "DOMAIN", "a DNS name such as apps.example.test", domain, "domain of the IngressController default, whose router listens on ports 10080 and 10443; without it no operator runs and no port is opened");
#[rustfmt::skip]
pub(super) const INGRESS_BIND_ADDRESS: DefaultFlag<DualStack<IpAddr>> = addresses("ingress-bind-address", "where that router listens: one address or one of each family, such as 0.0.0.0,::").or(LOOPBACK);

/// With room for the names of Routes below it.
fn domain(text: &str) -> Result<String, String> {
    match text.len() <= 244 && is_domain(text) {
        true => Ok(text.to_owned()),
        false => Err("is no DNS name in lower case".to_owned()),
    }
}

/// What the flags of all components say.
struct Asked {
    options: launch::ApiServerOptions,
    selection: Selection,
    control: ::control::framework::ControllerOptions,
    dns: dns_operator::ForUp,
    ingress: ingress_operator::ForUp,
}

fn read(given: &mut Settings) -> Option<Asked> {
    let services = given.get(&apiserver::SERVICE_CLUSTER_IP_RANGE);
    let options = apiserver::read(given);
    Some(Asked {
        control: controller_manager::options_for_up(given, pods(&services), &services),
        dns: dns_operator::ForUp::read(given),
        ingress: ingress_operator::ForUp::read(given),
        selection: given.get(&CONTROLLERS),
        options: options?,
    })
}

/// Pods have the families that Services have, in their order.
fn pods(services: &DualStack<ServiceRange>) -> Option<DualStack<Cidr>> {
    let blocks = POD_RANGES.split(", ").filter_map(|block| block.parse::<Cidr>().ok());
    let blocks: Vec<Cidr> = blocks.collect();
    let of = |family: Family| blocks.iter().find(|block| block.family() == family).copied();
    services.as_ref().try_map(|family, _| of(family).ok_or(())).ok()
}

/// What is different here from the components alone.
fn with_defaults(settings: Settings) -> Settings {
    settings.defaults([
        (apiserver::DATA_DIR.name.to_owned(), data_dir().display().to_string()),
        (BIND_ADDRESS.name.to_owned(), BIND_ADDRESS.default_text()),
        (ALLOCATE_NODE_CIDRS.name.to_owned(), true.to_string()),
    ])
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (settings, mut objects) = from_folder(with_defaults(settings));
    let (log, asked) = settings.read(|given| Some((component::log(given), read(given)?)))?;
    let Asked { options, selection, mut control, dns, ingress } = asked;
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
    let config = settings.optional(&CONFIG);
    let Some(folder) = config.filter(|path| path.is_dir()) else { return (settings, Vec::new()) };
    let loaded = install::settings(&folder).and_then(|given| Ok((given, install::objects(&folder)?)));
    match loaded {
        Ok((given, objects)) => {
            let given: Map<String, Value> = given.into_iter().map(|(name, text)| (name, Value::from(text))).collect();
            let content = Value::Object(given).to_string();
            (settings.file_content(&folder, content.as_bytes()), objects)
        }
        Err(error) => {
            settings.reject(CONFIG.name, error.to_string());
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
