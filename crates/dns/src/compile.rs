//! From a Corefile to something that answers: every block's plugins set up, every mistake with its place.

use crate::{
    chain::{Chain, Stale},
    corefile::{Address, Block, Corefile, Problem, Scheme, Token},
    metrics::Counters,
    observe::Observers,
    plugin::{self, Plugin, kubernetes::Cluster},
    routes::Routes,
    sha512::sha512,
    wire::{Name, code::rcode},
};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// Where queries come in: an address of the machine, or all of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// One address; `None` is every address of the machine.
    pub address: Option<IpAddr>,
    /// For UDP and TCP.
    pub port: u16,
    pub scheme: Scheme,
}

/// What outlives a reload.
#[derive(Clone, Default)]
pub struct Lasting {
    /// Clusters that are being watched, by what their stanza says.
    pub clusters: Arc<Mutex<HashMap<String, Weak<Cluster>>>>,
    /// Everything that is counted.
    pub counters: Arc<Counters>,
    /// Why the process must end, once there is a reason.
    pub fatal: Fatal,
}

/// A reason to end, told by a plugin.
#[derive(Clone, Debug, Default)]
pub struct Fatal(Arc<tokio::sync::watch::Sender<Option<String>>>);

impl Fatal {
    /// Ends the process for this reason.
    pub fn raise(&self, reason: String) {
        self.0.send_replace(Some(reason));
    }

    /// Waits for a reason.
    pub async fn raised(&self) -> String {
        let mut receiver = self.0.subscribe();
        let reason = receiver.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }
}

/// Work that goes on beside the queries until the configuration is replaced.
pub struct Job {
    /// For logs and health.
    pub name: String,
    /// Ends when told so; an error starts it again later.
    pub run: Box<dyn Fn(CancellationToken) -> BoxFuture<'static, Result<(), JobError>> + Send + Sync>,
}

/// Why a job must begin again.
pub type JobError = Box<dyn std::error::Error + Send + Sync>;

/// Whether something is there that answers need.
pub type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// A Corefile in operation.
pub struct Instance {
    /// Which blocks are behind which address.
    pub routes: BTreeMap<Endpoint, Arc<Routes>>,
    /// To be started with it, and ended with it.
    pub jobs: Vec<Job>,
    /// To be started with it; they end by themselves when nobody needs them.
    pub lasting_jobs: Vec<Job>,
    /// Readiness, with the names of the plugins.
    pub checks: Vec<(&'static str, Check)>,
    /// Where `/health`, `/ready` and `/metrics` are served.
    pub http: BTreeMap<SocketAddr, Vec<HttpPath>>,
    /// How often the file is looked at.
    pub reload: Option<(Duration, Duration)>,
    /// How long to go on answering after a signal.
    pub lameduck: Duration,
    /// Of the blocks as they were read: layout and comments do not count.
    pub hash: String,
}

/// What is served on an HTTP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpPath {
    /// `/health`.
    Health,
    /// `/ready`.
    Ready,
    /// `/metrics`.
    Metrics,
}

/// A server block while its plugins are being set up.
pub struct Building<'a> {
    /// Its zones, in lower case.
    pub zones: Vec<Name>,
    pub ports: Vec<u16>,
    /// The file's folder, to which other paths are relative.
    pub folder: PathBuf,
    /// What is there already.
    pub lasting: &'a Lasting,
    /// What the whole file gets.
    pub whole: &'a mut Instance,
    /// So far.
    pub plugins: Vec<Box<dyn Plugin>>,
    /// So far.
    pub observers: Observers,
    /// See [`Chain::nsid`].
    pub nsid: Option<Vec<u8>>,
    /// From `bind`.
    pub addresses: Vec<IpAddr>,
    /// The cluster of `kubernetes`, for those who wait for it.
    pub cluster: Option<Arc<plugin::kubernetes::Kubernetes>>,
    pub(crate) waiting: Vec<WaitsForCluster>,
    /// Whether addresses of Services outside of the cluster are asked for.
    pub externals: bool,
    /// Whether a plugin answers classes other than IN.
    pub other_classes: bool,
    /// See [`Chain::reads_options`].
    pub reads_options: bool,
    /// From `timeouts`.
    pub timeouts: Option<plugin::timeouts::Timeouts>,
    /// From `tls`.
    pub tls: Option<Arc<plugin::tls::ServerTls>>,
    /// From `view`.
    pub view: Option<plugin::view::View>,
}

