//! Answers on their way out: cut into pieces, and given up when the client does not take them.
//!
//! hyper asks a body for its next piece when there is room for it, so the time from one piece to the next is the client's
//! doing, while the time until a piece is there is ours. Only the former counts. A body that is not asked cannot act, so it
//! leaves its deadline with the future that drives it (`Stall`): the stream of HTTP/2, the connection of HTTP/1. Past it, that
//! future is dropped, which resets the one and closes the other.

use super::{
    Pace,
    body::{Body, BoxError},
    slots::InRequest,
};
use bytes::Bytes;
use hyper::{
    body::{Body as HttpBody, Frame, SizeHint},
    rt::Executor,
};
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// Pieces are no larger, so that taking one means that the one before it has gone.
const PIECE: usize = 64 * 1024;

/// In a response's extensions: it goes to somebody who may pause for as long as they like (a pager behind `logs -f`).
#[derive(Clone, Copy, Debug)]
pub struct Unhurried;

/// By when the client has to take the next piece of what this future sends.
#[derive(Default, Debug)]
pub(super) struct Stall(Mutex<Option<Instant>>);

tokio::task_local! {
    static STALL: Arc<Stall>;
}

impl Stall {
    fn set(deadline: Option<Instant>) {
        // Outside of a server (a body that a test reads) there is nobody to wait for.
        let _no_server = STALL.try_with(|stall| *stall.0.lock() = deadline);
    }

    /// Runs one step of what sends.
    pub(super) fn scope<T>(self: &Arc<Self>, step: impl FnOnce() -> T) -> T {
        STALL.sync_scope(Arc::clone(self), step)
    }

    /// Ready when the deadline has passed. `timer` is made only when somebody has to be waited for.
    pub(super) fn poll_passed(&self, timer: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = *self.0.lock() else { return Poll::Pending };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

/// Runs each stream of an HTTP/2 connection, and ends the one whose client does not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        TokioExecutor::new().execute(async move {
            let stall = Arc::new(Stall::default());
            let mut timer = None;
            let mut stream = std::pin::pin!(stream);
            std::future::poll_fn(|context| {
                if stall.scope(|| stream.as_mut().poll(context)).is_ready() {
                    return Poll::Ready(());
                }
                stall.poll_passed(&mut timer, context).map(|()| tracing::debug!("an answer was not read in time"))
            })
            .await;
        });
    }
}

/// The body of an answer as hyper gets it.
pub(super) struct Outgoing {
    body: Body,
    /// The rest of a piece that was too large.
    rest: Bytes,
    pace: Option<Pace>,
    sent: u64,
    /// Time that the client took, and since when it is its turn.
    taken: Duration,
    given: Option<Instant>,
    _request: InRequest,
}

impl Outgoing {
    pub(super) fn new(body: Body, pace: Option<Pace>, request: InRequest) -> Self {
        Self { body, rest: Bytes::new(), pace, sent: 0, taken: Duration::ZERO, given: None, _request: request }
    }

    /// The client has taken what was given.
    fn took(&mut self) {
        if let Some(given) = self.given.take() {
            self.taken += given.elapsed();
            Stall::set(None);
        }
    }

    fn give(&mut self, mut data: Bytes) -> Frame<Bytes> {
        self.rest = data.split_off(data.len().min(PIECE));
        self.sent += data.len() as u64;
        if let Some(pace) = self.pace {
            let now = Instant::now();
            self.given = Some(now);
            Stall::set(Some(now + pace.left(self.sent, self.taken)));
        }
        Frame::data(data)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.given.is_some() {
            Stall::set(None);
        }
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.took();
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.give(rest))));
        }
        Pin::new(&mut self.body).poll_frame(context).map(|next| {
            next.map(|frame| {
                frame.map(|frame| match frame.into_data() {
                    Ok(data) => self.give(data),
                    Err(other) => other,
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole.set_lower(hint.lower() + rest);
        whole
    }
}
