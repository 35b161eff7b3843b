//! The loop of a watch, as a stream: list, watch, and back to the list whenever something may have been missed.

use super::{
    Config, Error, Event,
    changes::{Changes, Line},
    erased::{Decoder, Erased, decode, typed},
    view::View,
};
use crate::{
    backoff::{self, Backoff},
    client::{Api, endpoint::Endpoint, error_line, list},
};
use futures::{
    FutureExt, Stream, StreamExt,
    stream::{BoxStream, unfold},
};
use kube::{
    Resource,
    api::{ListMeta, ListParams, WatchParams},
};
use objects::Decode;
use std::{collections::VecDeque, time::Duration};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Pauses between attempts: the first is short enough for a restart to go unnoticed, the cap for everybody to be back within seconds.
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), cap: Duration::from_secs(5) };
/// How long a watch is asked to last, in seconds; spread, so that not all are renewed at once.
const LASTS: (u32, u32) = (180, 240);
/// The server ends a watch in time, or is not there any more.
const MARGIN: Duration = Duration::from_secs(10);
/// A list or the start of a watch that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// As client-go's pages.
const PAGE: u32 = 500;

type Step = (Option<Result<Event<Erased>, Error>>, State);

/// Where the watch is.
enum State {
    /// Knows nothing for sure: lists next.
    Start,
    /// Takes the objects of a list, page by page.
    Listing { page: VecDeque<Erased>, next: Next },
    /// Knows everything up to `version`: watches next.
    Listed { version: String },
    /// Hears of changes, from `begun` until `end` at the latest.
    Watching { version: String, changes: Changes, begun: Instant, end: Instant },
}

/// What follows a page.
enum Next {
    First,
    /// The token of the next one.
    Page(String),
    /// Nothing: the list held at this version.
    Watch(String),
}

struct Watch {
    endpoint: Endpoint,
    decode: Decoder,
    config: Config,
    view: View,
    /// The newest version that was heard of.
    newest: u64,
    failures: u32,
    /// When the last list was complete.
    listed: Option<Instant>,
    /// The last problem that was logged: it is told once.
    logged: String,
}

/// Every object, then every change. Never ends. After an `Init` comes the whole list anew; errors are logged here, once
/// each, and tell only that what is known may be old by now.
pub fn watch<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>, Error>> + Send + 'static
where
    K: Resource + Decode + Send + 'static,
{
    events(api.into_endpoint(), decode::<K>, config).map(|event| event.map(typed))
}

/// The same for any kind.
fn events(endpoint: Endpoint, decode: Decoder, config: Config) -> BoxStream<'static, Result<Event<Erased>, Error>> {
    let view = View::new(resource(endpoint.url()));
    let watch = Watch { endpoint, decode, config, view, newest: 0, failures: 0, listed: None, logged: String::new() };
    let events = unfold((watch, State::Start), |(mut watch, mut state)| async move {
        loop {
            let (event, next) = watch.step(state).await;
            state = next;
            if let Some(event) = event {
                return Some((event, (watch, state)));
            }
        }
    });
    events.boxed()
}