/// A plugin that works with the cluster of `kubernetes`, which is set up after it.
pub(crate) struct WaitsForCluster {
    pub(crate) plugin: &'static str,
    /// The word that asks for it.
    pub(crate) token: Token,
    /// Which cluster will do, and what is said where there is none.
    pub(crate) accepts: fn(&plugin::kubernetes::Kubernetes) -> bool,
    pub(crate) needs: &'static str,
    /// Where it is put.
    pub(crate) place: ClusterPlace,
}

/// Filled when the block is set up.
pub(crate) type ClusterPlace = Arc<std::sync::OnceLock<Arc<plugin::kubernetes::Kubernetes>>>;

/// Sets up everything in a Corefile. Nothing runs yet: jobs are started by the server.
pub fn compile(corefile: &Corefile, folder: PathBuf, port: u16, lasting: &Lasting) -> Result<Instance, Problem> {
    let mut whole = Instance {
        routes: BTreeMap::new(),
        jobs: Vec::new(),
        lasting_jobs: Vec::new(),
        checks: Vec::new(),
        http: BTreeMap::new(),
        reload: None,
        lameduck: Duration::ZERO,
        hash: sha512(&corefile.to_string()),
    };
    let mut routes: BTreeMap<Endpoint, Routes> = BTreeMap::new();
    for block in &corefile.blocks {
        set_up(block, &folder, port, lasting, &mut whole, &mut routes)?;
    }
    let (refreshes, stale) = unbounded_channel();
    whole.jobs.push(refreshing(stale));
    let counted = |(endpoint, mut routes): (Endpoint, Routes)| {
        routes.refreshes = Some(refreshes.clone());
        routes.dropped = Some(Observers::dropped(lasting, endpoint.scheme, endpoint.port));
        (endpoint, Arc::new(routes))
    };
    whole.routes = routes.into_iter().map(counted).collect();
    Ok(whole)
}

/// Fetches answers anew, as many at a time as there are.
fn refreshing(stale: UnboundedReceiver<Stale>) -> Job {
    let stale = Arc::new(tokio::sync::Mutex::new(stale));
    let run = move |stop: CancellationToken| {
        let stale = Arc::clone(&stale);
        let work = async move {
            let mut stale = stale.lock().await;
            let mut running = FuturesUnordered::new();
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    Some(()) = running.next(), if !running.is_empty() => {}
                    asked = stale.recv() => match asked {
                        Some((routes, chain, query)) => running.push(async move { chain.refresh(&routes, query).await }),
                        None => return Ok(()),
                    },
                }
            }
        };
        Box::pin(work) as BoxFuture<'static, Result<(), JobError>>
    };
    Job { name: "dns-refresh".to_owned(), run: Box::new(run) }
}

