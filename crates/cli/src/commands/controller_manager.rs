//! `twinstack controller-manager`: the controllers, against any Kubernetes. `up` runs them in its own process.

use super::Command;
use crate::{
    component,
    flag::{
        DefaultFlag, Flag, KUBECONFIG, cidrs, count, duration, file, flags, folder, period, positive, switch, text,
    },
    gates,
    manager::{Manager, Own},
    read,
};
use access::authn::User;
use apiserver::{ApiServer, client::InProcess};
use base64::Engine;
use control::{
    autoscaler,
    certificates::{AuthorityFiles, CertificateOptions},
    endpointslice,
    framework::{self, Context, ControllerOptions, Selection},
    hollow, housekeeping, mirroring, node_ipam, quota, routes,
    service_lb::{
        self,
        lab::{self, Lab},
        provider::{Provider, Providers},
    },
    storage::StorageOptions,
};
use net::{Cidr, DualStack, NodeBlocks, NodeMaskFlags, ServiceRange, node_blocks};
use runtime::{config::Settings, pki::Authority};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub(super) const COMMAND: Command = Command {
    name: "controller-manager",
    about: "run the controllers of a cluster",
    more: "Endpoints of Services, pod CIDRs of nodes, workloads, the scheduler, load balancers of a lab, and what keeps a \
           cluster tidy; each can be picked by name. Flags are those of kube-controller-manager where it has them; every one can \
           also stand in the file of --config, or in the environment as TWINSTACK_CONTROLLER_MANAGER_ and its name in capitals.",
    example: "twinstack controller-manager --kubeconfig ./data/admin.kubeconfig --allocate-node-cidrs \
              --cluster-cidr 10.244.0.0/16,fd00:10:244::/56\n\
              twinstack controller-manager --kubeconfig ~/.kube/config --controllers endpointslice-controller",
    flags: &[&[&KUBECONFIG], FLAGS, &OWN.flags(), gates::FLAGS],
    positional: None,
    long_running: true,
    check: |given| {
        gates::idle(given);
        flags(given).map(drop)
    },
    run,
};

