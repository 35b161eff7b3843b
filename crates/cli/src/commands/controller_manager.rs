//! `twinstack controller-manager`: the controllers, against any Kubernetes. `up` runs them in its own process.

use super::Command;
use crate::{
    component,
    flag::{Flag, flag},
    kubeconfig,
    manager::{Manager, Own},
    read,
};
use access::authn::User;
use apiserver::{ApiServer, client::InProcess};
use base64::Engine;
use control::{
    endpointslice,
    framework::{self, Context, Options, Selection},
    hollow, housekeeping, mirroring, node_ipam, routes,
    service_lb::{
        self,
        lab::{self, Lab},
        provider::{Provider, Providers},
    },
};
use net::{Cidr, DualStack, Families, Family, NodeBlocks, NodeMaskFlags, ServiceRange, flags, node_blocks};
use runtime::config::Settings;
use std::{path::Path, sync::Arc, time::Duration};

pub(super) const COMMAND: Command = Command {
    name: "controller-manager",
    about: "run the controllers of a cluster",
    more: "Endpoints of Services, pod CIDRs of nodes, workloads, the scheduler, load balancers of a lab, and what keeps a \
           cluster tidy; each can be picked by name. Flags are those of kube-controller-manager where it has them; every one can \
           also stand in the file of --config, or in the environment as TWINSTACK_CONTROLLER_MANAGER_ and its name in capitals.",
    example: "twinstack controller-manager --kubeconfig ./data/admin.kubeconfig --allocate-node-cidrs \
              --cluster-cidr 10.244.0.0/16,fd00:10:244::/56\n\
              twinstack controller-manager --kubeconfig ~/.kube/config --controllers endpointslice-controller",
    flags: &[&[kubeconfig::FLAG], FLAGS, &OWN.flags()],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("cluster-name", "NAME", "kubernetes", "name of the cluster; kubeadm gives it, and no controller here needs it: load balancers of a cloud have theirs from the cloud provider"),
    flag("controllers", "NAME,...", "*", "which to run: * for all that are on by default, a name, -name for not that one; the first word for one counts"),
    flag("allocate-node-cidrs", "BOOL", "false", "give nodes pod CIDRs from --cluster-cidr"),
    flag("cluster-cidr", "CIDR[,CIDR]", "", "addresses of pods, one range or one of each family; nodes get a CIDR of each in this order"),
    flag("node-cidr-mask-size", "LENGTH", "", "prefix length of a node's CIDR, when --cluster-cidr is one range"),
    flag("node-cidr-mask-size-ipv4", "LENGTH", "24", "prefix length of a node's IPv4 CIDR"),
    flag("node-cidr-mask-size-ipv6", "LENGTH", "64", "prefix length of a node's IPv6 CIDR"),
    flag("service-cluster-ip-range", "CIDR[,CIDR]", "", "addresses of Services; nodes get none of these"),
    flag("max-endpoints-per-slice", "COUNT", "100", "endpoints in an EndpointSlice, 1 to 1000"),
    flag("concurrent-service-endpoint-syncs", "COUNT", "5", "Services whose endpoints are worked on at a time"),
    flag("endpointslice-updates-batch-period", "DURATION", "0s", "how long changes of Pods are gathered before slices are written"),
    flag("mirroring-max-endpoints-per-subset", "COUNT", "1000", "addresses of an Endpoints subset that are mirrored, 1 to 1000"),
    flag("mirroring-concurrent-service-endpoint-syncs", "COUNT", "5", "Endpoints that are mirrored at a time"),
    flag("cloud-provider", "NAME", "none", "who makes load balancers for Services without a class: lab, none, or external (somebody else)"),
    flag("load-balancer-ip-range", "CIDR[,CIDR]", "", "addresses that the provider lab gives to Services of type LoadBalancer"),
    flag("concurrent-service-syncs", "COUNT", "1", "load balancers that are worked on at a time"),
    flag("configure-cloud-routes", "BOOL", "true", "make routes for pod CIDRs, if the cloud provider can"),
    flag("route-reconciliation-period", "DURATION", "10s", "how often routes are looked at when nothing happens"),
    flag("root-ca-file", "FILE", "", "certificates by which pods know the API server, for the ConfigMap kube-root-ca.crt of every namespace"),
    flag("node-monitor-grace-period", "DURATION", "50s", "how long a node may be silent before it is Unknown"),
    flag("node-monitor-period", "DURATION", "5s", "how often that is looked at"),
    flag("terminated-pod-gc-threshold", "COUNT", "12500", "ended pods that may stay; 0 keeps all"),
    flag("hollow-nodes", "COUNT", "0", "nodes without a machine, whose pods turn Running and Ready: for tests and scale runs"),
    flag("hollow-start-delay", "DURATION", "0s", "how long a pod on them takes to start, unless its annotation says otherwise"),
    flag("hollow-stop-delay", "DURATION", "0s", "how long it takes to stop; never longer than its grace period"),
    flag("hollow-heartbeat", "DURATION", "10s", "how often they say that they are alive"),
];

