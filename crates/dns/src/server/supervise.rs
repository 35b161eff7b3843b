//! Start, reload and stop. Sockets outlive a reload: only what they serve is exchanged, so that no query is lost.

use super::{
    doh,
    http::{self, Current, Status},
    reload::{self, LoadError},
    sockets::{self, OpenError},
    tcp,
    udp::{Job as UdpJob, Thread},
};
use crate::{
    compile::{Endpoint, Instance, Job, Lasting},
    corefile::Scheme,
    plugin::kubernetes::STARTUP,
    random,
    routes::Routes,
};
use arc_swap::ArcSwap;
use runtime::{admin::Admin, listen::ListenError, metrics::Metrics, task::Tasks};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longest time of going on after a signal (`lameduck`), for who gives a stop as long as [`LONGEST_STOP`].
const LAMEDUCK: Duration = Duration::from_secs(300);
/// What remains of a stop after that, for queries that wait.
const REST: Duration = Duration::from_secs(8);
/// How long a stop may take at most.
pub const LONGEST_STOP: Duration = LAMEDUCK.saturating_add(REST);

/// What the command says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Corefile.
    pub conf: PathBuf,
    /// Port of blocks that name none.
    pub port: u16,
    /// Threads for UDP.
    pub threads: usize,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The Corefile.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A socket for queries.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A socket for health, readiness or metrics.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Threads or signals.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A server that runs.
#[derive(Clone, Debug)]
pub struct Started {
    /// Where it answers.
    pub addresses: Vec<SocketAddr>,
}

/// Starts everything; it goes on as tasks, which stop within the usual grace.
pub async fn start(settings: Settings, admin: Admin, tasks: &Tasks) -> Result<Started, StartError> {
    start_within(settings, runtime::shutdown::GRACE, admin, tasks).await
}

/// Starts everything, for a process that gives a stop so much time: a longer `lameduck` is cut.
pub async fn start_within(
    settings: Settings,
    grace: Duration,
    admin: Admin,
    tasks: &Tasks,
) -> Result<Started, StartError> {
    // First of all: before it is waited for, this signal ends a process.
    let reload_signal = signal(SignalKind::user_defined1())?;
    let lasting = Lasting::default();
    lasting.counters.register(&admin.metrics);
    let instance = reload::load(&settings.conf, settings.port, &lasting)?;
    let clients = tcp::Clients::new(lasting.counters.closed_connections.clone());
    let mut server = Server {
        threads: (0..settings.threads.max(1)).map(Thread::start).collect::<Result<_, _>>()?,
        settings,
        tasks: tasks.clone(),
        metrics: admin.metrics,
        lasting,
        status: Arc::default(),
        clients,
        endpoints: BTreeMap::new(),
        http: BTreeMap::new(),
        connections: JoinSet::new(),
        running: None,
        reload: None,
        lameduck: Duration::ZERO,
        most: grace.saturating_sub(REST).max(grace / 2).min(LAMEDUCK),
        seen: None,
    };
    server.seen = reload::fingerprint(&server.settings.conf);
    server.begin(instance).await?;
    let addresses = server.endpoints.values().flat_map(|open| open.listening.clone()).collect();
    tasks.serve("dns", |stop| server.run(stop, reload_signal));
    Ok(Started { addresses })
}

struct Server {
    settings: Settings,
    tasks: Tasks,
    metrics: Metrics,
    lasting: Lasting,
    status: Arc<Status>,
    threads: Vec<Thread>,
    clients: tcp::Clients,
    endpoints: BTreeMap<Endpoint, Open>,
    http: BTreeMap<SocketAddr, DropGuard>,
    /// TCP and HTTP.
    connections: JoinSet<()>,
    /// Ends the jobs of the running Corefile.
    running: Option<DropGuard>,
    reload: Option<(Duration, Duration)>,
    lameduck: Duration,
    /// Longest time of going on after a signal.
    most: Duration,
    /// The Corefile as it was when it was last looked at.
    seen: Option<String>,
}

/// The sockets of an endpoint that is served.
struct Open {
    routes: Arc<ArcSwap<Routes>>,
    stop: CancellationToken,
    listening: Vec<SocketAddr>,
}

