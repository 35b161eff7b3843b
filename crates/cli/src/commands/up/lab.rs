//! The nodes of `up`: what the flags say, what they are made of, and their start beside the API server.

use super::{CLOUD_PROVIDER, HOLLOW_NODES, LOAD_BALANCER_IP_RANGE, Part};
use crate::{
    commands::{apiserver, controller_manager},
    flag::{DefaultFlag, Flag, cidrs, count},
};
use ::lab::{Cloud, Front, Home, Layout, Lock, Network, Node, NodeFlags, State, Tools, missing, sweep};
use anyhow::{Context, bail};
use apiserver::DATA_DIR;
use control::{
    framework::ControllerOptions,
    service_lb::{lab::CLASS, provider::Provider},
};
use install::image::{self, Recipe};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use net::{Cidr, DualStack, ServiceRange};
use runtime::{
    client::Api,
    config::Settings,
    kubeconfig::{Credential, Kubeconfig, Url},
    pki::{Authority, Purpose},
    stable_hash,
    task::Tasks,
};
use std::{
    convert::Infallible,
    fs::{self, File},
    io::BufWriter,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::net::TcpStream;

/// As many as it takes to see what leaves a node.
const USUAL: usize = 2;
/// The cluster's DNS has this place in the first range of Services.
const DNS_PLACE: u128 = 10;
/// Where agents of nodes answer, and how long that may take.
const KUBELET: u16 = 10250;
const PROXY: u16 = 10256;
const PATIENCE: Duration = Duration::from_secs(1);
const LAB_BLOCKS: &str = "198.18.0.0/24,fd00:10:18::/64";

#[rustfmt::skip]
pub(super) const NODES: Flag<usize> = count("nodes", "nodes that run Pods, each a network namespace with a containerd, kubelet and proxy of its own; needs root").otherwise("2 as root where containerd, runc and the CNI plugins are, else 0");
#[rustfmt::skip]
pub(super) const LAB_CIDR: DefaultFlag<DualStack<Cidr>> = cidrs("lab-cidr", "addresses of nodes, and of load balancers above the middle; the machine has the first one, at an interface of the lab").or(LAB_BLOCKS);
/// The same as of the controllers, as blocks.
const BALANCERS: Flag<DualStack<Cidr>> = cidrs(LOAD_BALANCER_IP_RANGE.name, "");

/// How many nodes are asked for, or come by themselves.
pub(super) fn count_of(settings: &Settings) -> usize {
    let number = |name: &str| settings.text(name).and_then(|text| text.trim().parse::<usize>().ok());
    let hollow = number(HOLLOW_NODES.name).is_some_and(|nodes| nodes > 0);
    let usual = if hollow || missing(is_root()).is_some() { 0 } else { USUAL };
    number(NODES.name).unwrap_or(usual)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// With nodes there are load balancers, whose addresses lead to them.
pub(super) fn with_defaults(settings: Settings) -> Settings {
    if count_of(&settings) == 0 {
        return settings;
    }
    let blocks = settings.text(LAB_CIDR.name).unwrap_or_else(|| LAB_BLOCKS.to_owned());
    let blocks: Vec<Cidr> = blocks.split(',').filter_map(|block| block.trim().parse().ok()).collect();
    let balancers: Vec<String> = blocks.into_iter().map(|block| ::lab::balancers(block).to_string()).collect();
    settings.defaults([
        (CLOUD_PROVIDER.name.to_owned(), "lab".to_owned()),
        (LOAD_BALANCER_IP_RANGE.name.to_owned(), balancers.join(",")),
    ])
}

/// What the flags say, where there are to be nodes.
pub(super) struct ForUp {
    home: Home,
    layout: Layout,
    balancers: Vec<Cidr>,
    tools: Tools,
    image: String,
}

/// Reads the flags. Without nodes it is said what they would need.
pub(super) fn read(
    given: &mut Settings,
    pods: Option<DualStack<Cidr>>,
    services: &DualStack<ServiceRange>,
) -> Result<ForUp, String> {
    let nodes = count_of(given);
    given.optional(&NODES);
    let cidr = given.get(&LAB_CIDR);
    let balancers = given.optional(&BALANCERS);
    let folder = given.optional(&DATA_DIR).unwrap_or_else(super::data_dir);
    let lacks = missing(is_root());
    let (Some(pods), 1..) = (pods, nodes) else {
        return Err(lacks.map_or_else(
            || "none; --nodes 2 runs Pods".to_owned(),
            |lacks| format!("none, so Pods stay Pending; for nodes: {lacks}"),
        ));
    };
    if let Some(lacks) = &lacks {
        given.reject(NODES.name, format!("needs more than there is: {lacks}"));
    }
    let cidrs: Vec<Cidr> = cidr.iter().copied().collect();
    let layout = Layout::new(&cidrs, pods, services.map(|_, range| range.cidr()), nodes);
    let layout = layout.map_err(|error| given.reject(LAB_CIDR.name, error.to_string()));
    let (Ok(layout), Some(tools)) = (layout, Tools::find()) else { return Err("none".to_owned()) };
    let balancers = balancers.unwrap_or_else(|| layout.balancers()).into_iter().collect();
    Ok(ForUp { home: Home::of(&folder), layout, balancers, tools, image: image_name() })
}

/// The image of this very program: another program, another name, so that Pods of the old one are replaced.
fn image_name() -> String {
    let about = std::env::current_exe().and_then(fs::metadata);
    let stamp = about.map_or(0, |about| {
        let changed = about.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        stable_hash(format!("{} {:?}", about.len(), changed).as_bytes())
    });
    format!("localhost/twinstack:{stamp:016x}")
}

/// A lab whose network is there. Dropped, it takes everything away.
pub(super) struct Lab {
    network: Arc<Network>,
    tools: Tools,
    image: String,
    balancers: Vec<Cidr>,
    _lock: Lock,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for left in sweep::sweep(&self.network.home) {
            tracing::warn!(left, "a part of the lab could not be taken away; `twinstack lab down` tries again");
        }
    }
}

impl ForUp {
    /// The name under which nodes have the image of this program.
    pub(super) fn image(&self) -> String {
        self.image.clone()
    }

    /// Takes away what a killed process left, and makes the network.
    pub(super) fn prepare(self, kubeconfig: &Path) -> anyhow::Result<Lab> {
        let Self { home, layout, balancers, tools, image } = self;
        let Some(lock) = home.lock().with_context(|| format!("the lab in {}", home.data.display()))? else {
            bail!(
                "another process runs the lab in {}; stop it first, or choose another --data-dir",
                home.data.display()
            );
        };
        let left = sweep::sweep(&home);
        if !left.is_empty() {
            bail!("what the lab left before cannot be taken away: {}", left.join(", "));
        }
        let made = Network::make(home.clone(), layout, &balancers);
        let network = made.inspect_err(|_| drop(sweep::sweep(&home))).context("the network of the lab")?;
        State::of(&network, kubeconfig.to_owned(), &balancers).write(&home)?;
        Ok(Lab { network: Arc::new(network), tools, image, balancers, _lock: lock })
    }
}

impl Lab {
    /// The name under which nodes have the image of this program.
    pub(super) fn image(&self) -> &str {
        &self.image
    }

    /// Where nodes reach the machine.
    pub(super) fn machine(&self) -> DualStack<IpAddr> {
        self.network.layout.machine
    }

    fn nodes(&self) -> Vec<Node> {
        self.network.layout.nodes.iter().map(|node| Node::new(&self.network.home, node, &self.tools)).collect()
    }

    /// Gives the controllers routes to Pods and ways to load balancers.
    pub(super) fn provide(&self, control: &mut ControllerOptions, tasks: &Tasks) {
        let providers = &mut control.service_lb.providers;
        let Some(pool) = providers.by_class.get(CLASS).map(Provider::share) else { return };
        let front = Arc::new(Front::new(Arc::clone(&self.network), self.balancers.clone()));
        let cloud = Provider::new(Cloud::new(Arc::clone(&self.network), pool, Arc::clone(&front)));
        if providers.default.is_some() {
            providers.default = Some(cloud.clone());
        }
        providers.by_class.insert(CLASS.to_owned(), cloud.clone());
        control.routes.provider = Some(cloud);
        tasks.once("lab front", |stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = front.follow() => {}
            }
            Ok::<_, Infallible>(())
        });
    }

    /// Starts what needs no API: runtimes, and the images that nodes have instead of a registry.
    pub(super) fn start_runtimes(&self, tasks: &Tasks) -> anyhow::Result<tokio::task::JoinHandle<anyhow::Result<()>>> {
        for node in self.nodes() {
            node.start_runtime(tasks).with_context(|| format!("the folders of {}", node.layout.name))?;
        }
        let (folder, image) = (self.images(), self.image.clone());
        Ok(tokio::task::spawn_blocking(move || make_images(&folder, &image)))
    }

    fn images(&self) -> PathBuf {
        self.network.home.data.join("images")
    }

    /// Starts kubelets and proxies once there is an API, as a task.
    pub(super) fn start_nodes(
        &self,
        started: &::apiserver::launch::Started,
        domain: String,
        images: tokio::task::JoinHandle<anyhow::Result<()>>,
        tasks: &Tasks,
    ) -> anyhow::Result<()> {
        let ranges = &self.network.layout.ranges;
        let list = |cidrs: &DualStack<Cidr>| cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let flags = NodeFlags {
            program: std::env::current_exe().context("this program does not know where it is")?,
            cluster_cidr: list(&ranges.pods),
            cluster_dns: ranges.services.primary().nth(DNS_PLACE).map(|ip| ip.to_string()).unwrap_or_default(),
            cluster_domain: domain,
            client_ca: std::path::absolute(started.certificates.join("ca.crt"))?,
            images: self.images(),
        };
        let port = started.addresses.first().map_or(0, SocketAddr::port);
        let server = SocketAddr::new(*self.machine().primary(), port);
        let authority = Authority::load_or_create(&started.certificates, "twinstack", SystemTime::now())?;
        let shown = controller_manager::root_ca(&started.kubeconfig);
        let write = |path: &Path, user: String, groups: Vec<String>| -> anyhow::Result<()> {
            let purpose = Purpose::Client { user: user.clone(), groups };
            let credential = Credential::Certificate(authority.issue(&purpose, SystemTime::now())?);
            let authority_pem = shown.clone().unwrap_or_else(|| authority.certificate_pem().to_owned());
            let servers = vec![("twinstack".to_owned(), Url::from(server))];
            Ok(Kubeconfig { user, servers, authority_pem, credential }.write(path)?)
        };
        let nodes = self.nodes();
        for node in &nodes {
            let name = &node.layout.name;
            write(&node.kubelet_kubeconfig(), format!("system:node:{name}"), vec!["system:nodes".to_owned()])?;
            write(&node.proxy_kubeconfig(), "system:kube-proxy".to_owned(), Vec::new())?;
        }
        let own = tasks.clone();
        tasks.once("lab", |stop| async move {
            let all = async {
                for node in &nodes {
                    node.runtime_answers().await?;
                }
                images.await??;
                nodes.iter().for_each(|node| node.start_agents(&own, &flags));
                anyhow::Ok(())
            };
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                done = all => done.map_err(|error| std::io::Error::other(format!("{error:#}"))),
            }
        });
        Ok(())
    }

    /// How far nodes have come, before and after the start.
    pub(super) fn serving(&self, client: kube::Client) -> Serving {
        Serving::Nodes { client, names: self.network.layout.nodes.iter().map(|node| node.name.clone()).collect() }
    }
}