flags! {
    pub(crate) FLAGS:
    CLUSTER_NAME: Flag<String> = text("cluster-name", "NAME", "a name", "name of the cluster; kubeadm gives it, and no controller here needs it: load balancers of a cloud have theirs from the cloud provider").otherwise("kubernetes");
    CONTROLLERS: DefaultFlag<Selection> = Flag::new("controllers", "NAME,...", "", |text| Selection::parse(text, &control::controllers()).map_err(|error| error.to_string()), "which to run: * for all that are on by default, a name, -name for not that one; the first word for one counts").or("*");
    ALLOCATE_NODE_CIDRS: DefaultFlag<bool> = switch("allocate-node-cidrs", "give nodes pod CIDRs from --cluster-cidr").or("false");
    CLUSTER_CIDR: Flag<DualStack<Cidr>> = cidrs("cluster-cidr", "addresses of pods, one range or one of each family; nodes get a CIDR of each in this order");
    NODE_CIDR_MASK_SIZE: Flag<u8> = mask("node-cidr-mask-size", "prefix length of a node's CIDR, when --cluster-cidr is one range");
    NODE_CIDR_MASK_SIZE_IPV4: Flag<u8> = mask("node-cidr-mask-size-ipv4", "prefix length of a node's IPv4 CIDR").otherwise_made(|| net::default_node_mask(net::Family::V4).to_string());
    NODE_CIDR_MASK_SIZE_IPV6: Flag<u8> = mask("node-cidr-mask-size-ipv6", "prefix length of a node's IPv6 CIDR").otherwise_made(|| net::default_node_mask(net::Family::V6).to_string());
    SERVICE_CLUSTER_IP_RANGE: Flag<DualStack<Cidr>> = cidrs("service-cluster-ip-range", "addresses of Services; nodes get none of these");
    MAX_ENDPOINTS_PER_SLICE: DefaultFlag<usize> = up_to_thousand("max-endpoints-per-slice", "endpoints in an EndpointSlice, 1 to 1000").or_of(|| endpointslice::EndpointSliceOptions::default().max_endpoints_per_slice);
    CONCURRENT_SERVICE_ENDPOINT_SYNCS: DefaultFlag<usize> = positive("concurrent-service-endpoint-syncs", "Services whose endpoints are worked on at a time").or_of(|| endpointslice::EndpointSliceOptions::default().workers);
    ENDPOINTSLICE_UPDATES_BATCH_PERIOD: DefaultFlag<Duration> = duration("endpointslice-updates-batch-period", "how long changes of Pods are gathered before slices are written").or_shown(|| endpointslice::EndpointSliceOptions::default().batch_period, read::typed_duration);
    MIRRORING_MAX_ENDPOINTS_PER_SUBSET: DefaultFlag<usize> = up_to_thousand("mirroring-max-endpoints-per-subset", "addresses of an Endpoints subset that are mirrored, 1 to 1000").or_of(|| mirroring::MirroringOptions::default().max_endpoints_per_subset);
    MIRRORING_CONCURRENT_SERVICE_ENDPOINT_SYNCS: DefaultFlag<usize> = positive("mirroring-concurrent-service-endpoint-syncs", "Endpoints that are mirrored at a time").or_of(|| mirroring::MirroringOptions::default().workers);
    CLOUD_PROVIDER: DefaultFlag<CloudProvider> = Flag::new("cloud-provider", "NAME", "lab, external, none", cloud_provider, "who makes load balancers for Services without a class: lab, none, or external (somebody else)").or("none");
    LOAD_BALANCER_IP_RANGE: Flag<Provider> = Flag::named("load-balancer-ip-range", "CIDR[,CIDR]", "", lab_provider, "addresses that the provider lab gives to Services of type LoadBalancer");
    CONCURRENT_SERVICE_SYNCS: DefaultFlag<usize> = positive("concurrent-service-syncs", "load balancers that are worked on at a time").or_of(|| service_lb::ServiceLbOptions::default().workers);
    CONFIGURE_CLOUD_ROUTES: DefaultFlag<bool> = switch("configure-cloud-routes", "make routes for pod CIDRs, if the cloud provider can").or("true");
    ROUTE_RECONCILIATION_PERIOD: DefaultFlag<Duration> = duration("route-reconciliation-period", "how often routes are looked at when nothing happens").or_shown(|| routes::RouteControllerOptions::default().period, read::typed_duration);
    ROOT_CA_FILE: Flag<String> = Flag::new("root-ca-file", "FILE", "a file that can be read", read::content, "certificates by which pods know the API server, for the ConfigMap kube-root-ca.crt of every namespace");
    CLUSTER_SIGNING_CERT_FILE: Flag<PathBuf> = file("cluster-signing-cert-file", "certificate of the authority that signs for all signers of Kubernetes");
    CLUSTER_SIGNING_KEY_FILE: Flag<PathBuf> = file("cluster-signing-key-file", "its key");
    CLUSTER_SIGNING_KUBELET_SERVING_CERT_FILE: Flag<PathBuf> = file("cluster-signing-kubelet-serving-cert-file", "certificate of the authority that signs for kubernetes.io/kubelet-serving");
    CLUSTER_SIGNING_KUBELET_SERVING_KEY_FILE: Flag<PathBuf> = file("cluster-signing-kubelet-serving-key-file", "its key");
    CLUSTER_SIGNING_KUBELET_CLIENT_CERT_FILE: Flag<PathBuf> = file("cluster-signing-kubelet-client-cert-file", "certificate of the authority that signs for kubernetes.io/kube-apiserver-client-kubelet");
    CLUSTER_SIGNING_KUBELET_CLIENT_KEY_FILE: Flag<PathBuf> = file("cluster-signing-kubelet-client-key-file", "its key");
    CLUSTER_SIGNING_KUBE_APISERVER_CLIENT_CERT_FILE: Flag<PathBuf> = file("cluster-signing-kube-apiserver-client-cert-file", "certificate of the authority that signs for kubernetes.io/kube-apiserver-client");
    CLUSTER_SIGNING_KUBE_APISERVER_CLIENT_KEY_FILE: Flag<PathBuf> = file("cluster-signing-kube-apiserver-client-key-file", "its key");
    CLUSTER_SIGNING_LEGACY_UNKNOWN_CERT_FILE: Flag<PathBuf> = file("cluster-signing-legacy-unknown-cert-file", "certificate of the authority that signs for kubernetes.io/legacy-unknown");
    CLUSTER_SIGNING_LEGACY_UNKNOWN_KEY_FILE: Flag<PathBuf> = file("cluster-signing-legacy-unknown-key-file", "its key");
    CLUSTER_SIGNING_DURATION: DefaultFlag<Duration> = duration("cluster-signing-duration", "longest life of a certificate that is signed; a request may ask for less").or_shown(|| CertificateOptions::default().duration, read::typed_duration);
    NODE_MONITOR_GRACE_PERIOD: DefaultFlag<Duration> = duration("node-monitor-grace-period", "how long a node may be silent before it is Unknown").or_shown(|| housekeeping::HousekeepingOptions::default().node_monitor_grace_period, read::typed_duration);
    NODE_MONITOR_PERIOD: DefaultFlag<Duration> = duration("node-monitor-period", "how often that is looked at").or_shown(|| housekeeping::HousekeepingOptions::default().node_monitor_period, read::typed_duration);
    TERMINATED_POD_GC_THRESHOLD: DefaultFlag<usize> = count("terminated-pod-gc-threshold", "ended pods that may stay; 0 keeps all").or_of(|| housekeeping::HousekeepingOptions::default().terminated_pod_gc_threshold);
    RESOURCE_QUOTA_SYNC_PERIOD: DefaultFlag<Duration> = period("resource-quota-sync-period", "how often quotas are counted anew when nothing happens").or_shown(|| quota::QuotaOptions::default().sync_period, read::typed_duration);
    HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD: DefaultFlag<Duration> = period("horizontal-pod-autoscaler-sync-period", "how often metrics are asked for").or_shown(|| autoscaler::AutoscalerOptions::default().sync_period, read::typed_duration);
    HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION: DefaultFlag<Duration> = duration("horizontal-pod-autoscaler-downscale-stabilization", "how long a higher recommendation counts before a target shrinks").or_shown(|| autoscaler::AutoscalerOptions::default().downscale_stabilization, read::typed_duration);
    HORIZONTAL_POD_AUTOSCALER_TOLERANCE: DefaultFlag<f64> = Flag::new("horizontal-pod-autoscaler-tolerance", "FRACTION", "a number from 0 on, such as 0.1", fraction, "how far a metric may be from its target before anything happens").or("0.1");
    HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD: DefaultFlag<Duration> = duration("horizontal-pod-autoscaler-cpu-initialization-period", "how long after a pod's start its processor time may be left out").or_shown(|| autoscaler::AutoscalerOptions::default().cpu_initialization_period, read::typed_duration);
    HORIZONTAL_POD_AUTOSCALER_INITIAL_READINESS_DELAY: DefaultFlag<Duration> = duration("horizontal-pod-autoscaler-initial-readiness-delay", "how long after a pod's start a change of readiness counts as its first").or_shown(|| autoscaler::AutoscalerOptions::default().initial_readiness_delay, read::typed_duration);
    CONCURRENT_HORIZONTAL_POD_AUTOSCALER_SYNCS: DefaultFlag<usize> = positive("concurrent-horizontal-pod-autoscaler-syncs", "autoscalers that are worked on at a time").or_of(|| autoscaler::AutoscalerOptions::default().workers);
    HOST_PATH_PROVISIONER_DIR: Flag<PathBuf> = folder("host-path-provisioner-dir", "where folders become volumes of classes whose provisioner is twinstack.dev/host-path; nobody makes such volumes when not given");
    HOLLOW_NODES: DefaultFlag<u32> = count("hollow-nodes", "nodes without a machine, whose pods turn Running and Ready: for tests and scale runs").or_of(|| hollow::HollowOptions::default().nodes);
    HOLLOW_START_DELAY: DefaultFlag<Duration> = duration("hollow-start-delay", "how long a pod on them takes to start, unless its annotation says otherwise").or_shown(|| hollow::HollowOptions::default().start_delay, read::typed_duration);
    HOLLOW_STOP_DELAY: DefaultFlag<Duration> = duration("hollow-stop-delay", "how long it takes to stop; never longer than its grace period").or_shown(|| hollow::HollowOptions::default().stop_delay, read::typed_duration);
    HOLLOW_HEARTBEAT: DefaultFlag<Duration> = period("hollow-heartbeat", "how often they say that they are alive").or_shown(|| hollow::HollowOptions::default().heartbeat, read::typed_duration);
}

