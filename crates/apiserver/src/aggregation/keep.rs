//! Follows APIServices, and the Services and endpoints behind them: who answers for what, whether it does, and what the objects say
//! about it. Mirrors the availability, autoregister and discovery controllers of kube-aggregator.

use super::{
    PATH, PREFIX, backend,
    front_proxy::publish,
    index::{Index, Remote, ServiceRef},
    plan::{self, Verdict},
    register::{self, Change, Occasion},
};
use crate::{ApiServer, client, follow::FollowError, kubelet};
use api::{error::ApiError, object::Fields};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use http::Method;
use runtime::backoff::{self, Backoff};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::Event;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SERVICES: &str = "services/specs/";
const SLICES: &str = "endpointslices/";
/// How often a server that answers is asked again: what no object tells shows only then.
const AGAIN: Duration = Duration::from_secs(30);
/// How soon one that does not is.
const RETRY: Backoff = Backoff { first: Duration::from_millis(100), cap: Duration::from_secs(30) };
/// How soon what could not be written is tried again.
const REWRITE: Duration = Duration::from_secs(1);
/// How many ways to a server are tried before it counts as away: one of its endpoints may be.
const ATTEMPTS: usize = 5;

/// Learns who answers for what, before the server is ready.
pub(crate) async fn prime(server: &Arc<ApiServer>) -> Result<(), FollowError> {
    read(server).await.map(drop)
}

async fn read(server: &Arc<ApiServer>) -> Result<Vec<Value>, FollowError> {
    let page = server.store.list(PREFIX, None, None, None).await?;
    let objects: Vec<Value> = page.entries.iter().filter_map(|entry| crate::stored::parse(entry).ok()).collect();
    let aggregation = &server.aggregation;
    let index = Index::read(&objects, &aggregation.index.load(), aggregation.identity());
    let names: BTreeSet<String> = index.iter().map(|remote| remote.name.clone()).collect();
    aggregation.index.store(Arc::new(index));
    aggregation.documents.keep_only(&names);
    Ok(objects)
}

/// Follows them until the server stops.
pub(crate) async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), FollowError> {
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = follow(&server) => ended,
    }
}

