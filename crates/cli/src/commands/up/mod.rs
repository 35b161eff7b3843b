//! `twinstack up`: everything that is built, in one process, with a word on what to try.

mod banner;
mod demo;
mod detach;
mod lab;
pub(super) mod running;

use super::{Command, apiserver, controller_manager, dns_operator, ingress_operator, init};
use crate::{
    component,
    flag::{AnyFlag, CONFIG, DefaultFlag, Flag, Flags, LOOPBACK, addresses, switch},
};
use ::apiserver::launch;
use anyhow::Context;
use api::kinds::names::is_domain;
use banner::{Banner, Words};
use ingress::operator::plan::environment::Ports;
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
    &lab::NODES,
    &lab::LAB_CIDR,
    &HOLLOW_NODES,
    &DNS_BIND_ADDRESS.help("where DNS is answered: one address, one of each family, or :: for both"),
    &DNS_PORT.help("port of DNS for UDP and TCP; 0 takes free ones"),
    &INGRESS_DOMAIN,
    &INGRESS_BIND_ADDRESS,
    &INGRESS_PORTS,
    &DEMO,
    &DETACH,
    &QUIET,
    &JSON,
];

/// Nobody else reaches a cluster that was started to try something.
const BIND_ADDRESS: DefaultFlag<Hosts> = apiserver::BIND_ADDRESS.or(LOOPBACK);
/// Blocks of pods; of a family that Services do not have, none.
const POD_RANGES: &str = "10.244.0.0/16, fd00:10:244::/56";

#[rustfmt::skip]
pub(super) const INGRESS_DOMAIN: Flag<String> = Flag::new("ingress-domain", "DOMAIN|none", "a DNS name such as apps.example.test, or none", domain, "domain of applications: the IngressController default has a router on this machine; none for no router").otherwise("apps.lab.test where there are nodes and HAProxy");
#[rustfmt::skip]
pub(super) const INGRESS_BIND_ADDRESS: DefaultFlag<DualStack<IpAddr>> = addresses("ingress-bind-address", "where that router listens: one address or one of each family, such as 0.0.0.0,::").or(LOOPBACK);
#[rustfmt::skip]
pub(super) const INGRESS_PORTS: DefaultFlag<Ports> = Flag::new("ingress-ports", "HTTP,HTTPS,STATS", "three different ports such as 80,443,1936", ingress_operator::ports, "ports of that router: plain, TLS, and health with statistics").or("10080,10443,11936");
/// For no router.
pub(super) const NO_INGRESS: &str = "none";

#[rustfmt::skip]
const DEMO: DefaultFlag<bool> = switch("demo", "deploy a small application of both families with a load balancer and a Route, and say where it answers; needs nodes").or("false");
#[rustfmt::skip]
const DETACH: DefaultFlag<bool> = switch("detach", "run in the background: say what serves, and return; `twinstack down` stops it").short('d').or("false");
const QUIET: DefaultFlag<bool> = switch("quiet", "say nothing once everything serves; the log goes on").or("false");
#[rustfmt::skip]
const JSON: DefaultFlag<bool> = switch("json", "say what serves, where, and after how many seconds, as one line of JSON on stdout").or("false");

