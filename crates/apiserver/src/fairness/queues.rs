//! One priority level: so many seats, and queues whose requests take turns for them.
//!
//! A state machine without a clock: every call says what time it is, in seconds. Fair queuing as upstream does it: each queue
//! has a virtual time at which its next request would start if all queues shared the seats evenly; the queue whose request
//! would end first goes first. What a request really took is settled when it ends.

use super::{demand::Demand, hand};
use std::collections::VecDeque;

/// What a request is taken to last until it is known better.
const GUESS: f64 = 0.003;

/// What becomes of a request for which there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It is turned away.
    Reject,
    /// It waits.
    Queue {
        /// In one of so many queues,
        queues: usize,
        /// of which its flow may use so many,
        hand: usize,
        /// each with room for so many.
        length: usize,
    },
}

/// A request that has a seat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticket {
    queue: Option<usize>,
    seats: u32,
    began: f64,
}

impl Ticket {
    /// How many seats it has.
    pub fn seats(&self) -> u32 {
        self.seats
    }
}

/// Where a waiting request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    queue: usize,
    id: u64,
}

/// What happened to a request that came.
#[derive(Debug, PartialEq)]
pub enum Arrival {
    Runs(Ticket),
    Waits(Position),
    /// There is no seat and no queue.
    NoSeat,
    QueueFull,
}

/// Requests that got their seat, to be told so.
pub type Seated<W> = Vec<(W, Ticket)>;

struct Waiting<W> {
    id: u64,
    seats: u32,
    /// Virtual time of its arrival.
    arrived: f64,
    waker: W,
}

struct Queue<W> {
    waiting: VecDeque<Waiting<W>>,
    seats_waiting: u32,
    running: u32,
    /// Virtual time at which its next request starts.
    next_start: f64,
}

impl<W> Queue<W> {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), seats_waiting: 0, running: 0, next_start: 0.0 }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    /// Being idle saves nothing up for later.
    fn catch_up(&mut self) {
        if let Some(first) = self.waiting.front() {
            self.next_start = self.next_start.max(first.arrived);
        }
    }
}

/// Seats and queues of a priority level; `W` is whatever tells a waiting request that its turn has come.
pub struct Queues<W> {
    limit: u32,
    response: Response,
    queues: Vec<Queue<W>>,
    /// Queues that are not idle.
    active: u32,
    seats_in_use: u32,
    seats_waiting: u32,
    running: u32,
    waiting: usize,
    virtual_time: f64,
    now: f64,
    robin: usize,
    arrivals: usize,
    next_id: u64,
    demand: Demand,
}

impl<W> Queues<W> {
    /// With so many seats.
    pub fn new(limit: u32, response: Response, now: f64) -> Self {
        let mut new = Self {
            limit,
            response,
            queues: Vec::new(),
            active: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            running: 0,
            waiting: 0,
            virtual_time: 0.0,
            now,
            robin: 0,
            arrivals: 0,
            next_id: 0,
            demand: Demand::new(now),
        };
        new.resize();
        new
    }

    /// Seats there are at present.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Seats taken, and requests that wait.
    pub fn load(&self) -> (u32, usize) {
        (self.seats_in_use, self.waiting)
    }

    /// How many seats could have been used since the last time this was asked.
    pub fn demand(&mut self, now: f64) -> super::demand::Observed {
        self.advance(now);
        self.demand.period(now)
    }

    /// Changes what is offered; who waits goes on waiting, in the place it has.
    pub fn configure(&mut self, now: f64, limit: u32, response: Response) -> Seated<W> {
        self.advance(now);
        (self.limit, self.response) = (limit, response);
        self.resize();
        self.dispatch()
    }

    fn resize(&mut self) {
        let wanted = match self.response {
            Response::Reject => 0,
            Response::Queue { queues, .. } => queues,
        };
        while self.queues.len() < wanted {
            self.queues.push(Queue::new());
        }
        // Queues beyond the wanted number get nothing new and go when they are empty.
        while self.queues.len() > wanted && self.queues.last().is_some_and(Queue::is_idle) {
            self.queues.pop();
        }
    }

    /// A request of the flow with this hash comes and wants so many seats.
    pub fn arrive(&mut self, now: f64, hash: u64, seats: u32, waker: impl FnOnce() -> W) -> (Arrival, Seated<W>) {
        self.advance(now);
        let Response::Queue { queues, hand, length } = self.response else {
            return match self.has_room(seats) {
                true => (Arrival::Runs(self.run(None, seats)), Vec::new()),
                false => (Arrival::NoSeat, Vec::new()),
            };
        };
        let index = self.choose(hash, queues, hand);
        if self.waiting == 0 && self.has_room(seats) {
            self.wake(index);
            return (Arrival::Runs(self.run(Some(index), seats)), Vec::new());
        }
        if self.seats_in_use >= self.limit && self.queues[index].waiting.len() >= length {
            return (Arrival::QueueFull, Vec::new());
        }
        let id = self.next_id;
        self.next_id += 1;
        self.wake(index);
        let (arrived, queue) = (self.virtual_time, &mut self.queues[index]);
        queue.waiting.push_back(Waiting { id, seats, arrived, waker: waker() });
        queue.seats_waiting += seats;
        queue.catch_up();
        self.seats_waiting += seats;
        self.waiting += 1;
        self.note_demand();
        (Arrival::Waits(Position { queue: index, id }), self.dispatch())
    }