/// `routes.route.openshift.io` of `/apis/route.openshift.io/v1/routes`.
pub(super) fn resource(url: &str) -> String {
    let mut parts = url.split('/').filter(|part| !part.is_empty());
    let group = match parts.next() {
        Some("apis") => parts.next().unwrap_or_default(),
        _ => "",
    };
    let plural = url.rsplit('/').next().unwrap_or_default();
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl Watch {
    async fn step(&mut self, state: State) -> Step {
        match state {
            State::Start => {
                if self.failures > 0 {
                    sleep(RETRY.delay(self.failures, backoff::random())).await;
                }
                (Some(Ok(Event::Init)), State::Listing { page: VecDeque::new(), next: Next::First })
            }
            State::Listing { mut page, next } => match (page.pop_front(), next) {
                (Some(object), next) => (Some(Ok(Event::InitApply(object))), State::Listing { page, next }),
                (None, Next::Watch(version)) => {
                    self.view.proven();
                    self.listed = Some(Instant::now());
                    (Some(Ok(Event::InitDone)), State::Listed { version })
                }
                (None, Next::First) => self.list(None).await,
                (None, Next::Page(token)) => self.list(Some(token)).await,
            },
            State::Listed { version } => self.start(version).await,
            State::Watching { version, changes, begun, end } => self.follow(version, changes, (begun, end)).await,
        }
    }

    /// Asks for a page.
    async fn list(&mut self, token: Option<String>) -> Step {
        let first = token.is_none();
        let parameters = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let text = match timeout(PATIENCE, self.endpoint.list(&parameters)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return self.failed(Error::List(error)),
            Err(_) => return self.failed(Error::Silent(PATIENCE.as_secs())),
        };
        let (metadata, page) = match self.page(&text) {
            Ok(page) => page,
            Err(error) => return self.failed(Error::List(error)),
        };
        let version = metadata.resource_version.filter(|version| !version.is_empty());
        let next = match (metadata.continue_.filter(|token| !token.is_empty()), version.clone()) {
            (Some(token), _) => Next::Page(token),
            (None, Some(version)) => Next::Watch(version),
            (None, None) => return self.failed(Error::NoVersion),
        };
        let state = State::Listing { page, next };
        let (known, found) = (self.newest, version.as_deref().and_then(number).unwrap_or(self.newest));
        if first && found < known {
            self.newest = found;
            let error = Error::WentBack { known, found };
            self.log(&error);
            return (Some(Err(error)), state);
        }
        self.newest = found.max(known);
        (None, state)
    }

    fn page(&self, text: &str) -> kube::Result<(ListMeta, VecDeque<Erased>)> {
        let list = list::Raw::read(text)?;
        let page = list.items.iter().map(|item| (self.decode)(item.get())).collect::<Result<_, _>>();
        Ok((list.metadata, page.map_err(kube::Error::SerdeError)?))
    }

    /// Asks for the changes after `version`.
    async fn start(&mut self, version: String) -> Step {
        let spread = f64::from(LASTS.1 - LASTS.0) * backoff::random();
        let lasts = LASTS.0 + spread as u32;
        let parameters = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(lasts),
            bookmarks: true,
            send_initial_events: false,
        };
        match timeout(PATIENCE, self.endpoint.watch(&parameters, &version)).await {
            Ok(Ok(lines)) => {
                let begun = Instant::now();
                let end = begun + Duration::from_secs(lasts.into()) + MARGIN;
                (None, State::Watching { version, changes: Changes::new(lines), begun, end })
            }
            Ok(Err(error)) => self.failed(Error::Start(error)),
            Err(_) => self.failed(Error::Silent(PATIENCE.as_secs())),
        }
    }

    /// Waits for the next change.
    async fn follow(&mut self, version: String, mut changes: Changes, (begun, end): (Instant, Instant)) -> Step {
        let heard = match changes.next(self.decode).now_or_never() {
            Some(heard) => heard,
            None => {
                // The server may have accepted a version that it cannot serve and say so in the first event, so an
                // accepted watch is proof only once it waits.
                self.watches();
                match timeout_at(end, changes.next(self.decode)).await {
                    Ok(heard) => heard,
                    Err(_) => return self.failed(Error::Silent(u64::from(LASTS.0))),
                }
            }
        };
        let (object, event): (Erased, fn(Erased) -> Event<Erased>) = match heard {
            Some(Ok(Line::Applied(object))) => (object, Event::Apply),
            Some(Ok(Line::Deleted(object))) => (object, Event::Delete),
            Some(Ok(Line::Bookmark(version))) => {
                self.heard(&version);
                return (None, State::Watching { version, changes, begun, end });
            }
            Some(Ok(Line::Ended(status))) => return self.failed(Error::Ended(status)),
            Some(Err(error)) => return self.failed(Error::Broken(error)),
            // In order, or so it seems: whether the next watch is accepted tells.
            None => {
                if begun.elapsed() < RETRY.cap {
                    sleep(RETRY.first).await;
                }
                return (None, State::Listed { version });
            }
        };
        let version = object.version.clone();
        if version.is_empty() {
            return self.failed(Error::NoVersion);
        }
        self.heard(&version);
        (Some(Ok(event(object))), State::Watching { version, changes, begun, end })
    }

    /// A watch is under way.
    fn watches(&mut self) {
        self.failures = 0;
        self.logged.clear();
        self.view.proven();
    }

    fn heard(&mut self, version: &str) {
        self.newest = self.newest.max(number(version).unwrap_or(0));
        self.watches();
    }

    /// Everything is listed again, soon.
    fn failed(&mut self, error: Error) -> Step {
        // That a version is too old is no failure of the server: the list can follow at once, unless it has just been made.
        let expired = error.code() == Some(410);
        let fresh = self.listed.is_some_and(|at| at.elapsed() < RETRY.cap);
        self.failures = if expired && !fresh { 0 } else { self.failures + 1 };
        self.view.lost(&error);
        if expired {
            tracing::debug!(resource = resource(self.endpoint.url()), error = error_line(&error), "listing again");
        } else {
            self.log(&error);
        }
        (Some(Err(error)), State::Start)
    }

    fn log(&mut self, error: &Error) {
        let (resource, words) = (resource(self.endpoint.url()), error_line(error));
        // Where the API cannot be reached, one line of the client's is enough for all watches.
        let is_news = error.is_answer() && !error.is_not_served() && words != self.logged;
        match is_news {
            true => tracing::warn!(resource, error = words, "watch failed and is tried again"),
            false => tracing::debug!(resource, error = words, "watch failed and is tried again"),
        }
        self.logged = words;
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
