//! `watch`: a stream of changes from a revision, with bookmarks, initial events and an end.

use super::list::{self, Revision};
use crate::{
    answer::{self, Answer, Frames},
    call::Call,
    definitions::{self, conversion},
    select::{Range, Selection},
    stored,
};
use api::{
    error::{ApiError, FieldError},
    path::Path,
};
use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture};
use serde_json::json;
use std::{pin::Pin, sync::Arc, time::Duration};
use store::{Entry, Event, ReadError, Watch, WatchError};
use tokio::time::{Instant, Sleep};

/// How often a quiet watch hears how far the server is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A bookmark comes this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// What is at hand goes out together until there is this much of it: a few TLS records, less than a piece of `runtime::http`.
const ENOUGH: usize = 48 * 1024;
/// Upstream's `--min-request-timeout`: a watch without a timeout ends between one and two of these.
const LEAST: u64 = 1800;

/// Where the stream is.
enum State {
    /// The revision to start from is gone: told by an event, as upstream does, because the answer has begun.
    Expired(ApiError),
    /// The objects that exist when it starts.
    Initial(std::vec::IntoIter<Entry>),
    /// Changes.
    Live,
    /// Nothing more comes.
    Ended,
}

/// A running watch.
struct Stream {
    call: Arc<Call>,
    selection: Selection,
    range: Range,
    watch: Watch,
    state: State,
    /// Mark the end of the initial events by a bookmark.
    marks_initial: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// The next bookmark or the end. Made once, and set again only when it has passed.
    timer: Pin<Box<Sleep>>,
    /// Completes when the server goes, or when what is watched is no longer served.
    leaving: BoxFuture<'static, ()>,
    /// The newest revision that the client was told.
    revision: u64,
    frames: Frames,
}

/// GET with `watch`.
pub async fn watch(call: Arc<Call>) -> Result<Answer, ApiError> {
    let encoding = call.accept.encoding;
    let content_type = answer::stream_type(encoding)?;
    let options = WatchOptions::new(&call)?;
    let selection = Selection::new(&call)?;
    let range = selection.range(&call);
    let prefix = range.prefix.as_str();
    let (from, initial) = match options.revision {
        Revision::At(revision) if !options.initial_events => {
            list::wait_for(&call, &options.revision).await?;
            (revision, Vec::new())
        }
        _ => {
            list::wait_for(&call, &options.revision).await?;
            let page = match range.tag.as_deref() {
                Some(tag) => call.server.store.list_tagged(prefix, tag),
                None => {
                    let page = call.server.store.list(prefix, None, range.limit(None), None).await;
                    page.map_err(|error| refused(&error))?
                }
            };
            let wanted = options.initial_events || options.revision != Revision::Latest || options.old_start;
            let covered = page.entries.into_iter().filter(|entry| wanted && range.covers(entry.key()));
            (page.revision, covered.collect())
        }
    };
    let watch = match range.tag.as_deref() {
        Some(tag) => call.server.store.watch_tagged(prefix, tag, Some(from)).await,
        None => call.server.store.watch(prefix, Some(from)).await,
    };
    let (watch, state) = match watch {
        Ok(watch) => (watch, State::Initial(initial.into_iter())),
        Err(error @ ReadError::Compacted { .. }) => {
            let nothing = call.server.store.watch(prefix, None).await.map_err(|error| refused(&error))?;
            (nothing, State::Expired(refused(&error)))
        }
        Err(error) => return Err(refused(&error)),
    };
    let now = Instant::now();
    let asked = Arc::clone(&call);
    let leaving = async move {
        tokio::select! {
            () = asked.server.stopping() => {}
            () = definitions::gone(&asked.server, &asked.resource) => {}
        }
    };
    let mut stream = Stream {
        call,
        selection,
        range,
        watch,
        state,
        marks_initial: options.initial_events,
        bookmarks: options.bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        end: now + options.timeout,
        timer: Box::pin(tokio::time::sleep_until(now)),
        leaving: Box::pin(leaving),
        revision: from,
        frames: Frames::new(encoding),
    };
    stream.set_timer();
    let lines = futures::stream::unfold(stream, async |mut stream| stream.next().await.map(|line| (line, stream)));
    Ok(Answer::Stream { content_type, stream: lines.boxed() })
}