/// With room for the names of Routes below it.
fn domain(text: &str) -> Result<String, String> {
    match text == NO_INGRESS || (text.len() <= 244 && is_domain(text)) {
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
    words: Words,
    demo: bool,
    detach: bool,
    /// Or what nodes would need.
    lab: Result<lab::ForUp, String>,
}

fn read(given: &mut Settings) -> Option<Asked> {
    let services = given.get(&apiserver::SERVICE_CLUSTER_IP_RANGE);
    let options = apiserver::read(given);
    let blocks = given.optional(&CLUSTER_CIDR).or_else(|| pods(&services));
    if let Some((pods, range)) = blocks.as_ref().and_then(|blocks| overlap(blocks, &services)) {
        let flag = apiserver::SERVICE_CLUSTER_IP_RANGE.name;
        given.reject(
            CLUSTER_CIDR.name,
            format!("{pods} overlaps {range} of --{flag}; give blocks that have nothing in common"),
        );
    }
    let lab = lab::read(given, blocks, &services);
    let demo = given.get(&DEMO);
    if let (true, Err(why)) = (demo, &lab) {
        given.reject(DEMO.name, format!("needs nodes, of which there are {why}"));
    }
    Some(Asked {
        lab,
        demo,
        detach: given.get(&DETACH),
        words: match (given.get(&QUIET), given.get(&JSON)) {
            (true, _) => Words::Nothing,
            (false, true) => Words::Json,
            (false, false) => Words::Text,
        },
        control: controller_manager::options_for_up(given, pods(&services), &services),
        dns: dns_operator::ForUp::read(given),
        ingress: ingress_operator::ForUp::read(given),
        selection: given.get(&CONTROLLERS),
        options: options?,
    })
}

/// A block of Pods that has addresses of Services, and these.
fn overlap(pods: &DualStack<Cidr>, services: &DualStack<ServiceRange>) -> Option<(Cidr, Cidr)> {
    let pairs = pods.iter().flat_map(|pods| services.iter().map(move |range| (*pods, range.cidr())));
    { pairs }.find(|(pods, range)| pods.overlaps(range))
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
    let begun = tokio::time::Instant::now();
    let (settings, mut objects) = from_folder(with_defaults(settings));
    let settings = lab::with_defaults(settings);
    let has_nodes = lab::count_of(&settings) > 0;
    let settings = ingress_operator::with_defaults(settings, &objects, has_nodes);
    let (log, asked) = settings.read(|given| Some((component::log(given), read(given)?)))?;
    let Asked { mut options, selection, mut control, mut dns, mut ingress, words, demo, detach, lab } = asked;
    if detach {
        return detach::detach(&options.data_dir);
    }
    let claim = running::Claim::take(&options.data_dir)?;
    ingress.yield_ports(&options.data_dir);
    if ingress.domain().is_some() {
        dns.answer_records();
    }
    let (lab, no_nodes) = match lab {
        Ok(lab) => (Some(lab), String::new()),
        Err(why) => (None, why),
    };
    if let Some(lab) = &lab {
        dns.run_in_pods(lab.image());
    }
    let kubeconfig = options.data_dir.join("admin.kubeconfig");
    let lab = lab.map(|lab| lab.prepare(&std::path::absolute(&kubeconfig).unwrap_or(kubeconfig))).transpose()?;
    if let Some(lab) = &lab {
        options.also = Some(lab.machine());
        options.advertise.get_or_insert_with(|| lab.machine());
    }
    let pods = control.node_ipam.blocks.as_ref().map(|blocks| blocks.as_ref().map(|_, block| block.cluster()));
    objects.extend(dns_operator::objects(&objects, &options.service_ranges, pods));
    objects.extend(ingress.objects(&objects));
    if let Some(lab) = lab.as_ref().filter(|_| demo) {
        objects.extend(demo::objects(lab.image(), ingress.domain()));
    }
    let bootstrap_tokens = options.bootstrap_tokens;
    let volumes = std::path::absolute(&options.data_dir).unwrap_or_else(|_| options.data_dir.clone()).join("volumes");
    component::run(&log, async |admin, tasks| {
        let images = lab.as_ref().map(|lab| lab.start_runtimes(&tasks)).transpose()?;
        let started = launch::start(options, admin.clone(), &tasks).await.context("the API server did not come up")?;
        control.housekeeping.root_ca = controller_manager::root_ca(&started.kubeconfig);
        if control.storage.host_path_dir.is_none() {
            control.storage.host_path_dir = Some(volumes);
        }
        objects.push(::control::storage::host_path::class());
        controller_manager::sign_with_own(&mut control, &started.certificates);
        if bootstrap_tokens {
            objects.extend(joining(&started, control.housekeeping.root_ca.as_deref().unwrap_or_default()));
        }
        init::apply::apply(&started.server, &objects).await?;
        if let Some(lab) = &lab {
            lab.provide(&mut control, &tasks);
        }
        let context =
            ::control::framework::Context::new(controller_manager::insider(&started.server), control, &admin, &tasks);
        controller_manager::start(&context, &selection);
        // Its /readyz is the API server's, which is ready whatever its own clients see.
        admin.health.remove("watches");
        let nodes = match &lab {
            Some(lab) => lab.serving(context.client()),
            None => lab::Serving::Off(no_nodes),
        };
        let demo = demo.then(|| demo::Serving { client: context.client(), router: ingress.router() });
        let ingress_serving = ingress.serving(context.client());
        let banner = Banner::new((begun, words), &started, claim.note(), nodes, dns.serving(), ingress_serving, demo);
        if let (Some(lab), Some(images)) = (&lab, images) {
            lab.start_nodes(&started, dns.domain(), images, &tasks)?;
        }
        dns.start(&context, &started.kubeconfig);
        ingress.start(&context, &started.kubeconfig);
        banner.print_when_serving(&tasks);
        Ok(())
    })
}

/// What lets machines join, at the address where they reach the server.
fn joining(started: &launch::Started, authority: &str) -> Vec<Value> {
    let address = &started.server.config.server_address;
    install::joining(&format!("https://{address}"), authority)
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

#[cfg(test)]
mod tests {
    use super::*;
    use net::flags::service_ranges;

    #[test]
    fn blocks_of_pods_and_services_have_nothing_in_common() {
        let pods = |text: &str| {
            let blocks: Vec<Cidr> = text.split(',').map(|block| block.parse().unwrap()).collect();
            blocks
                .get(1)
                .map_or_else(|| DualStack::one(blocks[0]), |second| DualStack::pair(blocks[0], *second).unwrap())
        };
        for (blocks, services, expected) in [
            ("10.244.0.0/16", "10.96.0.0/16", None),
            ("10.96.0.0/12", "10.96.0.0/16", Some("10.96.0.0/12")),
            ("fd00::/48", "fd00::/112", Some("fd00::/48")),
            ("10.244.0.0/16,fd00:1::/48", "10.96.0.0/16,fd00:1::/112", Some("fd00:1::/48")),
            ("fd00:1::/48,10.96.5.0/24", "fd00:2::/112,10.96.0.0/16", Some("10.96.5.0/24")),
            ("fd00:1::/48,10.244.0.0/16", "fd00:2::/112,10.96.0.0/16", None),
        ] {
            let found = overlap(&pods(blocks), &service_ranges(services).unwrap());
            assert_eq!(found.map(|(pods, _)| pods.to_string()).as_deref(), expected, "{blocks} {services}");
        }
    }
}
