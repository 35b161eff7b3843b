//! The agent of a node: registers it, says that it lives, and runs the Pods that the API and files of this machine give it.

pub mod addresses;
pub mod configuration;
pub mod garbage;
pub mod machine;
pub mod pressure;
pub mod register;
mod static_pods;
pub mod status;

use crate::{
    certificates::Rotation,
    cni::{Cni, CniOptions, NftHostPorts, Plugin},
    cri::{
        CriError, Runtime, SocketError,
        proto::{NetworkConfig, RuntimeConfig, StatusRequest, UpdateRuntimeConfigRequest, VersionRequest},
    },
    environment::Sources,
    pods::{
        ApiSources, HostPorts, Index, Pods, PodsOptions, PodsParts, Syncer, archives::Archives, cgroup::Hierarchy,
        config::Folders, images::Images, logs::LogLimits,
    },
    probes::Probes,
    server::{self, ServerOptions},
    volumes::{Volumes, VolumesOptions},
};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kernel::nft::{Nft, RealNft};
use machine::{Machine, Reserved};
use net::{Cidr, DualStack};
use parking_lot::RwLock;
use register::{NodeOptions, Registrar};
use runtime::{
    client::Api,
    controller::{Context, Queue, Scope, Store, work},
    task::Tasks,
    watch::{self, Event},
};
use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

/// Everything that the flags say.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    pub node: NodeOptions,
    pub runtime_endpoint: String,
    pub root: PathBuf,
    pub pod_logs: PathBuf,
    pub cgroup_root: String,
    pub static_pods: Option<PathBuf>,
    pub file_check: Duration,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    pub resolv_conf: PathBuf,
    pub seccomp_default: bool,
    pub allowed_sysctls: Vec<String>,
    /// Instead of the Node's `podCIDRs`.
    pub pod_cidrs: Option<DualStack<Cidr>>,
    pub cni: CniOptions,
    pub image_dir: Option<PathBuf>,
    pub reserved: Reserved,
    pub logs: LogLimits,
    pub images: garbage::ImageLimits,
    pub eviction: pressure::Thresholds,
}

/// How many Pods are looked at side by side. Looks are short, but pulls of sandboxes wait for plugins.
const WORKERS: usize = 64;

/// Why a kubelet cannot run. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("--root-dir {}: {source}", .path.display())]
    Root { path: PathBuf, source: std::io::Error },
}

/// The time as the API has it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Starts everything in `context`'s tasks. Returns when the runtime has answered.
pub async fn start(
    context: &Context<()>,
    options: KubeletOptions,
    rotation: Rotation,
    serve: impl FnOnce(Runtime) -> Option<ServerOptions>,
) -> Result<(), KubeletError> {
    let runtime = Runtime::at(&options.runtime_endpoint)?;
    let runtime_name = answer(&runtime).await;
    let pods_folder = options.root.join("pods");
    std::fs::create_dir_all(&pods_folder).map_err(|source| KubeletError::Root { path: pods_folder, source })?;
    let archives = Arc::new(Archives::new(options.image_dir.clone(), &options.runtime_endpoint));
    import(&archives).await;
    let machine = Machine::look(&options.root);
    let allocatable = machine.allocatable(&options.reserved);
    let host_ips: Arc<RwLock<Vec<IpAddr>>> = Arc::default();
    let nodes: Store<Node> = context.store_of(Scope::default().name(&options.node.name));
    let registrar = Arc::new(Registrar {
        client: context.client(),
        runtime: runtime.clone(),
        nodes: nodes.clone(),
        options: options.node.clone(),
        machine,
        allocatable,
        host_ips: Arc::clone(&host_ips),
        pressure: Arc::default(),
        shutdown: Arc::default(),
    });
    let queue: Queue<String> = context.queue("pod");
    let changed: Arc<dyn Fn(&str) + Send + Sync> = {
        let queue = queue.clone();
        Arc::new(move |uid: &str| queue.add(uid.to_owned()))
    };
    let services: Store<Service> = context.store();
    let sources = Arc::new(ApiSources::new(context.client(), services, Arc::clone(&changed)));
    let events = context.events("kubelet");
    let folders =
        Folders { root: options.root.clone(), logs: options.pod_logs.clone(), cgroup: options.cgroup_root.clone() };
    let volumes_options = VolumesOptions {
        client: context.client(),
        root: options.root.clone(),
        node_name: options.node.name.clone(),
        runtime: runtime.clone(),
        allocatable,
    };
    let for_volumes: Arc<dyn Sources + Send + Sync> = Arc::clone(&sources) as _;
    let volumes = Arc::new(Volumes::new(volumes_options, for_volumes));
    volumes.set_recursive_read_only(mounts_recursively_read_only(&runtime).await);
    let nft: Arc<dyn Nft> = Arc::new(RealNft::default());
    let own_network = options.cni.plugin != Plugin::None;
    let host_ports: Arc<dyn HostPorts> =
        if own_network { Arc::new(NftHostPorts::new(Arc::clone(&nft))) } else { Arc::new(RuntimePorts) };
    let pods = Pods::new(PodsParts {
        runtime: runtime.clone(),
        client: context.client(),
        options: PodsOptions {
            node_name: options.node.name.clone(),
            folders,
            cluster_domain: options.cluster_domain.clone(),
            cluster_dns: options.cluster_dns.clone(),
            resolv_conf: options.resolv_conf.clone(),
            hosts: PathBuf::from("/etc/hosts"),
            seccomp_default: options.seccomp_default,
            allowed_sysctls: options.allowed_sysctls.clone(),
            port_mappings: !own_network,
            hierarchy: Hierarchy::find(),
            allocatable,
            runtime_name,
        },
        index: Index::default(),
        volumes: Arc::clone(&volumes),
        probes: Probes::new(runtime.clone(), events.clone(), changed, context.tasks()),
        sources,
        images: Images::new(runtime.clone(), archives),
        host_ports,
        events,
        queue,
        host_ips,
    });
    if let Some(mut served) = serve(runtime.clone()) {
        served.volumes = Some(Arc::clone(&volumes));
        served.probes = Some(pods.probes.clone());
        let index: Arc<dyn server::NodePods> = Arc::new(pods.index.clone());
        if let Err(error) = server::start(served, index, context.admin(), context.tasks()).await {
            tracing::error!(%error, "exec, logs and metrics of this node are not served");
        }
    }
    rotate(context, rotation, &registrar);
    spawn(context, options, registrar, pods, volumes, nft);
    Ok(())
}