fn set_up(
    block: &Block,
    folder: &std::path::Path,
    port: u16,
    lasting: &Lasting,
    whole: &mut Instance,
    routes: &mut BTreeMap<Endpoint, Routes>,
) -> Result<(), Problem> {
    let mut addresses = Vec::new();
    for key in &block.keys {
        addresses.extend(Address::parse(key, port)?.into_iter().map(|address| (key, address)));
    }
    for directive in &block.directives {
        let known = || plugin::names();
        if !known().any(|name| name == directive.name.text) {
            if let Some(why) = plugin::absent(&directive.name.text) {
                return Err(Problem::at(&directive.name, format!("this plugin of CoreDNS is not built here: {why}")));
            }
            let near = runtime::suggest::nearest(&directive.name.text, known());
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let known: Vec<&str> = known().collect();
            return Err(Problem::at(&directive.name, format!("unknown plugin{near}; known: {}", known.join(", "))));
        }
    }
    let zones: Vec<Name> = addresses.iter().map(|(_, address)| address.zone).collect();
    let mut ports: Vec<u16> = addresses.iter().map(|(_, address)| address.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let observers = Observers::new(lasting, &zones, &ports);
    let mut building = Building {
        zones,
        ports,
        folder: folder.to_owned(),
        lasting,
        whole,
        plugins: Vec::new(),
        observers,
        nsid: None,
        addresses: Vec::new(),
        cluster: None,
        waiting: Vec::new(),
        externals: false,
        other_classes: false,
        reads_options: false,
        timeouts: None,
        tls: None,
        view: None,
    };
    for (name, setup) in plugin::order(&block.directives) {
        let lines: Vec<_> = block.directives.iter().filter(|directive| directive.name.text == *name).collect();
        if !lines.is_empty() {
            setup(&lines, &mut building).map_err(|problem| problem.within(name))?;
            let labels = building.observers.labels().iter().cloned().chain([("name", (*name).to_owned())]).collect();
            lasting.counters.enabled.get_or_create(&labels).set(1);
        }
    }
    for WaitsForCluster { plugin, token, accepts, needs, place } in &building.waiting {
        let Some(cluster) = building.cluster.as_ref().filter(|cluster| accepts(cluster)) else {
            return Err(Problem::at(token, *needs).within(plugin));
        };
        // Nobody else sets it.
        let _ = place.set(Arc::clone(cluster));
    }
    let Building {
        mut plugins,
        observers,
        nsid,
        addresses: bound,
        other_classes,
        reads_options,
        timeouts,
        tls,
        view,
        ..
    } = building;
    let view = view.map(Arc::new);

    if plugins.is_empty() {
        // Nothing to ask: not even a failure.
        plugins.push(Box::new(Refuse));
    }
    let plugins: Arc<[Box<dyn Plugin>]> = plugins.into();
    let bound: Vec<Option<IpAddr>> = if bound.is_empty() { vec![None] } else { bound.into_iter().map(Some).collect() };
    for (key, address) in &addresses {
        if address.scheme != Scheme::Dns && tls.is_none() {
            return Err(Problem::at(key, "needs a tls line with a certificate in this block"));
        }
        // Every zone counts for itself.
        let observers = observers.of_zone(lasting, (address.scheme, address.port), &address.zone);
        let chain = Chain { plugins: Arc::clone(&plugins), observers, nsid: nsid.clone(), reads_options };
        let chain = Arc::new(chain);
        for bound in &bound {
            let endpoint = Endpoint { address: *bound, port: address.port, scheme: address.scheme };
            let overlap = routes.keys().any(|other| {
                other.port == endpoint.port && endpoint.port != 0 && other.address.is_none() != bound.is_none()
            });
            if overlap {
                let problem = "one block on this port listens on every address, another on some; give both a bind";
                return Err(Problem::at(key, problem));
            }
            let server = routes.entry(endpoint).or_default();
            server.other_classes |= other_classes;
            if address.scheme != Scheme::Dns {
                // The first block of an address decides who it is, as only one certificate can be shown.
                server.tls = server.tls.take().or_else(|| tls.clone());
            }
            server.timeouts = timeouts.unwrap_or(server.timeouts);
            if !server.add_view(&address.zone, view.as_ref(), &chain) {
                return Err(Problem::at(key, "this zone and port are already served by another block"));
            }
        }
    }
    Ok(())
}

/// A block without plugins.
struct Refuse;

impl Plugin for Refuse {
    fn name(&self) -> &'static str {
        ""
    }

    fn before(&self, _: &mut crate::query::Query, reply: &mut crate::wire::Reply) -> plugin::Step {
        reply.fail(rcode::REFUSED, None);
        plugin::Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;
    use proptest::prelude::*;

    #[test]
    fn the_usual_corefiles_of_clusters_are_understood() {
        let kubeadm = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . 192.0.2.53 [2001:db8::53]:53 {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";
        let openshift = "# foo
foo.com:5353 bar.com:5353  {
    prometheus 127.0.0.1:9153
    forward . 192.0.2.1 2001:DB8::1 {
        policy random
    }
    errors
    log . {
        class error
    }
    bufsize 1232
    cache 900 {
        denial 9984 30
    }
}
.:5353 {
    bufsize 1232
    errors
    log . {
        class denial error
    }
    health {
        lameduck 20s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus 127.0.0.1:9153
    forward . 192.0.2.53 {
        policy sequential
        force_tcp
    }
    cache 900 {
        denial 9984 30
    }
    reload
}
hostname.bind:5353 {
    chaos
}
";
        for (text, endpoints, addresses) in [(kubeadm, 1, 3), (openshift, 1, 3)] {
            let built = testing::build(text).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!((built.routes.len(), built.http.len()), (endpoints, addresses), "{text}");
            assert!(built.reload.is_some());
            assert_eq!(built.checks.len(), 1);
        }
    }

    #[test]
    fn zones_that_meet_are_refused() {
        for (text, expected) in [
            (
                "a.test {\n}\nA.test {\n}",
                "Corefile:3:1: \"A.test\": this zone and port are already served by another block",
            ),
            (
                "a {\n}\nb {\n bind 127.0.0.1\n}",
                "Corefile:3:1: \"b\": one block on this port listens on every address, another on some; give both a bind",
            ),
        ] {
            assert_eq!(testing::refused(text), expected);
        }
        assert!(testing::build("a:53 {\n}\na:54 {\n}").is_ok());
    }

    #[test]
    fn comments_and_layout_do_not_change_the_hash() {
        let hash = |text| testing::build(text).unwrap().hash;
        assert_eq!(hash(". {\n any\n}"), hash("# x\n.   {\n\tany # y\n}\n"));
        assert_ne!(hash(". {\n any\n}"), hash(". {\n any\n errors\n}"));
    }

    /// Words that plugins know, and some that none does.
    fn word() -> impl Strategy<Value = String> {
        let known = "IN A AAAA ANY . a.test 10.0.0.0/8 fd00::/9 192.0.2.1 [::1]:53 tls://192.0.2.1%x 5 0 -1 5s 1h 10% x=y \
                     @kubernetes ^a.*$ ( {{.Name}} {{ name exact suffix regex answer auto type net * stop continue \
                     immediate verify success denial REFUSED NOERROR disabled verified policy random class all";
        proptest::sample::select(known.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn line(names: Vec<&'static str>) -> impl Strategy<Value = String> {
        let words = proptest::collection::vec(word(), 0..5);
        (proptest::sample::select(names), words).prop_map(|(name, words)| format!("{name} {}", words.join(" ")))
    }

    fn inner() -> Vec<&'static str> {
        "match answer authority rcode fallthrough ederror except pods ttl namespaces kubeconfig labels ignore success denial \
         prefetch serve_stale servfail disable keepttl policy expire health_check max_concurrent failover tls_servername \
         lameduck class consolidate monitor allow block filter drop reload no_reverse 192.0.2.1 name"
            .split_whitespace()
            .collect()
    }

    proptest! {
        #[test]
        fn any_lines_are_set_up_or_refused(
            lines in proptest::collection::vec(
                (line(crate::plugin::names().collect()), proptest::collection::vec(line(inner()), 0..4)), 0..6),
        ) {
            let mut text = ". {\n".to_owned();
            for (line, block) in lines {
                text.push_str(&format!(" {line} {{\n  {}\n }}\n", block.join("\n  ")));
            }
            text.push('}');
            let _ = testing::build(&text);
        }
    }
}
