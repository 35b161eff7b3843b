//! The router's loop: what changed, what follows, bring it to HAProxy, tell the objects.

use super::{
    counted::Served,
    default_certificate, families, files,
    haproxy::{
        Files, Haproxy, HaproxyError, Jail, Layout, Live, Need, Process, SHOW_ALL, Socket, User, forget_keys,
        show_backend, write,
    },
    log,
    metrics::RouterMetrics,
    model::{self, Backend, Certificate, Id, Model, Source, Termination},
    reachable,
    serve::Health,
    service_ca,
    settings::{ProxyProtocol, Settings},
    status::{StatusWriter, Verdict, Verdicts, Whose},
    waiting::Waiting,
    watch::{Changes, Watched},
};
use kube::Client;
use runtime::{
    admin::Admin,
    controller::{Context, Key, Queue, work},
    http::{BoxError, Limits, Server},
    listen::{self, Hosts},
    task::Tasks,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How often HAProxy, its certificate and the ways to pods are looked after when nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// What the command line says.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    /// HAProxy's program.
    pub haproxy: String,
    /// Where its files and sockets are kept.
    pub folder: PathBuf,
    /// Whether HAProxy goes on when the router is told to stop.
    pub keep_haproxy: bool,
    /// Who HAProxy becomes.
    pub user: User,
}

/// How long a stop may take.
#[must_use]
pub fn grace(settings: &Settings) -> Duration {
    settings.reload.shutdown_delay + settings.reload.shutdown_limit + Duration::from_secs(10)
}

/// Starts the router's tasks.
///
/// # Errors
/// When the folder, a port or the default certificate cannot be used.
pub fn start(
    client: Client,
    settings: Settings,
    options: RouterOptions,
    admin: &Admin,
    tasks: &Tasks,
) -> Result<(), BoxError> {
    let layout = Layout::new(&options.folder)?.with_jail(jail(&options.user)?);
    let process = Process::new(&options.haproxy, layout.clone());
    if !process.has("PCRE") {
        return Err("this HAProxy was built without PCRE, by which requests are checked".into());
    }
    let listen = families::of_this_machine(settings.listen.clone())?;
    let settings = Arc::new(with_open_files(with_lua(Settings { listen, ..settings }, &process)));
    runtime::atomic_file::private_directory(layout.folder())?;
    // Whatever was handed over is taken now.
    let _ = std::fs::remove_file(layout.hand_over());
    let certificate = default_certificate::read(&settings.tls)?;
    let given_ca = settings.tls.destination_ca.as_ref().map(|file| service_ca::read(file));
    let awaits_service_ca = given_ca == Some(None);
    let service_ca = first_service_ca(given_ca)?;
    let context = Context::new(client.clone(), (), admin, tasks);
    let watched = Arc::new(Watched::new(&context, &settings));
    let health = Arc::new(Health {
        settings: Arc::clone(&settings),
        admin: layout.admin(),
        metrics: admin.metrics.clone(),
        synced: false.into(),
        refusal: Default::default(),
        stopping: false.into(),
        counted: Default::default(),
    });
    serve_health(&health, tasks)?;
    let jailed = layout.jail().is_some();
    if let Some(log) = settings.log.as_ref().filter(|log| log.goes_through_router(jailed)) {
        let (socket, layout, to) = (log::open(&layout)?, layout.clone(), log.to.clone());
        tasks.once("access-log", |stop| log::pass_on(socket, layout, to, stop));
    }
    let verdicts = Verdicts::default();
    let statuses = context.queue::<Whose>("router-status");
    let router = Router {
        process,
        socket: Socket::new(&layout.admin()),
        model: Model::new(settings.admission.clone()),
        live: None,
        reachable: reachable::fingerprint(),
        need: Some(Need::Start),
        waiting: Waiting::default(),
        last_replaced: None,
        setbacks: 0,
        folder_was_gone: false,
        metrics: RouterMetrics::new(&admin.metrics),
        watched: Arc::clone(&watched),
        statuses: settings.update_status.then(|| statuses.clone()),
        verdicts: Arc::clone(&verdicts),
        health,
        certificate,
        service_ca,
        awaits_service_ca,
        files: files::fingerprint(&settings),
        layout,
        settings: Arc::clone(&settings),
    };
    let writer = StatusWriter { events: context.events("router"), client, settings, watched, verdicts };
    tasks.once("router", move |stop| async move { router.run(options.keep_haproxy, stop).await });
    tasks.once("router-status", move |stop| async move {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = work(&statuses, 4, &writer) => ended,
        }
    });
    Ok(())
}

