//! A stream of changes below a prefix. Made by `Store::watch`.

use crate::{
    error::{ReadError, WatchError},
    event::Event,
    mirror::Mirror,
    mvcc::{Cursor, Topic},
};
use futures::{Stream, task::AtomicWaker};
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// How many events a watcher takes per look at the state.
const BATCH: usize = 128;

/// Every change below a prefix after a revision: in order, none missing, none twice.
///
/// A watcher that does not keep up costs writers nothing; once its next event has left the history it ends with
/// [`WatchError::Lagged`]. After an error the stream is over.
#[derive(Debug)]
pub struct Watch {
    mirror: Arc<Mirror>,
    topic: Topic,
    waker: Arc<AtomicWaker>,
    cursor: Cursor,
    buffer: VecDeque<Arc<Event>>,
    ended: Option<WatchError>,
    /// The last answer of `progress`, kept so that it never goes back once the watch has ended.
    progress: u64,
}

impl Watch {
    pub(crate) fn new(mirror: Arc<Mirror>, topic: Topic, from: Option<u64>) -> Result<Self, ReadError> {
        let waker = Arc::new(AtomicWaker::new());
        let (cursor, progress) = mirror.write(|state| {
            let from = from.unwrap_or_else(|| state.revision());
            (state.watch(&topic, from, Arc::clone(&waker)).map(|cursor| (cursor, from)), Vec::new())
        })?;
        Ok(Self { mirror, topic, waker, cursor, buffer: VecDeque::new(), ended: None, progress })
    }

    /// The next change. Safe to cancel: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Arc<Event>, WatchError> {
        let next = std::future::poll_fn(|cx| self.poll_event(cx)).await;
        next.unwrap_or_else(|| Err(self.ended.clone().unwrap_or(WatchError::Closed)))
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, WatchError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        self.fill().inspect_err(|error| self.ended = Some(error.clone()))?;
        Ok(self.buffer.pop_front())
    }

    /// A revision up to which everything that concerns this watch has been handed out; a bookmark may carry it.
    pub fn progress(&mut self) -> u64 {
        let known = match self.buffer.front() {
            Some(event) => Ok(event.revision() - 1),
            None => self.mirror.read().progress(&self.topic, self.cursor),
        };
        if let Ok(known) = known
            && self.ended.is_none()
        {
            self.progress = self.progress.max(known);
        }
        self.progress
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Arc<Event>, WatchError>>> {
        if self.ended.is_some() {
            return Poll::Ready(None);
        }
        // Before the look, so that a change right after it is not slept through.
        if self.buffer.is_empty() {
            self.waker.register(cx.waker());
        }
        match self.try_next() {
            Ok(Some(event)) => Poll::Ready(Some(Ok(event))),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn fill(&mut self) -> Result<(), WatchError> {
        if !self.buffer.is_empty() {
            return Ok(());
        }
        let state = self.mirror.read();
        state.read(&self.topic, &mut self.cursor, &mut self.buffer, BATCH)?;
        if self.buffer.is_empty() && state.is_closed() {
            return Err(WatchError::Closed);
        }
        Ok(())
    }
}

impl Stream for Watch {
    type Item = Result<Arc<Event>, WatchError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.mirror.write(|state| (state.unwatch(&self.topic, &self.waker), Vec::new()));
    }
}