const OWN: Own = Own::new("kube-controller-manager", "10257").upstreams();

/// Everything the flags say.
struct Flags {
    manager: Manager,
    selection: Selection,
    options: Options,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, flags) = settings.read(|given| Some((component::log(given), flags(given)?)))?;
    let Flags { manager, selection, options } = flags;
    component::run(&log, async |admin, tasks| {
        let client = manager.connect("twinstack-controller-manager", &admin, &tasks).await?;
        let context = Context::new(client.clone(), options, &admin, &tasks);
        manager.lead(client, &tasks, move || start(&context, &selection));
        Ok(())
    })
}

/// A client for the controllers in the API server's own process.
pub(crate) fn insider(server: &Arc<ApiServer>) -> kube::Client {
    let me = User::new("system:kube-controller-manager", ["system:masters", "system:authenticated"]);
    kube::Client::new(InProcess::new(Arc::clone(server), me), "default")
}

/// Runs the picked controllers.
pub(crate) fn start(context: &Context, selection: &Selection) {
    framework::start(context, &control::controllers(), selection);
}

fn flags(given: &mut Settings) -> Option<Flags> {
    let selection = selection(given);
    given.optional("cluster-name", "a name", |text| Ok::<_, String>(text.to_owned()));
    let ranges = given
        .optional("service-cluster-ip-range", "", |text| flags::one_or_pair::<Cidr>("service-cluster-ip-range", text));
    let mut options = options(given, None);
    options.node_ipam.service_ranges = ranges.map(|ranges| ranges.into_iter().collect()).unwrap_or_default();
    options.housekeeping.root_ca =
        given.optional("root-ca-file", "a file that can be read", |path| std::fs::read_to_string(path));
    Some(Flags { manager: Manager::read(given, &OWN)?, selection, options })
}

/// `--controllers`.
pub(crate) fn selection(given: &mut Settings) -> Selection {
    let known = control::controllers();
    given.or("controllers", Selection::default(), "", |text| Selection::parse(text, &known))
}

/// What the controllers of `up` are told: pods have the families that Services have, in their order.
pub(crate) fn options_for_up(given: &mut Settings, services: &DualStack<ServiceRange>) -> Options {
    let pods = services.as_ref().map(|family, _| match family {
        Family::V4 => "10.244.0.0/16".parse::<Cidr>(),
        Family::V6 => "fd00:10:244::/56".parse::<Cidr>(),
    });
    let pods = pods.try_map(|_, cidr| cidr).ok();
    let mut options = options(given, pods);
    options.node_ipam.service_ranges = services.iter().map(ServiceRange::cidr).collect();
    options
}

/// The certificates of the cluster that a kubeconfig leads to.
pub(crate) fn root_ca(kubeconfig: &Path) -> Option<String> {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).ok()?;
    let cluster = file.clusters.into_iter().find_map(|named| named.cluster)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(cluster.certificate_authority_data?).ok()?;
    String::from_utf8(bytes).ok()
}