async fn follow(server: &Arc<ApiServer>) -> Result<(), FollowError> {
    let mut objects = server.store.watch(PREFIX, None).await?;
    let mut services = server.store.watch(SERVICES, None).await?;
    let mut slices = server.store.watch(SLICES, None).await?;
    let mut definitions = server.definitions.changed();
    let mut checks = Checks::default();
    let mut occasion = Occasion::Start;
    loop {
        while objects.try_next()?.is_some() {}
        let stored = read(server).await?;
        let unwritten = match settle(server, &stored, occasion).await {
            Ok(()) => {
                occasion = Occasion::Later;
                None
            }
            Err(error) => {
                tracing::warn!(%error, "APIServices of this server cannot be written, and will be tried again");
                Some(Instant::now() + REWRITE)
            }
        };
        checks.align(server);
        loop {
            let due = checks.next();
            tokio::select! {
                event = objects.next() => {
                    event?;
                    break;
                }
                changed = definitions.changed() => {
                    // The sender lives as long as the server.
                    let _ = changed;
                    break;
                }
                event = services.next() => checks.touch(&*event?, SERVICES),
                event = slices.next() => checks.touch(&*event?, SLICES),
                Some((name, available)) = checks.running.next() => checks.done(&name, available),
                () = at(due) => {}
                () = at(unwritten) => break,
            }
            checks.start(server);
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Writes down what this server answers for, that it does, and how others know its users.
async fn settle(server: &Arc<ApiServer>, stored: &[Value], occasion: Occasion) -> Result<(), ApiError> {
    if occasion == Occasion::Start {
        publish(server).await?;
    }
    for change in register::plan(&server.registry(), stored, occasion) {
        let written = match change {
            Change::Create(object) => client::ask(server, Method::POST, PATH, Some(&object)).await,
            Change::Update(object) => {
                let path = format!("{PATH}/{}", object.str_at("metadata.name"));
                client::ask(server, Method::PUT, &path, Some(&object)).await
            }
            Change::Delete(name) => client::ask(server, Method::DELETE, &format!("{PATH}/{name}"), None).await,
        };
        match written {
            // Another server on the same store was faster; the next look finds what is left to do.
            Err(error) if matches!(error.code, 404 | 409) => {}
            other => drop(other?),
        }
    }
    for (name, conditions) in unreported(server, stored) {
        write(server, name, &conditions).await;
    }
    Ok(())
}

/// The APIServices of this server that do not say that it answers, with what they should say.
fn unreported<'a>(server: &ApiServer, stored: &'a [Value]) -> Vec<(&'a str, Vec<Value>)> {
    let local = stored.iter().filter(|object| !object.at("spec.service").is_object());
    let unreported = local
        .filter_map(|object| Some((object.str_at("metadata.name"), plan::local_conditions(object, server.now())?)));
    unreported.collect()
}

/// Whether all is written down that this server answers for.
pub(crate) async fn is_settled(server: &ApiServer) -> Result<bool, ApiError> {
    let stored = server.objects(PREFIX.trim_end_matches('/')).await?;
    let changes = register::plan(&server.registry(), &stored, Occasion::Start);
    Ok(changes.is_empty() && unreported(server, &stored).is_empty())
}

async fn write(server: &Arc<ApiServer>, name: &str, conditions: &[Value]) {
    let patch = json!({"status": {"conditions": conditions}});
    let written = client::ask(server, Method::PATCH, &format!("{PATH}/{name}/status"), Some(&patch)).await;
    if let Err(error) = written {
        tracing::debug!(%error, name, "the condition of an APIService cannot be written");
    }
}

/// The looks at other servers: running, and due.
#[derive(Default)]
struct Checks {
    running: FuturesUnordered<BoxFuture<'static, (String, bool)>>,
    known: BTreeMap<String, Check>,
}

struct Check {
    remote: Arc<Remote>,
    /// Runs now; whether something has changed meanwhile.
    running: Option<bool>,
    failures: u32,
    due: Instant,
}

impl Checks {
    /// Takes over what is there now.
    fn align(&mut self, server: &Arc<ApiServer>) {
        let remotes = server.aggregation.remotes();
        self.known.retain(|name, _| remotes.iter().any(|remote| remote.name == *name));
        for remote in remotes {
            let now = Instant::now();
            match self.known.get_mut(&remote.name) {
                Some(check) => {
                    if !check.remote.is_same_place(&remote) {
                        check.wake(now);
                    }
                    check.remote = remote;
                }
                None => {
                    let check = Check { remote: Arc::clone(&remote), running: None, failures: 0, due: now };
                    self.known.insert(remote.name.clone(), check);
                }
            }
        }
        self.start(server);
    }

    /// Starts what is due.
    fn start(&mut self, server: &Arc<ApiServer>) {
        let now = Instant::now();
        for check in self.known.values_mut().filter(|check| check.running.is_none() && check.due <= now) {
            check.running = Some(false);
            self.running.push(look(Arc::clone(server), Arc::clone(&check.remote)).boxed());
        }
    }

    /// When something is due next.
    fn next(&self) -> Option<Instant> {
        self.known.values().filter(|check| check.running.is_none()).map(|check| check.due).min()
    }

    fn done(&mut self, name: &str, available: bool) {
        let Some(check) = self.known.get_mut(name) else { return };
        let now = Instant::now();
        let touched = check.running.take().unwrap_or_default();
        check.failures = if available { 0 } else { check.failures.saturating_add(1) };
        check.due = match (touched, available) {
            (true, _) => now,
            (false, true) => now + AGAIN,
            (false, false) => now + RETRY.delay(check.failures, backoff::random()),
        };
    }

    /// A Service or its endpoints have changed.
    fn touch(&mut self, event: &Event, prefix: &str) {
        let entry = match event {
            Event::Put { entry, .. } => entry,
            Event::Delete { previous, .. } => previous,
        };
        let Some((namespace, name)) = entry.key().strip_prefix(prefix).and_then(|key| key.split_once('/')) else {
            return;
        };
        let now = Instant::now();
        for check in self.known.values_mut() {
            let ServiceRef { namespace: of, name: service, .. } = &check.remote.service;
            // A slice's name begins with its Service's where the controller made it; others are seen in their time.
            if of == namespace && (name == service || (prefix == SLICES && name.starts_with(service.as_str()))) {
                check.wake(now);
            }
        }
    }
}

impl Check {
    fn wake(&mut self, now: Instant) {
        match &mut self.running {
            Some(touched) => *touched = true,
            None => self.due = now,
        }
        self.failures = 0;
    }
}

/// Looks at one server and writes down what came of it; whether it is available.
async fn look(server: Arc<ApiServer>, remote: Arc<Remote>) -> (String, bool) {
    let verdict = judge(&server, &remote).await;
    let documents = &server.aggregation.documents;
    // What it says of itself is known before anybody is sent there.
    match verdict.available {
        true => documents.refresh(&server, &remote).await,
        false => {
            documents.forget(&remote.name);
            documents.publish_v2(&server);
        }
    }
    let stored = server.object(&format!("{PREFIX}{}", remote.name));
    if let Some(conditions) = stored.and_then(|stored| plan::conditions(&stored, &verdict, server.now())) {
        tracing::info!(
            name = remote.name,
            available = verdict.available,
            reason = verdict.reason,
            message = verdict.message,
            "an aggregated API has changed"
        );
        write(&server, &remote.name, &conditions).await;
    }
    (remote.name.clone(), verdict.available)
}

async fn judge(server: &Arc<ApiServer>, remote: &Remote) -> Verdict {
    let ServiceRef { namespace, name, .. } = &remote.service;
    let service = server.object(&format!("{SERVICES}{namespace}/{name}"));
    let slices = match kubelet::slices(server, namespace, name).await {
        Ok(slices) => slices,
        Err(error) => return Verdict::failed(error.message),
    };
    if let Some(hindrance) = plan::hindrance(&remote.service, service.as_ref(), &slices) {
        return hindrance;
    }
    let first = ask(server, remote).await;
    let Err(why) = first else { return Verdict::passed() };
    let others = (1..ATTEMPTS).map(|_| ask(server, remote).boxed());
    match futures::future::select_ok(others).await {
        Ok(_) => Verdict::passed(),
        Err(_) => Verdict::failed(why),
    }
}

/// Asks for what every such server must have.
async fn ask(server: &Arc<ApiServer>, remote: &Remote) -> Result<(), String> {
    let path = remote.path();
    let url = format!("https://{}:{}{path}", remote.service.host(), remote.service.port);
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let answer = backend::get(server, remote, &path, &[]).await.map_err(failed)?;
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(failed(format!("bad status from {url}: {}", answer.status.as_u16()))),
    }
}