    /// A request that waits gives up. False when it has its seat already.
    pub fn leave(&mut self, now: f64, position: Position) -> bool {
        self.advance(now);
        let Some(queue) = self.queues.get_mut(position.queue) else { return false };
        let Some(at) = queue.waiting.iter().position(|waiting| waiting.id == position.id) else { return false };
        let Some(gone) = queue.waiting.remove(at) else { return false };
        queue.seats_waiting -= gone.seats;
        queue.catch_up();
        self.seats_waiting -= gone.seats;
        self.waiting -= 1;
        self.rest(position.queue);
        self.note_demand();
        true
    }

    /// A request has ended.
    pub fn finish(&mut self, now: f64, ticket: Ticket) -> Seated<W> {
        self.advance(now);
        self.running -= 1;
        self.seats_in_use -= ticket.seats;
        if let Some(index) = ticket.queue {
            let queue = &mut self.queues[index];
            queue.running -= 1;
            queue.next_start -= f64::from(ticket.seats) * (GUESS - (now - ticket.began));
            queue.catch_up();
            self.rest(index);
        }
        self.note_demand();
        self.dispatch()
    }

    /// Seats whoever can be seated, in the order of their turn.
    fn dispatch(&mut self) -> Seated<W> {
        let mut seated = Vec::new();
        while self.waiting > 0 && self.seats_in_use < self.limit {
            let Some(index) = self.next_queue() else { break };
            let queue = &mut self.queues[index];
            let Some(seats) = queue.waiting.front().map(|first| first.seats) else { break };
            // Who needs many seats is not passed by forever by those who need few.
            if !self.has_room(seats) {
                break;
            }
            let queue = &mut self.queues[index];
            let Some(first) = queue.waiting.pop_front() else { break };
            queue.seats_waiting -= seats;
            self.seats_waiting -= seats;
            self.waiting -= 1;
            self.robin = index;
            let ticket = self.run(Some(index), seats);
            self.queues[index].catch_up();
            seated.push((first.waker, ticket));
        }
        self.note_demand();
        seated
    }

    /// The queue whose first request would end first; among equals the next one round.
    fn next_queue(&self) -> Option<usize> {
        let count = self.queues.len();
        let ends = (1..=count).map(|step| (self.robin + step) % count).filter_map(|index| {
            let queue = &self.queues[index];
            Some((queue.next_start + f64::from(queue.waiting.front()?.seats) * GUESS, index))
        });
        ends.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, index)| index)
    }

    fn run(&mut self, queue: Option<usize>, seats: u32) -> Ticket {
        self.running += 1;
        self.seats_in_use += seats;
        if let Some(index) = queue {
            let queue = &mut self.queues[index];
            queue.running += 1;
            queue.next_start += f64::from(seats) * GUESS;
        }
        self.note_demand();
        Ticket { queue, seats, began: self.now }
    }

    fn has_room(&self, seats: u32) -> bool {
        // Who needs more than there are gets all of them.
        if seats > self.limit { self.limit > 0 && self.running == 0 } else { self.seats_in_use + seats <= self.limit }
    }

    /// The queue of the flow's hand in which the least is waiting.
    fn choose(&mut self, hash: u64, queues: usize, hand: usize) -> usize {
        let (cards, count) = hand::deal(hash, queues, hand);
        let first = self.arrivals % count.max(1);
        self.arrivals = self.arrivals.wrapping_add(1);
        let turns = (0..count).map(|step| cards[(first + step) % count]);
        turns.min_by_key(|card| self.queues[*card].seats_waiting).unwrap_or_default()
    }

    /// A queue is about to get something to do.
    fn wake(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        if queue.is_idle() {
            queue.next_start = self.virtual_time;
            self.active += 1;
        }
    }

    /// A queue may have nothing to do any more.
    fn rest(&mut self, index: usize) {
        if self.queues[index].is_idle() {
            self.active -= 1;
            self.resize();
        }
    }

    /// Virtual time runs at the rate at which each queue that has work could do it.
    fn advance(&mut self, now: f64) {
        let passed = (now - self.now).max(0.0);
        self.now = self.now.max(now);
        if self.active > 0 {
            let wanted = (self.seats_in_use + self.seats_waiting).min(self.limit);
            self.virtual_time += passed * f64::from(wanted) / f64::from(self.active);
        }
    }

    fn note_demand(&mut self) {
        self.demand.set(self.now, self.seats_in_use + self.seats_waiting);
    }
}