const OWN: Own = Own::new("kube-controller-manager", "10257").upstreams();

const fn mask(name: &'static str, help: &'static str) -> Flag<u8> {
    Flag::new(name, "LENGTH", "a prefix length", read::parsed, help)
}

fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "is not a number from 0 on".to_owned())
}

const fn up_to_thousand(name: &'static str, help: &'static str) -> Flag<usize> {
    let read: fn(&str) -> Result<usize, String> = |text| match text.parse() {
        Ok(count) if (1..=1000).contains(&count) => Ok(count),
        _ => Err("is not from 1 to 1000".to_owned()),
    };
    Flag::new(name, "COUNT", "a number from 1 to 1000", read, help)
}

/// Who makes load balancers for Services without a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloudProvider {
    Lab,
    /// Somebody else, or nobody.
    NotHere,
}

fn cloud_provider(text: &str) -> Result<CloudProvider, String> {
    match text {
        "lab" => Ok(CloudProvider::Lab),
        "" | "external" | "none" => Ok(CloudProvider::NotHere),
        other => Err(format!("there is no provider {other:?} here")),
    }
}

fn lab_provider(flag: &'static str, text: &str) -> Result<Provider, String> {
    Lab::new(read::one_or_pair(flag, text)?).map(Provider::new).map_err(|error| error.to_string())
}