impl Server {
    /// Puts a Corefile into operation, in the place of the one before.
    async fn begin(&mut self, mut instance: Instance) -> Result<(), StartError> {
        // Everything that can fail comes first, so that what runs goes on.
        let mut opened = Vec::new();
        for endpoint in instance.routes.keys().filter(|endpoint| !self.endpoints.contains_key(endpoint)) {
            opened.push((*endpoint, sockets::open(*endpoint, self.threads.len())?));
        }
        let mut listening = Vec::new();
        for address in instance.http.keys().filter(|address| !self.http.contains_key(address)) {
            listening.push((*address, http::open(*address)?));
        }
        let token = CancellationToken::new();
        instance.jobs.drain(..).for_each(|job| self.start_job(job, Some(token.clone())));
        instance.lasting_jobs.drain(..).for_each(|job| self.start_job(job, None));
        self.wait_until_ready(&instance).await;

        let Instance { routes, checks, http, reload, lameduck, hash, .. } = instance;
        (self.reload, self.lameduck) = (reload, lameduck);
        self.lasting.counters.version.clear();
        let labels = vec![("hash", "sha512".to_owned()), ("value", hash.clone())];
        self.lasting.counters.version.get_or_create(&labels).set(1);
        tracing::info!(sha512 = hash, "running configuration");
        self.http.retain(|address, _| http.contains_key(address));
        *self.status.current.write() = Current { paths: http, checks, hash, refused: None };
        self.endpoints.retain(|endpoint, open| {
            let kept = routes.get(endpoint);
            match kept {
                Some(routes) => open.routes.store(Arc::clone(routes)),
                None => open.stop.cancel(),
            }
            kept.is_some()
        });
        for (endpoint, opened) in opened {
            if let Some(routes) = routes.get(&endpoint) {
                self.serve(endpoint, opened, routes)?;
            }
        }
        for (address, listeners) in listening {
            let stop = CancellationToken::new();
            let work = http::serve(address, listeners, Arc::clone(&self.status), self.metrics.clone(), stop.clone());
            self.connections.spawn(work);
            self.http.insert(address, stop.drop_guard());
        }
        // Only now: until here the old one answered.
        self.running = Some(token.drop_guard());
        Ok(())
    }

    fn start_job(&self, job: Job, until: Option<CancellationToken>) {
        let Job { name, run } = job;
        self.tasks.restarting(&name, move |stop| {
            let until = until.clone().unwrap_or_default();
            let work = run(stop.clone());
            async move {
                tokio::select! {
                    () = until.cancelled() => Ok(()),
                    result = work => result,
                }
            }
        });
    }

    /// Clusters get a moment to be listed; then it goes on without them.
    async fn wait_until_ready(&self, instance: &Instance) {
        let ready = || instance.checks.iter().all(|(_, check)| check());
        let all = async {
            while !ready() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(STARTUP, all).await.is_err() {
            tracing::warn!("the cluster was not listed in time; serving what is known");
        }
    }

    fn serve(&mut self, endpoint: Endpoint, opened: sockets::Opened, routes: &Arc<Routes>) -> Result<(), StartError> {
        let sockets::Opened { udp, tcp, .. } = opened;
        let routes = Arc::new(ArcSwap::new(Arc::clone(routes)));
        let stop = CancellationToken::new();
        let mut listening = Vec::new();
        for listener in tcp {
            listening.push(listener.local_addr()?);
            if endpoint.scheme == Scheme::Https {
                self.connections.spawn(doh::serve(listener, Arc::clone(&routes), stop.clone()));
                continue;
            }
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let work = tcp::serve(listener, Arc::clone(&routes), self.clients.clone(), stop.clone());
            self.connections.spawn(work);
        }
        for (thread, sockets) in self.threads.iter().zip(udp) {
            for socket in sockets {
                thread.serve(UdpJob { socket, routes: Arc::clone(&routes), stop: stop.clone() });
            }
        }
        self.endpoints.insert(endpoint, Open { routes, stop, listening });
        Ok(())
    }

    async fn run(mut self, stop: CancellationToken, mut reload_signal: Signal) -> Result<(), StartError> {
        let fatal = self.lasting.fatal.clone();
        let ended = loop {
            let look = self.next_look();
            tokio::select! {
                () = stop.cancelled() => break Ok(()),
                reason = fatal.raised() => break Err(StartError::System(std::io::Error::other(reason))),
                _ = reload_signal.recv() => self.look(true).await,
                () = look => self.look(false).await,
                Some(_) = self.connections.join_next() => {}
            }
        };
        self.stop().await;
        ended
    }

    /// When the Corefile is looked at again; never without `reload`.
    fn next_look(&self) -> impl Future<Output = ()> + use<> {
        let pause = self.reload.map(|(interval, jitter)| {
            let jitter = jitter.mul_f64(random::below(1000) as f64 / 1000.0);
            interval + jitter
        });
        async move {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Takes up a Corefile that has changed; a broken one is refused, and said so.
    async fn look(&mut self, asked: bool) {
        let found = reload::fingerprint(&self.settings.conf);
        if found == self.seen && !asked {
            return;
        }
        self.seen = found;
        let loaded = reload::load(&self.settings.conf, self.settings.port, &self.lasting).map_err(StartError::from);
        let begun = match loaded {
            Ok(instance) => self.begin(instance).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(()) => tracing::info!(conf = %self.settings.conf.display(), "Corefile reloaded"),
            Err(error) => {
                tracing::error!(%error, "the new Corefile cannot be used; the old one goes on");
                self.lasting.counters.reload_failures.inc();
                self.status.current.write().refused = Some(error.to_string());
            }
        }
    }

    /// Not ready any more, but answering for a while; then what has arrived is answered, and nothing else.
    async fn stop(mut self) {
        self.status.stopping.store(true, Ordering::Relaxed);
        let lameduck = self.lameduck.min(self.most);
        if !lameduck.is_zero() {
            tracing::info!(?lameduck, "going on to answer for a while");
            tokio::time::sleep(lameduck).await;
        }
        self.endpoints.values().for_each(|open| open.stop.cancel());
        self.http.clear();
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(Thread::join));
        while self.connections.join_next().await.is_some() {}
        let _a_panic_is_logged_elsewhere = joined.await;
    }
}