/// Who HAProxy is to become. A user that was named and is not there is a mistake; what the machine does not allow is said.
fn jail(user: &User) -> Result<Option<Jail>, String> {
    match (user.jail(), user) {
        (Ok(jail), _) => Ok(Some(jail)),
        (Err(reason), User::Named(_)) => Err(reason),
        (Err(reason), _) => {
            tracing::warn!(reason, "HAProxy runs as the router's own user and sees what it sees");
            Ok(None)
        }
    }
}

/// What certificates of Services are checked against. One that is named and not there yet is nobody's, so that no pod is trusted
/// because an authority came late.
fn first_service_ca(given: Option<Option<String>>) -> Result<String, String> {
    match given {
        None => Ok(String::new()),
        Some(Some(pem)) => Ok(pem),
        Some(None) => {
            tracing::warn!(
                "DEFAULT_DESTINATION_CA_PATH has no authority yet: reencrypt Routes without one of their own wait"
            );
            service_ca::nobody()
        }
    }
}

/// Waiting for a header in pieces takes Lua.
fn with_lua(mut settings: Settings, process: &Process) -> Settings {
    let listen = &mut settings.listen;
    if listen.proxy_protocol != ProxyProtocol::Off && listen.split_headers && !process.has("LUA") {
        tracing::warn!("this HAProxy has no Lua: connections whose PROXY header arrives in pieces will be closed");
        listen.split_headers = false;
    }
    settings
}

/// What the machine allows HAProxy, which is started by this process and so has its limits.
fn with_open_files(mut settings: Settings) -> Settings {
    settings.resources.open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    settings
}

