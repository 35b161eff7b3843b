//! A priority level in service: the queues behind a lock, and the requests that wait for their turn.

use super::{
    demand::Observed,
    queues::{Arrival, Position, Queues, Response, Seated, Ticket},
    shares::{Claim, Range},
};
use api::object::Fields;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// What a PriorityLevelConfiguration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its share of the seats.
    pub claim: Claim,
    /// What becomes of the others; none for the level that has no limit.
    pub response: Option<Response>,
}

impl Offer {
    /// Reads an object that was validated.
    pub fn read(level: &Value) -> Self {
        let spec = level.at("spec");
        let number = |path: &str| spec.int_at(path).and_then(|number| u32::try_from(number).ok());
        let size = |path: &str| number(path).unwrap_or(1) as usize;
        let kind = if spec.str_at("type") == "Exempt" { "exempt" } else { "limited" };
        let claim = Claim {
            shares: number(&format!("{kind}.nominalConcurrencyShares")).unwrap_or_default(),
            lendable: number(&format!("{kind}.lendablePercent")).unwrap_or_default(),
            borrowing: number("limited.borrowingLimitPercent"),
        };
        let queuing = "limited.limitResponse.queuing";
        let response = match (kind, spec.str_at("limited.limitResponse.type")) {
            ("exempt", _) => None,
            (_, "Queue") => Some(Response::Queue {
                queues: size(&format!("{queuing}.queues")),
                hand: size(&format!("{queuing}.handSize")),
                length: size(&format!("{queuing}.queueLengthLimit")),
            }),
            _ => Some(Response::Reject),
        };
        Self { claim, response }
    }

    fn hand(&self) -> usize {
        match self.response {
            Some(Response::Queue { hand, .. }) => hand,
            _ => 1,
        }
    }
}

/// Why a request was turned away, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No seat and no queue.
    ConcurrencyLimit,
    /// No room in the queue.
    QueueFull,
    /// Its turn did not come in time.
    TimeOut,
}

/// A priority level.
pub struct Level {
    pub name: String,
    origin: Instant,
    queues: Option<Mutex<Queues<oneshot::Sender<Ticket>>>>,
    offer: Mutex<Offer>,
    widest: AtomicU32,
}

impl Level {
    /// With the seats it starts with.
    pub fn new(name: &str, offer: Offer, range: Range, origin: Instant) -> Self {
        let now = origin.elapsed().as_secs_f64();
        Self {
            name: name.to_owned(),
            origin,
            queues: offer.response.map(|response| Mutex::new(Queues::new(range.start(), response, now))),
            offer: Mutex::new(offer),
            widest: AtomicU32::new(range.widest(offer.hand())),
        }
    }

    fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    /// Whether it has no limit.
    pub fn is_exempt(&self) -> bool {
        self.queues.is_none()
    }

    /// The most seats that one request may take.
    pub fn widest(&self) -> u32 {
        self.widest.load(Ordering::Relaxed)
    }

    /// How many seats could have been used since this was last asked.
    pub fn demand(&self) -> Observed {
        self.queues.as_ref().map(|queues| queues.lock().demand(self.now())).unwrap_or_default()
    }

    /// Seats at present.
    pub fn limit(&self) -> u32 {
        self.queues.as_ref().map_or(0, |queues| queues.lock().limit())
    }

    /// Changes what it offers.
    pub fn configure(&self, offer: Offer, range: Range) {
        *self.offer.lock() = offer;
        self.widest.store(range.widest(offer.hand()), Ordering::Relaxed);
    }

    /// Changes how many seats it has.
    pub fn resize(&self, limit: u32) {
        let response = self.offer.lock().response;
        if let (Some(queues), Some(response)) = (&self.queues, response) {
            let seated = queues.lock().configure(self.now(), limit, response);
            self.notify(seated);
        }
    }

    /// A seat for a request: at once, or after waiting for at most `patience`. `queued` is told when it has to wait.
    pub async fn seat(
        &self,
        hash: u64,
        seats: u32,
        patience: Duration,
        queued: impl FnOnce(),
    ) -> Result<Option<Ticket>, Refusal> {
        let Some(queues) = &self.queues else { return Ok(None) };
        let mut receiver = None;
        let (arrival, seated) = queues.lock().arrive(self.now(), hash, seats, || {
            let (sender, own) = oneshot::channel();
            receiver = Some(own);
            sender
        });
        self.notify(seated);
        match (arrival, receiver) {
            (Arrival::Runs(ticket), _) => Ok(Some(ticket)),
            (Arrival::Waits(position), Some(receiver)) => {
                queued();
                Waiting { level: self, position, receiver: Some(receiver) }.turn(patience).await.map(Some)
            }
            (Arrival::QueueFull, _) => Err(Refusal::QueueFull),
            (Arrival::NoSeat | Arrival::Waits(_), _) => Err(Refusal::ConcurrencyLimit),
        }
    }

    /// A request has ended.
    pub fn finish(&self, ticket: Ticket) {
        if let Some(queues) = &self.queues {
            let seated = queues.lock().finish(self.now(), ticket);
            self.notify(seated);
        }
    }

    fn leave(&self, position: Position) -> bool {
        self.queues.as_ref().is_some_and(|queues| queues.lock().leave(self.now(), position))
    }

    /// Tells those whose turn has come; the seat of one who left in this moment goes on.
    fn notify(&self, seated: Seated<oneshot::Sender<Ticket>>) {
        for (sender, ticket) in seated {
            if let Err(ticket) = sender.send(ticket) {
                self.finish(ticket);
            }
        }
    }
}

/// A request in a queue. Leaves it when it is dropped, as when its client goes.
struct Waiting<'a> {
    level: &'a Level,
    position: Position,
    receiver: Option<oneshot::Receiver<Ticket>>,
}

impl Waiting<'_> {
    async fn turn(mut self, patience: Duration) -> Result<Ticket, Refusal> {
        let Some(receiver) = &mut self.receiver else { return Err(Refusal::TimeOut) };
        let turn = tokio::time::timeout(patience, &mut *receiver).await;
        let ticket = match turn {
            Ok(ticket) => ticket.ok(),
            Err(_) if self.level.leave(self.position) => None,
            // Its turn came in the same moment.
            Err(_) => receiver.await.ok(),
        };
        self.receiver = None;
        ticket.ok_or(Refusal::TimeOut)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        if !self.level.leave(self.position)
            && let Ok(ticket) = receiver.try_recv()
        {
            self.level.finish(ticket);
        }
    }
}