/// Whether the runtime can mount all below a folder without writing, as it says of its usual way to run containers.
async fn mounts_recursively_read_only(runtime: &Runtime) -> bool {
    let Ok(answer) = runtime.call_within(StatusRequest::default(), Duration::from_secs(10)).await else { return false };
    let usual = answer.runtime_handlers.iter().find(|handler| handler.name.is_empty());
    usual.and_then(|handler| handler.features.as_ref()).is_some_and(|able| able.recursive_read_only_mounts)
}

/// Keeps the node's certificates fresh.
fn rotate(context: &Context<()>, rotation: Rotation, registrar: &Registrar) {
    let Rotation { client, serving } = rotation;
    if let Some(client) = client {
        endless(context.tasks(), "client-certificate", move || client.clone().run());
    }
    if let Some(serving) = serving {
        let (client, addresses) = (context.client(), Arc::clone(&registrar.host_ips));
        endless(context.tasks(), "serving-certificate", move || {
            serving.clone().run(client.clone(), Arc::clone(&addresses))
        });
    }
}

/// Host ports are the business of whoever made the network.
struct RuntimePorts;

impl HostPorts for RuntimePorts {
    fn set(&self, _: &Pod, _: &[IpAddr]) -> Result<(), String> {
        Ok(())
    }