fn serve_health(health: &Arc<Health>, tasks: &Tasks) -> Result<(), BoxError> {
    let hosts = health.settings.listen.only.map_or(Hosts::Everywhere, Hosts::Each);
    let listeners = listen::tcp("STATS_PORT", &hosts, health.settings.listen.stats)?;
    let server = Server { listeners, tls: None, limits: Limits::default() };
    let health = Arc::clone(health);
    let service = tower::service_fn(move |request| {
        let health = Arc::clone(&health);
        async move { Ok::<_, std::convert::Infallible>(health.answer(request).await) }
    });
    tasks.serve("health", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

struct Router {
    settings: Arc<Settings>,
    layout: Layout,
    process: Process,
    socket: Socket,
    model: Model,
    live: Option<Live>,
    /// The machine's routes, to see when they change.
    reachable: String,
    /// Why HAProxy is to be replaced as soon as it may.
    need: Option<Need>,
    waiting: Waiting,
    last_replaced: Option<Instant>,
    /// How often in a row that failed, or did not last.
    setbacks: u32,
    /// Whether the working folder was removed under this router before.
    folder_was_gone: bool,
    certificate: Certificate,
    /// What certificates of Services are checked against.
    service_ca: String,
    /// Whether that is nobody's yet.
    awaits_service_ca: bool,
    /// Of what HAProxy read when it was started.
    files: String,
    metrics: RouterMetrics,
    watched: Arc<Watched>,
    /// None when this router writes no status.
    statuses: Option<Queue<Whose>>,
    verdicts: Verdicts,
    health: Arc<Health>,
}

/// The working folder was removed and is not made again. Not retryable here: whoever starts the router next has to give it one.
#[derive(Debug, thiserror::Error)]
#[error("the working folder {} was removed {why}; HAProxy has been told to finish", folder.display())]
struct FolderGone {
    folder: PathBuf,
    why: &'static str,
}

/// What a Route is told while its pods cannot be checked.
const NO_AUTHORITY: &str = "spec.tls.destinationCACertificate: is not given, and the router has no authority of Services to check \
                            pods by: requests are answered with 503 until it has";

/// How long HAProxy has to last for what was before to be forgotten.
const LASTING: Duration = Duration::from_secs(120);

/// Between two replacements: longer each time that one failed or did not last.
fn pause(interval: Duration, setbacks: u32) -> Duration {
    match setbacks {
        0 => interval,
        setbacks => interval.max(Duration::from_secs(1) * 2_u32.pow(setbacks.min(7) - 1)),
    }
}

impl Router {
    async fn run(mut self, keep_haproxy: bool, stop: CancellationToken) -> Result<(), FolderGone> {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = self.watched.synced() => {}
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pending = Arc::clone(&self.watched.pending);
        let mut end = None;
        // The first generation holds everything there is; who names which Secrets is known when the rest has been read.
        let first = tokio::task::block_in_place(|| {
            self.take_objects();
            self.model.settle(&*self.watched)
        });
        let named = self.model.take_named_secrets().unwrap_or_default();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = self.watched.secrets_synced(&named) => {}
        }
        tokio::task::block_in_place(|| self.take_changes());
        self.waiting.add(&first.objects);
        self.report(&first.objects);
        loop {
            let due = self.next_replacement();
            tokio::select! {
                () = pending.bell.notified() => tokio::task::block_in_place(|| self.take_changes()),
                () = at(due) => tokio::task::block_in_place(|| self.replace()),
                _ = tick.tick() => {
                    if let Err(gone) = tokio::task::block_in_place(|| self.look_after()) {
                        // Nobody could change this HAProxy any more, or find it.
                        self.health.stopping.store(true, Ordering::Relaxed);
                        self.stop_haproxy().await;
                        return Err(gone);
                    }
                }
                () = stop.cancelled(), if end.is_none() => {
                    self.health.stopping.store(true, Ordering::Relaxed);
                    end = Some(Instant::now() + self.settings.reload.shutdown_delay);
                }
                () = at(end) => break,
            }
        }
        if !keep_haproxy && !self.layout.hand_over().exists() {
            self.stop_haproxy().await;
        }
        Ok(())
    }

    /// When HAProxy is to be replaced, if it is: not too soon after the last time.
    fn next_replacement(&self) -> Option<Instant> {
        self.need?;
        let Some(last) = self.last_replaced else { return Some(Instant::now()) };
        Some(last + pause(self.settings.reload.interval, self.setbacks))
    }

    /// Brings what changed as far as it goes without a new generation.
    fn take_changes(&mut self) {
        self.take_objects();
        self.settle();
    }

    /// Tells the model which objects changed.
    fn take_objects(&mut self) {
        let Changes { objects, services, secrets, classes, namespaces } = self.watched.pending.take();
        for (source, key) in objects {
            self.model.object_changed(source, key);
        }
        for key in services {
            self.model.service_changed(key);
        }
        for key in &secrets {
            self.model.secret_changed(key);
        }
        if classes {
            let all = self.watched.ingresses.all();
            all.iter().for_each(|ingress| self.model.object_changed(Source::Ingress, Key::of(&**ingress)));
        }
        for namespace in &namespaces {
            let routes = self.watched.routes.in_namespace(namespace);
            routes.iter().for_each(|route| self.model.object_changed(Source::Route, Key::of(&**route)));
            let ingresses = self.watched.ingresses.in_namespace(namespace);
            ingresses.iter().for_each(|ingress| self.model.object_changed(Source::Ingress, Key::of(&**ingress)));
        }
    }

    fn settle(&mut self) {
        let delta = self.model.settle(&*self.watched);
        if let Some(named) = self.model.take_named_secrets() {
            self.watched.secrets.name(&named);
        }
        if let Some(live) = &mut self.live {
            let need = live.apply(&self.model, &delta, &mut self.socket);
            self.need = self.need.or(need);
            self.metrics.changed(live.spares());
            delta.backends.iter().for_each(|id| self.count(id));
        }
        if self.need.is_some() {
            self.waiting.add(&delta.objects);
        }
        self.report(&delta.objects);
    }

    /// Counts for a claim what its backend of now does, and goes on from what the last one did.
    fn count(&mut self, id: &Id) {
        let now = self.live.as_ref().and_then(|live| live.backend(id));
        let last = self.health.counted.lock().backend(id).map(str::to_owned);
        if now == last.as_deref() {
            return;
        }
        let served = now.and_then(|_| self.served(id));
        let told = last.filter(|_| served.is_some()).and_then(|last| self.socket.ask(&show_backend(&last)).ok());
        let mut counted = self.health.counted.lock();
        told.into_iter().for_each(|told| counted.left(id, &told));
        counted.serves(id, served);
    }

    fn served(&self, id: &Id) -> Option<Served> {
        let (live, claim) = (self.live.as_ref()?, &self.model.backend(id)?.claim);
        let backend = live.backend(id)?;
        Some(Served::new(backend, claim.termination, live.spent(backend)))
    }

    /// Writes what became of objects into their status.
    fn report(&self, objects: &BTreeSet<(Source, Key)>) {
        let Some(statuses) = &self.statuses else { return };
        for (source, key) in objects {
            let whose = Whose { source: *source, key: key.clone() };
            // What was accepted before goes on being served, and is still called so.
            let is_served = || self.live.as_ref().is_some_and(|live| live.serves(*source, key));
            let refusal = self.waiting.refusal(*source, key).filter(|_| !is_served());
            let verdict = self.model.verdicts(*source, key).map(|claims| {
                let claims = refusal.map_or(claims, |refusal| vec![Err(refusal)]);
                let route = self.watched.routes.get(key).filter(|_| *source == Source::Route);
                let host = route.as_ref().and_then(|route| model::hostname(route, &self.settings.admission).ok());
                let mut ignored = self.model.ignored(*source, key);
                if route.is_some() && self.model.backend(&Id::route(key.clone())).is_some_and(|one| self.waits(one)) {
                    ignored.push(NO_AUTHORITY.to_owned());
                }
                Verdict { claims, ignored, host: host.unwrap_or_default() }
            });
            self.verdicts.lock().insert(whose.clone(), verdict);
            statuses.add(whose);
        }
    }

    /// Whether the pods of a claim cannot be checked yet, and so are not used.
    fn waits(&self, backend: &Backend) -> bool {
        let claim = &backend.claim;
        self.awaits_service_ca && claim.termination == Termination::Reencrypt && claim.destination_ca.is_none()
    }

    /// What time brings: the folder went, HAProxy ended, the certificate was renewed, a way to pods came or went.
    fn look_after(&mut self) -> Result<(), FolderGone> {
        self.restore_folder()?;
        if self.need.is_none() && self.last_replaced.is_some_and(|last| last.elapsed() > LASTING) {
            self.setbacks = 0;
        }
        if self.live.is_some() && !self.process.is_running() {
            tracing::error!("HAProxy has ended; it is started again");
            self.live = None;
            self.need = Some(Need::Start);
        }
        self.look_at_files();
        let reachable = reachable::fingerprint();
        if self.reachable != reachable {
            self.reachable = reachable;
            self.model.reach_changed();
            self.settle();
        }
        if let Some(live) = self.live.as_mut().filter(|live| live.leaving() > 0) {
            live.sweep(&mut self.socket);
            self.metrics.spares(live.spares());
        }
        Ok(())
    }

    /// Certificates are changed while HAProxy runs; what it reads only at its start takes a new generation.
    fn look_at_files(&mut self) {
        if default_certificate::may_change(&self.settings.tls) {
            match default_certificate::given(&self.settings.tls) {
                Ok(Some(certificate)) if certificate != self.certificate => {
                    let live = self.live.as_mut();
                    let need = live.and_then(|live| live.set_default_certificate(&certificate, &mut self.socket));
                    self.need = self.need.or(need);
                    self.certificate = certificate;
                }
                // One that is gone is still good.
                Ok(_) => {}
                Err(error) => tracing::warn!(error, "the default certificate cannot be read; the last one stays"),
            }
        }
        let service_ca = self.settings.tls.destination_ca.as_ref().and_then(|file| service_ca::read(file));
        if let Some(pem) = service_ca.filter(|pem| *pem != self.service_ca) {
            let live = self.live.as_mut();
            let need = live.and_then(|live| live.set_service_ca(&pem));
            self.need = self.need.or(need);
            self.service_ca = pem;
            let waiting = self.model.backends().filter(|(_, backend)| self.waits(backend));
            let waiting: BTreeSet<_> = waiting.map(|(id, _)| (id.source, id.key.clone())).collect();
            self.awaits_service_ca = false;
            self.report(&waiting);
        }
        let files = files::fingerprint(&self.settings);
        if self.files != files {
            self.files = files;
            self.need = self.need.or(Some(Need::File));
        }
    }

    /// Makes the working folder again when somebody removed it, once, unless what held it is gone as well: then this router
    /// was left behind by whoever gave it the folder.
    fn restore_folder(&mut self) -> Result<(), FolderGone> {
        let folder = self.layout.folder();
        if folder.is_dir() {
            return Ok(());
        }
        let gone = |why| Err(FolderGone { folder: folder.to_owned(), why });
        if !folder.parent().is_some_and(Path::is_dir) {
            return gone("together with the folder it was in");
        }
        if self.folder_was_gone || runtime::atomic_file::private_directory(folder).is_err() {
            return gone("and cannot be kept");
        }
        tracing::error!(folder = %folder.display(), "the working folder was removed; it is made again and HAProxy replaced");
        self.folder_was_gone = true;
        self.live = None;
        self.need = Some(Need::Start);
        Ok(())
    }

    /// Writes, checks and starts a new generation. When that fails, the last one goes on and the need stays.
    fn replace(&mut self) {
        let Some(need) = self.need else { return };
        self.last_replaced = Some(Instant::now());
        self.health.counted.lock().begin();
        let told = self.live.is_some().then(|| self.socket.ask(SHOW_ALL).ok()).flatten();
        match self.try_replace() {
            Ok((live, written, started)) => {
                tracing::info!(
                    reason = need.word(),
                    generation = live.number(),
                    ?written,
                    ?started,
                    "HAProxy runs what is wanted"
                );
                self.metrics.replaced(need.word(), written, started);
                self.metrics.spares(live.spares());
                // What had to be put right and so may have to be again.
                let mended = matches!(need, Need::Start | Need::Failure) && self.health.synced.load(Ordering::Relaxed);
                self.setbacks = if mended { self.setbacks.saturating_add(1) } else { 0 };
                self.live = Some(live);
                let served = self.model.backends().filter_map(|(id, _)| Some((id.clone(), self.served(id)?)));
                self.health.counted.lock().replaced(told.as_deref(), served.collect());
                self.need = None;
                self.health.synced.store(true, Ordering::Relaxed);
                *self.health.refusal.lock() = None;
                let objects = self.waiting.served();
                self.report(&objects);
            }
            Err(error) => {
                self.health.counted.lock().kept();
                self.setbacks = self.setbacks.saturating_add(1);
                tracing::error!(%error, reason = need.word(), "HAProxy was not replaced");
                self.metrics.failed();
                *self.health.refusal.lock() = Some(error.to_string());
                let objects = self.waiting.refused(error.to_string()).clone();
                self.report(&objects);
            }
        }
    }

    fn try_replace(&mut self) -> Result<(Live, Duration, Duration), HaproxyError> {
        let begun = Instant::now();
        let number = self.process.last_generation() + 1;
        let files = Files {
            settings: &self.settings,
            layout: &self.layout,
            default_certificate: &self.certificate,
            service_ca: &self.service_ca,
        };
        let generation = write(files, number, &self.model)?;
        let written = begun.elapsed();
        let started = self.process.check(number).and_then(|()| self.process.start(number));
        if let Err(error) = started {
            // Kept for whoever wants to know what was refused.
            let refused = self.layout.folder().join("refused");
            let _ = std::fs::remove_dir_all(&refused);
            std::fs::rename(self.layout.generation(number), refused)?;
            return Err(error);
        }
        self.socket.reset();
        self.process.forget_generations_but(number);
        self.process.reap();
        forget_keys(&self.layout, &generation, &self.model);
        let (settings, service_ca) = (Arc::clone(&self.settings), self.service_ca.clone());
        let live = Live::new(settings, self.layout.clone(), generation, service_ca, &self.model);
        Ok((live, written, begun.elapsed() - written))
    }

    /// Lets connections end, but not for ever.
    async fn stop_haproxy(&mut self) {
        // A connection to its socket is one that HAProxy waits for.
        self.socket.reset();
        self.process.finish();
        let end = Instant::now() + self.settings.reload.shutdown_limit;
        while self.process.is_running() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.process.end();
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_setbacks_up_to_a_minute() {
        let seconds = Duration::from_secs;
        for (interval, setbacks, expected) in [
            (seconds(5), 0, seconds(5)),
            (seconds(5), 1, seconds(5)),
            (seconds(5), 3, seconds(5)),
            (seconds(5), 4, seconds(8)),
            (seconds(5), 7, seconds(64)),
            (seconds(5), u32::MAX, seconds(64)),
            (Duration::from_millis(100), 1, seconds(1)),
            (seconds(120), 7, seconds(120)),
        ] {
            assert_eq!(pause(interval, setbacks), expected, "{interval:?} {setbacks}");
        }
    }
}