/// What all controllers are told. `pods` is `--cluster-cidr` where it is not given; nodes then get their CIDRs from it.
fn options(given: &mut Settings, pods: Option<DualStack<Cidr>>) -> Options {
    let clusters = given.optional("cluster-cidr", "", |text| flags::one_or_pair::<Cidr>("cluster-cidr", text)).or(pods);
    let allocate = given.or("allocate-node-cidrs", pods.is_some(), "true, false", str::parse::<bool>);
    let blocks = blocks(given, clusters, allocate);
    let providers = providers(given);
    let cloud_routes = given.or("configure-cloud-routes", true, "true, false", str::parse::<bool>);
    let defaults = Options::default();
    Options {
        endpointslice: endpointslice::Options {
            max_endpoints_per_slice: up_to_thousand(given, "max-endpoints-per-slice", 100),
            workers: workers(given, "concurrent-service-endpoint-syncs", 5),
            batch_period: given.or(
                "endpointslice-updates-batch-period",
                Duration::ZERO,
                read::DURATION,
                read::duration,
            ),
        },
        mirroring: mirroring::Options {
            max_endpoints_per_subset: up_to_thousand(given, "mirroring-max-endpoints-per-subset", 1000),
            workers: workers(given, "mirroring-concurrent-service-endpoint-syncs", 5),
        },
        node_ipam: node_ipam::Options { blocks, service_ranges: Vec::new() },
        routes: routes::Options {
            provider: providers.default.clone().filter(|_| cloud_routes),
            clusters: clusters.map(|clusters| clusters.into_iter().collect()).unwrap_or_default(),
            period: given.or("route-reconciliation-period", Duration::from_secs(10), read::DURATION, read::duration),
        },
        service_lb: service_lb::Options { providers, workers: workers(given, "concurrent-service-syncs", 1) },
        hollow: hollow::Options {
            nodes: given.or("hollow-nodes", 0, "a number", str::parse::<u32>),
            families: clusters.map_or(Families::both(Family::V4), |clusters| clusters.families()),
            start_delay: given.or("hollow-start-delay", defaults.hollow.start_delay, read::DURATION, read::duration),
            stop_delay: given.or("hollow-stop-delay", defaults.hollow.stop_delay, read::DURATION, read::duration),
            heartbeat: heartbeat(given, defaults.hollow.heartbeat),
        },
        housekeeping: housekeeping(given),
    }
}

fn heartbeat(given: &mut Settings, default: Duration) -> Duration {
    given.or("hollow-heartbeat", default, read::DURATION, |text| match read::duration(text) {
        Ok(period) if period.is_zero() => Err("must be longer than 0"),
        read => read,
    })
}

fn housekeeping(given: &mut Settings) -> housekeeping::Options {
    let defaults = housekeeping::Options::default();
    housekeeping::Options {
        node_monitor_grace_period: given.or(
            "node-monitor-grace-period",
            defaults.node_monitor_grace_period,
            read::DURATION,
            read::duration,
        ),
        node_monitor_period: given.or(
            "node-monitor-period",
            defaults.node_monitor_period,
            read::DURATION,
            read::duration,
        ),
        terminated_pod_gc_threshold: given.or(
            "terminated-pod-gc-threshold",
            defaults.terminated_pod_gc_threshold,
            "a number",
            str::parse::<usize>,
        ),
        ..defaults
    }
}

fn blocks(given: &mut Settings, clusters: Option<DualStack<Cidr>>, allocate: bool) -> Option<DualStack<NodeBlocks>> {
    let accepted = "a prefix length";
    let masks = NodeMaskFlags {
        plain: given.optional("node-cidr-mask-size", accepted, str::parse::<u8>),
        ipv4: given.optional("node-cidr-mask-size-ipv4", accepted, str::parse::<u8>),
        ipv6: given.optional("node-cidr-mask-size-ipv6", accepted, str::parse::<u8>),
    };
    if !allocate {
        return None;
    }
    let Some(clusters) = clusters else {
        given.reject("allocate-node-cidrs", "needs --cluster-cidr: one range, or one of each family");
        return None;
    };
    match node_blocks(&clusters, masks) {
        Ok(blocks) => Some(blocks),
        Err(mistakes) => {
            given.reject("cluster-cidr", mistakes.to_string());
            None
        }
    }
}

fn providers(given: &mut Settings) -> Providers {
    let range = given.optional("load-balancer-ip-range", "", |text| {
        let ranges = flags::one_or_pair::<Cidr>("load-balancer-ip-range", text).map_err(|error| error.to_string())?;
        Lab::new(ranges).map(Provider::new).map_err(|error| error.to_string())
    });
    let is_lab = given.or("cloud-provider", false, "lab, external, none", |text| match text {
        "lab" => Ok(true),
        "" | "external" | "none" => Ok(false),
        other => Err(format!("there is no provider {other:?} here")),
    });
    if is_lab && range.is_none() {
        given.reject("cloud-provider", "lab needs --load-balancer-ip-range: one range, or one of each family");
    }
    let by_class = range.iter().map(|provider| (lab::CLASS.to_owned(), provider.clone())).collect();
    Providers { default: range.filter(|_| is_lab), by_class }
}

fn up_to_thousand(given: &mut Settings, name: &'static str, default: usize) -> usize {
    given.or(name, default, "a number from 1 to 1000", |text| match text.parse::<usize>() {
        Ok(count) if (1..=1000).contains(&count) => Ok(count),
        _ => Err("is not from 1 to 1000"),
    })
}

fn workers(given: &mut Settings, name: &'static str, default: usize) -> usize {
    given.or(name, default, "a number from 1 on", |text| match text.parse::<usize>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("is not a number from 1 on"),
    })
}