/// How far nodes have come.
pub(super) enum Serving {
    /// There are none, and what they would need.
    Off(String),
    Nodes {
        client: kube::Client,
        names: Vec<String>,
    },
}

impl Serving {
    pub(super) fn are_there(&self) -> bool {
        matches!(self, Self::Nodes { .. })
    }

    pub(super) async fn look(&self) -> Part {
        let (client, names) = match self {
            Self::Off(why) => return Part::Off(why.clone()),
            Self::Nodes { client, names } => (client, names),
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let mut lines = Vec::new();
        for name in names {
            let node = match api.get_opt(name).await {
                Ok(node) => node.map(|node| node.data).unwrap_or_default(),
                Err(error) => return Part::Missing(error.to_string()),
            };
            let list = |field: &str| node["status"][field].as_array().cloned().unwrap_or_default();
            let ready = list("conditions").into_iter().find(|one| one["type"] == "Ready");
            if ready.as_ref().is_none_or(|one| one["status"] != "True") {
                let why = ready.and_then(|one| one["message"].as_str().map(str::to_owned));
                let why = why.unwrap_or_else(|| "it has not registered yet; `twinstack lab logs` says more".to_owned());
                return Part::Missing(format!("{name}: {why}"));
            }
            let ips = list("addresses").into_iter().filter(|one| one["type"] == "InternalIP");
            let ips: Vec<String> = ips.filter_map(|one| one["address"].as_str().map(str::to_owned)).collect();
            // A Node that was Ready when the last process ended stays so for a while.
            for (agent, port) in [("kubelet", KUBELET), ("proxy", PROXY)] {
                let at = ips.first().and_then(|ip| ip.parse::<IpAddr>().ok()).map(|ip| SocketAddr::new(ip, port));
                let Some(at) = at else { return Part::Missing(format!("{name} has no address")) };
                let answers = tokio::time::timeout(PATIENCE, TcpStream::connect(at)).await;
                if !answers.is_ok_and(|connected| connected.is_ok()) {
                    return Part::Missing(format!("{name}: its {agent} does not answer at {at}"));
                }
            }
            lines.push(format!("{name} ({})", ips.join(", ")));
        }
        Part::Serves(lines.join(", "))
    }
}

/// The images that every node has: what holds Pods, a shell where the machine has one, and this program.
fn make_images(folder: &Path, own: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let program = std::env::current_exe()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = std::env::var("TWINSTACK_TOOLS").unwrap_or_default();
    let path = format!("{tools}:{path}:/usr/sbin:/sbin");
    let tag = own.rsplit(':').next().unwrap_or_default();
    let keep = format!("twinstack-{tag}.tar");
    for old in fs::read_dir(folder)?.flatten() {
        let name = old.file_name().to_string_lossy().into_owned();
        if name.starts_with("twinstack-") && name != keep {
            // Of a program that is no more.
            let _ = fs::remove_file(old.path());
        }
    }
    let write = |recipe: Recipe, file: &str, name: &str| -> anyhow::Result<()> {
        let output = folder.join(file);
        if output.exists() {
            return Ok(());
        }
        let part = output.with_extension("part");
        let image = recipe.image(&program, &path)?;
        image::write(&image, name, BufWriter::new(File::create(&part)?))?;
        Ok(fs::rename(&part, &output)?)
    };
    write(Recipe::Pause, "pause.tar", "localhost/twinstack-pause:latest")?;
    if let Err(error) = write(Recipe::Busybox, "busybox.tar", "localhost/twinstack-busybox:latest") {
        tracing::info!(%error, "nodes have no image localhost/twinstack-busybox:latest");
    }
    write(Recipe::Twinstack { with: Vec::new() }, &keep, own).context("the image of this program")
}