    fn clear(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The name of the runtime, as soon as it answers.
async fn answer(runtime: &Runtime) -> String {
    let mut told = false;
    loop {
        match runtime.call_within(VersionRequest::default(), Duration::from_secs(10)).await {
            Ok(version) => {
                tracing::info!(
                    name = version.runtime_name,
                    version = version.runtime_version,
                    "the container runtime answers"
                );
                return version.runtime_name;
            }
            Err(error) => {
                if !told {
                    tracing::warn!(%error, "the container runtime does not answer yet");
                    told = true;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn import(archives: &Arc<Archives>) {
    let archives = Arc::clone(archives);
    if let Err(error) = tokio::task::spawn_blocking(move || archives.import_all()).await {
        tracing::error!(%error, "images of --image-dir are not imported");
    }
}

fn spawn(
    context: &Context<()>,
    options: KubeletOptions,
    registrar: Arc<Registrar>,
    pods: Arc<Pods>,
    volumes: Arc<Volumes>,
    nft: Arc<dyn Nft>,
) {
    let tasks = context.tasks();
    let KubeletOptions { pod_cidrs, cni, static_pods, file_check, logs, images, eviction, .. } = options;
    endless(tasks, "node-status", {
        let registrar = Arc::clone(&registrar);
        move || {
            let registrar = Arc::clone(&registrar);
            async move {
                registrar.register().await;
                registrar.keep_status().await;
            }
        }
    });
    endless(tasks, "node-lease", {
        let registrar = Arc::clone(&registrar);
        move || {
            let registrar = Arc::clone(&registrar);
            async move { registrar.keep_lease().await }
        }
    });
    let cni = Arc::new(Cni::new(cni, nft));
    endless(tasks, "pod-network", {
        let (registrar, runtime) = (Arc::clone(&registrar), pods.runtime.clone());
        move || network(Arc::clone(&cni), Arc::clone(&registrar), runtime.clone(), pod_cidrs)
    });
    endless(tasks, "volume-drivers", move || {
        let volumes = Arc::clone(&volumes);
        async move { volumes.follow_drivers(tokio_util::sync::CancellationToken::new()).await }
    });
    endless(tasks, "pods", {
        let pods = Arc::clone(&pods);
        move || run(Arc::clone(&pods))
    });
    endless(tasks, "container-logs", {
        let pods = Arc::clone(&pods);
        move || {
            let pods = Arc::clone(&pods);
            async move { pods.rotate_logs(logs).await }
        }
    });
    let (wanted, asked) = tokio::sync::mpsc::channel(1);
    endless(tasks, "images", {
        let (runtime, asked) = (pods.runtime.clone(), Arc::new(tokio::sync::Mutex::new(asked)));
        move || garbage::collect(runtime.clone(), images.clone(), Arc::clone(&asked))
    });
    endless(tasks, "eviction", {
        let (pods, told) = (Arc::clone(&pods), Arc::clone(&registrar.pressure));
        move || pressure::watch(Arc::clone(&pods), Arc::clone(&told), eviction, wanted.clone())
    });
    endless(tasks, "static-pods", move || {
        let registrar = Arc::clone(&registrar);
        static_pods::follow(Arc::clone(&pods), static_pods.clone(), file_check, move || registrar.node())
    });
}

/// A task that ends only when everything does.
fn endless<F>(tasks: &Tasks, name: &str, work: impl Fn() -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tasks.restarting(name, move |stop| {
        let work = work();
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work => {}
            }
            Ok::<_, std::convert::Infallible>(())
        }
    });
}

/// Follows the Pods of the API and of the runtime, and works on those that changed.
async fn run(pods: Arc<Pods>) {
    let (heard, mut synced) = tokio::sync::watch::channel(false);
    let follow = follow(&pods, &heard);
    let act = async {
        // Before that, every container would be an orphan.
        let _ = synced.wait_for(|synced| *synced).await;
        let left = tokio::task::spawn_blocking({
            let pods = Arc::clone(&pods);
            move || pods.left_behind()
        });
        for uid in left.await.unwrap_or_default() {
            pods.queue.add(uid);
        }
        let sync = Syncer(Arc::clone(&pods));
        tokio::select! {
            () = pods.relist() => {}
            _ = work(&pods.queue, WORKERS, &sync) => {}
        }
    };
    tokio::select! {
        () = follow => {}
        () = act => {}
    }
}

/// Keeps the index as the API has it. Not a store of `runtime`, which drops what only a kubelet reads.
async fn follow(pods: &Pods, heard: &tokio::sync::watch::Sender<bool>) {
    let field_selector = Some(format!("spec.nodeName={}", pods.options.node_name));
    let config = watch::Config { field_selector, ..watch::Config::default() };
    let mut events = std::pin::pin!(watch::watch(Api::<Pod>::all(pods.client.clone()), config));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let changed = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(pod)) => {
                let pod = Arc::new(pod);
                listed.push(pod.metadata.uid.clone().unwrap_or_default());
                vec![pods.index.put(&pod)]
            }
            Ok(Event::InitDone) => {
                let gone = pods.index.keep(&std::mem::take(&mut listed));
                heard.send_replace(true);
                gone
            }
            Ok(Event::Apply(pod)) => vec![pods.index.put(&Arc::new(pod))],
            Ok(Event::Delete(pod)) => vec![pods.index.take(&pod)],
            Err(error) => {
                tracing::debug!(%error, "pods are not followed; tried again");
                continue;
            }
        };
        changed.into_iter().for_each(|uid| pods.queue.add(uid));
    }
}

/// Brings the Pods' network about when the ranges of this node are known, and again when they change or are lost.
async fn network(cni: Arc<Cni>, registrar: Arc<Registrar>, runtime: Runtime, given: Option<DualStack<Cidr>>) {
    let mut told = String::new();
    loop {
        let ranges = given.or_else(|| registrar.node().as_deref().and_then(ranges));
        if let Some(ranges) = ranges {
            let (cni, of) = (Arc::clone(&cni), ranges);
            let applied = tokio::task::spawn_blocking(move || cni.apply(&of)).await;
            let problem = match applied {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if !problem.is_empty() && problem != told {
                tracing::warn!(error = problem, "pods have no network; tried again");
            }
            told = problem;
            let text: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            let network_config = NetworkConfig { pod_cidr: text.join(",") };
            let request = UpdateRuntimeConfigRequest {
                runtime_config: Some(RuntimeConfig { network_config: Some(network_config) }),
            };
            // A hint that most runtimes ignore.
            let _: Result<_, CriError> = runtime.call_within(request, Duration::from_secs(10)).await;
        }
        // A node that waits for its ranges looks often.
        let wait =
            if registrar.node().as_deref().and_then(self::ranges).is_some() || given.is_some() { 30_000 } else { 200 };
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// The Pods' ranges of a node, in its order of families.
fn ranges(node: &Node) -> Option<DualStack<Cidr>> {
    let given = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone())?;
    let parsed: Vec<Cidr> = given.iter().filter_map(|text| text.parse().ok()).collect();
    DualStack::try_from(parsed).ok()
}