/// Everything the flags say.
struct Flags {
    manager: Manager,
    selection: Selection,
    options: ControllerOptions,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, remarks, flags) =
        settings.read(|given| Some((component::log(given), gates::idle(given), flags(given)?)))?;
    component::remark(&remarks);
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
    given.optional(&CLUSTER_NAME);
    let ranges = given.optional(&SERVICE_CLUSTER_IP_RANGE);
    let mut options = options(given, None);
    options.node_ipam.service_ranges = ranges.map(|ranges| ranges.into_iter().collect()).unwrap_or_default();
    options.housekeeping.root_ca = given.optional(&ROOT_CA_FILE);
    Some(Flags { manager: Manager::read(given, &OWN), selection: given.get(&CONTROLLERS), options })
}

/// What the controllers of `up` are told. `pods` holds where `--cluster-cidr` is not given.
pub(crate) fn options_for_up(
    given: &mut Settings,
    pods: Option<DualStack<Cidr>>,
    services: &DualStack<ServiceRange>,
) -> ControllerOptions {
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

/// Signers without an authority sign with the API server's own, whose certificates it believes.
pub(crate) fn sign_with_own(options: &mut ControllerOptions, folder: &Path) {
    if options.certificates.authorities.iter().all(Option::is_none) {
        let files = AuthorityFiles { certificate: folder.join("ca.crt"), key: folder.join("ca.key") };
        options.certificates.sign_with(&files);
    }
}

/// What all controllers are told. `pods` holds where `--cluster-cidr` is not given.
fn options(given: &mut Settings, pods: Option<DualStack<Cidr>>) -> ControllerOptions {
    let clusters = given.optional(&CLUSTER_CIDR).or(pods);
    let providers = providers(given);
    let cloud_routes = given.get(&CONFIGURE_CLOUD_ROUTES);
    ControllerOptions {
        endpointslice: endpointslice::EndpointSliceOptions {
            max_endpoints_per_slice: given.get(&MAX_ENDPOINTS_PER_SLICE),
            workers: given.get(&CONCURRENT_SERVICE_ENDPOINT_SYNCS),
            batch_period: given.get(&ENDPOINTSLICE_UPDATES_BATCH_PERIOD),
        },
        mirroring: mirroring::MirroringOptions {
            max_endpoints_per_subset: given.get(&MIRRORING_MAX_ENDPOINTS_PER_SUBSET),
            workers: given.get(&MIRRORING_CONCURRENT_SERVICE_ENDPOINT_SYNCS),
        },
        node_ipam: node_ipam::NodeIpamOptions { blocks: blocks(given, clusters), service_ranges: Vec::new() },
        routes: routes::RouteControllerOptions {
            provider: providers.default.clone().filter(|_| cloud_routes),
            clusters: clusters.map(|clusters| clusters.into_iter().collect()).unwrap_or_default(),
            period: given.get(&ROUTE_RECONCILIATION_PERIOD),
        },
        service_lb: service_lb::ServiceLbOptions { providers, workers: given.get(&CONCURRENT_SERVICE_SYNCS) },
        certificates: signers(given),
        storage: StorageOptions { host_path_dir: given.optional(&HOST_PATH_PROVISIONER_DIR) },
        hollow: hollow::HollowOptions {
            nodes: given.get(&HOLLOW_NODES),
            families: clusters
                .map_or_else(|| hollow::HollowOptions::default().families, |clusters| clusters.families()),
            start_delay: given.get(&HOLLOW_START_DELAY),
            stop_delay: given.get(&HOLLOW_STOP_DELAY),
            heartbeat: given.get(&HOLLOW_HEARTBEAT),
        },
        housekeeping: housekeeping::HousekeepingOptions {
            node_monitor_grace_period: given.get(&NODE_MONITOR_GRACE_PERIOD),
            node_monitor_period: given.get(&NODE_MONITOR_PERIOD),
            terminated_pod_gc_threshold: given.get(&TERMINATED_POD_GC_THRESHOLD),
            ..housekeeping::HousekeepingOptions::default()
        },
        quota: quota::QuotaOptions { sync_period: given.get(&RESOURCE_QUOTA_SYNC_PERIOD) },
        autoscaler: autoscaler::AutoscalerOptions {
            sync_period: given.get(&HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD),
            downscale_stabilization: given.get(&HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION),
            tolerance: given.get(&HORIZONTAL_POD_AUTOSCALER_TOLERANCE),
            cpu_initialization_period: given.get(&HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD),
            initial_readiness_delay: given.get(&HORIZONTAL_POD_AUTOSCALER_INITIAL_READINESS_DELAY),
            workers: given.get(&CONCURRENT_HORIZONTAL_POD_AUTOSCALER_SYNCS),
        },
    }
}

/// The authority of each signer: its own, or the one for all.
fn signers(given: &mut Settings) -> CertificateOptions {
    let mut options =
        CertificateOptions { duration: given.get(&CLUSTER_SIGNING_DURATION), ..CertificateOptions::default() };
    let all = authority(given, &CLUSTER_SIGNING_CERT_FILE, &CLUSTER_SIGNING_KEY_FILE);
    // In the order of `certificates::SIGNERS`.
    let own = [
        (&CLUSTER_SIGNING_KUBELET_SERVING_CERT_FILE, &CLUSTER_SIGNING_KUBELET_SERVING_KEY_FILE),
        (&CLUSTER_SIGNING_KUBELET_CLIENT_CERT_FILE, &CLUSTER_SIGNING_KUBELET_CLIENT_KEY_FILE),
        (&CLUSTER_SIGNING_KUBE_APISERVER_CLIENT_CERT_FILE, &CLUSTER_SIGNING_KUBE_APISERVER_CLIENT_KEY_FILE),
        (&CLUSTER_SIGNING_LEGACY_UNKNOWN_CERT_FILE, &CLUSTER_SIGNING_LEGACY_UNKNOWN_KEY_FILE),
    ];
    for (index, (certificate, key)) in own.into_iter().enumerate() {
        options.authorities[index] = authority(given, certificate, key);
    }
    let Some(all) = all else { return options };
    if options.authorities.iter().any(Option::is_some) {
        given.reject(
            CLUSTER_SIGNING_CERT_FILE.name,
            "is for all signers; give it alone, or a certificate for each signer and not this one",
        );
    }
    options.sign_with(&all);
    options
}

/// Two files that make an authority, which is tried at once.
fn authority(given: &mut Settings, certificate: &Flag<PathBuf>, key: &Flag<PathBuf>) -> Option<AuthorityFiles> {
    let (first, second) = (given.optional(certificate), given.optional(key));
    let files = match (first, second) {
        (None, None) => return None,
        (Some(certificate), Some(key)) => AuthorityFiles { certificate, key },
        (first, _) => {
            let (alone, other) = if first.is_some() { (certificate, key) } else { (key, certificate) };
            given.reject(alone.name, format!("needs --{} beside it", other.name));
            return None;
        }
    };
    if let Err(error) = Authority::load_pair(&files.certificate, &files.key) {
        given.reject(certificate.name, error.to_string());
        return None;
    }
    Some(files)
}

fn blocks(given: &mut Settings, clusters: Option<DualStack<Cidr>>) -> Option<DualStack<NodeBlocks>> {
    let masks = NodeMaskFlags {
        plain: given.optional(&NODE_CIDR_MASK_SIZE),
        ipv4: given.optional(&NODE_CIDR_MASK_SIZE_IPV4),
        ipv6: given.optional(&NODE_CIDR_MASK_SIZE_IPV6),
    };
    if !given.get(&ALLOCATE_NODE_CIDRS) {
        return None;
    }
    let Some(clusters) = clusters else {
        given.reject(ALLOCATE_NODE_CIDRS.name, "needs --cluster-cidr: one range, or one of each family");
        return None;
    };
    match node_blocks(&clusters, masks) {
        Ok(blocks) => Some(blocks),
        Err(mistakes) => {
            given.reject(CLUSTER_CIDR.name, mistakes.to_string());
            None
        }
    }
}

fn providers(given: &mut Settings) -> Providers {
    let range = given.optional(&LOAD_BALANCER_IP_RANGE);
    let is_lab = given.get(&CLOUD_PROVIDER) == CloudProvider::Lab;
    if is_lab && range.is_none() {
        given.reject(CLOUD_PROVIDER.name, "lab needs --load-balancer-ip-range: one range, or one of each family");
    }
    let by_class = range.iter().map(|provider| (lab::CLASS.to_owned(), provider.clone())).collect();
    Providers { default: range.filter(|_| is_lab), by_class }
}