impl Stream {
    /// The next bytes for the client, all that is at hand; none when the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.len() < ENOUGH {
            match &mut self.state {
                State::Ended => break,
                State::Expired(error) => {
                    self.frames.error(&mut out, error);
                    self.state = State::Ended;
                }
                State::Initial(entries) => match entries.next() {
                    Some(entry) => self.initial(&mut out, entry).await,
                    None => {
                        self.state = State::Live;
                        if self.marks_initial {
                            self.frames.bookmark(&mut out, &self.call, self.revision, true);
                        }
                    }
                },
                State::Live => match self.watch.try_next() {
                    Ok(Some(event)) => self.change(&mut out, &event).await,
                    Ok(None) if out.is_empty() => self.wait(&mut out).await,
                    Ok(None) => break,
                    Err(error) => self.broken(&mut out, &error),
                },
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    /// Waits for what comes first: a change, the time for a bookmark, the end, the server's.
    async fn wait(&mut self, out: &mut Vec<u8>) {
        tokio::select! {
            biased;
            event = self.watch.next() => match event {
                Ok(event) => self.change(out, &event).await,
                Err(error) => self.broken(out, &error),
            },
            () = self.leaving.as_mut() => self.state = State::Ended,
            () = self.timer.as_mut() => self.time_passed(out),
        }
    }

    /// When the next bookmark is due; none where there is none before the end.
    fn bookmark_at(&self) -> Option<Instant> {
        let last = self.end - BOOKMARK_BEFORE_END;
        let at =
            if self.next_bookmark < last { self.next_bookmark } else { last.max(self.next_bookmark.min(self.end)) };
        (self.bookmarks && at < self.end).then_some(at)
    }

    fn set_timer(&mut self) {
        let at = self.bookmark_at().unwrap_or(self.end);
        self.timer.as_mut().reset(at);
    }

    fn time_passed(&mut self, out: &mut Vec<u8>) {
        let Some(bookmark) = self.bookmark_at() else { return self.state = State::Ended };
        let is_last = bookmark >= self.end - BOOKMARK_BEFORE_END;
        self.next_bookmark = if is_last { self.end } else { bookmark + BOOKMARK_EVERY };
        self.set_timer();
        self.revision = self.watch.progress().max(self.revision);
        self.frames.bookmark(out, &self.call, self.revision, false);
    }

    fn broken(&mut self, out: &mut Vec<u8>, error: &WatchError) {
        self.state = State::Ended;
        if let Some(error) = ended(error) {
            self.frames.error(out, &error);
        }
    }

    async fn initial(&mut self, out: &mut Vec<u8>, entry: Entry) {
        let entry = match Self::shown(&self.call, Some(&entry)).await {
            Ok(Some(entry)) => entry,
            Ok(None) => return,
            Err(error) => return self.unreadable(out, &error),
        };
        if self.selection.matches(&self.call, &entry) {
            self.frames.event(out, &self.call, "ADDED", &entry, entry.mod_revision());
        }
    }

    /// An entry as this client sees it.
    async fn shown(call: &Call, entry: Option<&Entry>) -> Result<Option<Entry>, ApiError> {
        let Some(entry) = entry else { return Ok(None) };
        stored::readable(entry)?;
        conversion::watched(&call.server, &call.resource, entry.clone()).await.map(Some)
    }

    fn unreadable(&mut self, out: &mut Vec<u8>, error: &ApiError) {
        self.state = State::Ended;
        self.frames.error(out, error);
    }

    /// What a change means for this client: an object may enter or leave its selection.
    async fn change(&mut self, out: &mut Vec<u8>, event: &Event) {
        self.revision = event.revision();
        if !self.range.covers(event.key()) {
            return;
        }
        // Also what it was: whether it left the client's sight cannot be told.
        let both = (Self::shown(&self.call, event.previous()).await, Self::shown(&self.call, event.entry()).await);
        let (before, now) = match both {
            (Ok(before), Ok(now)) => (before, now),
            (Err(error), _) | (_, Err(error)) => return self.unreadable(out, &error),
        };
        let selected = |entry: &Entry| self.selection.matches(&self.call, entry);
        let (word, entry) = match (before.filter(selected), now.filter(selected)) {
            (None, Some(now)) => ("ADDED", now),
            (Some(_), Some(now)) => ("MODIFIED", now),
            // Deleted, or gone from the client's sight: told with the last state in which it was in sight.
            (Some(before), None) => ("DELETED", before),
            (None, None) => return,
        };
        self.frames.event(out, &self.call, word, &entry, event.revision());
    }
}

/// Parameters of a watch.
struct WatchOptions {
    revision: Revision,
    initial_events: bool,
    /// No revision at all: starts with what exists, as it always has.
    old_start: bool,
    bookmarks: bool,
    timeout: Duration,
}

impl WatchOptions {
    fn new(call: &Call) -> Result<Self, ApiError> {
        let query = &call.query;
        let mut errors = Vec::new();
        let given = query.get("sendInitialEvents");
        let initial_events = query.flag("sendInitialEvents") && !given.is_empty();
        let mode = query.get("resourceVersionMatch");
        let match_path = Path::new("resourceVersionMatch");
        if !given.is_empty() && mode != "NotOlderThan" {
            errors.push(FieldError::forbidden(
                &match_path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if given.is_empty() && !mode.is_empty() {
            errors.push(FieldError::forbidden(
                &match_path,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        if initial_events && !bookmarks {
            errors.push(FieldError::forbidden(
                &Path::new("sendInitialEvents"),
                "sendInitialEvents needs allowWatchBookmarks",
            ));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", &errors));
        }
        let timeout = match query.get("timeoutSeconds") {
            "" | "0" => LEAST + random_below(LEAST),
            text => text
                .parse()
                .map_err(|_| ApiError::bad_request(format!("timeoutSeconds {text:?} is not a whole number")))?,
        };
        let revision = list::parse_revision(query.get("resourceVersion"))?;
        Ok(Self {
            revision,
            initial_events,
            old_start: given.is_empty(),
            bookmarks,
            timeout: Duration::from_secs(timeout.min(24 * 3600)),
        })
    }
}

fn random_below(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    // Without randomness all watches end together, which is only unkind.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes) % limit
}

fn refused(error: &ReadError) -> ApiError {
    match error {
        ReadError::Compacted { requested, oldest } => {
            ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        ReadError::FutureRevision { requested, current } => {
            ApiError::timeout(format!("Too large resource version: {requested}, current: {current}"))
                .with_details(json!({"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}))
        }
        ReadError::Unavailable(why) => ApiError::unavailable(why.to_string()),
    }
}

/// What the client hears when its watch breaks off; nothing when the server is going.
fn ended(error: &WatchError) -> Option<ApiError> {
    match error {
        WatchError::Lagged { oldest } | WatchError::Compacted { oldest } => {
            Some(ApiError::expired(format!("too old resource version: the oldest one kept is {oldest}")))
        }
        WatchError::Closed => None,
    }
}
