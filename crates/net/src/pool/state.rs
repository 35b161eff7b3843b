//! What a pool knows, in places: which are busy, which of these are withheld or only reserved. Every method of `Pool`
//! comes here, under the pool's lock.

use super::{order::Order, runs::Runs, space::Span};
use std::collections::BTreeMap;

/// The places of one pool.
#[derive(Debug)]
pub(crate) struct State {
    /// Everything that cannot be given: kept, reserved or withheld.
    busy: Runs,
    /// The part of `busy` that is never given.
    withheld: Runs,
    /// The part of `busy` whose guard is alive, by first place. Their spans never overlap.
    reserved: BTreeMap<u64, Reserved>,
    next_ticket: u64,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
struct Reserved {
    last: u64,
    ticket: u64,
}

/// A guard's claim on a span. The number tells it from a later claim on the same place.
#[derive(Debug)]
pub(crate) struct Ticket {
    first: u64,
    number: u64,
}

/// Why a span was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Busy {
    Taken,
    Withheld,
}

impl State {
    pub(crate) fn new(order: Order) -> Self {
        Self { busy: Runs::default(), withheld: Runs::default(), reserved: BTreeMap::new(), next_ticket: 0, order }
    }

    /// Reserves a free place: in the upper band, or when that is full in the lower one.
    pub(crate) fn take_any(&mut self, last: u64, static_band: u64) -> Option<(u64, Ticket)> {
        let upper = Span { first: static_band, last };
        let lower = static_band.checked_sub(1).map(|last| Span { first: 0, last });
        let index = self.find(upper).or_else(|| self.find(lower?))?;
        self.order.given(index, last);
        Some((index, self.claim(Span::one(index))))
    }

    fn find(&mut self, band: Span<u64>) -> Option<u64> {
        let start = self.order.start(band);
        self.busy
            .first_free(Span { first: start, last: band.last })
            .or_else(|| self.busy.first_free(Span { first: band.first, last: start }))
    }

    /// Reserves all of the span or nothing.
    pub(crate) fn take(&mut self, span: Span<u64>) -> Result<Ticket, Busy> {
        if self.withheld.overlaps(span) {
            Err(Busy::Withheld)
        } else if self.busy.overlaps(span) {
            Err(Busy::Taken)
        } else {
            Ok(self.claim(span))
        }
    }

    fn claim(&mut self, span: Span<u64>) -> Ticket {
        self.busy.insert(span);
        let ticket = Ticket { first: span.first, number: self.next_ticket };
        self.next_ticket += 1;
        self.reserved.insert(span.first, Reserved { last: span.last, ticket: ticket.number });
        ticket
    }

    /// Keeps what the ticket reserved.
    pub(crate) fn keep(&mut self, ticket: &Ticket) {
        self.redeem(ticket);
    }

    /// Frees what the ticket reserved, unless a restore or repair found that it belongs to someone.
    pub(crate) fn give_up(&mut self, ticket: &Ticket) {
        if let Some(span) = self.redeem(ticket) {
            self.busy.remove(span);
            self.busy_again(span);
        }
    }

    fn redeem(&mut self, ticket: &Ticket) -> Option<Span<u64>> {
        let reserved = self.reserved.get(&ticket.first).filter(|reserved| reserved.ticket == ticket.number)?;
        let span = Span { first: ticket.first, last: reserved.last };
        self.reserved.remove(&ticket.first);
        Some(span)
    }

    /// Keeps all of the span, whoever has parts of it already; says how many places were free.
    pub(crate) fn occupy(&mut self, span: Span<u64>) -> u64 {
        self.adopt(span);
        self.busy.insert(span)
    }

    /// Frees what is kept of the span; withheld and reserved places stay. Says how many were freed.
    pub(crate) fn release(&mut self, span: Span<u64>) -> u64 {
        self.busy.remove(span) - self.busy_again(span)
    }

    /// Takes the span out of what is given, for good.
    pub(crate) fn withhold(&mut self, span: Span<u64>) {
        self.withheld.insert(span);
        self.busy.insert(span);
    }

    /// Replaces what is kept. What guards reserved stays busy; what the list names of it belongs to the list.
    pub(crate) fn replace(&mut self, kept: &Runs) {
        let reserved: Vec<_> = self.reserved_spans().collect();
        self.busy = self.withheld.clone();
        for span in kept.iter() {
            self.occupy(span);
        }
        for span in reserved {
            self.busy.insert(span);
        }
    }

    /// What is kept: neither withheld nor only reserved.
    pub(crate) fn kept(&self) -> Runs {
        let mut kept = self.busy.clone();
        for span in self.withheld.iter().chain(self.reserved_spans()) {
            kept.remove(span);
        }
        kept
    }

    /// Whether all of the span is taken and none of it withheld.
    pub(crate) fn holds(&self, span: Span<u64>) -> bool {
        self.busy.contains(span) && !self.withheld.overlaps(span)
    }

    pub(crate) fn withholds(&self, span: Span<u64>) -> bool {
        self.withheld.overlaps(span)
    }

    /// Whether no place of the span is free.
    pub(crate) fn is_busy(&self, span: Span<u64>) -> bool {
        self.busy.contains(span)
    }

    pub(crate) fn busy_count(&self) -> u64 {
        self.busy.count()
    }

    pub(crate) fn withheld_count(&self) -> u64 {
        self.withheld.count()
    }

    fn reserved_spans(&self) -> impl Iterator<Item = Span<u64>> {
        self.reserved.iter().map(|(&first, reserved)| Span { first, last: reserved.last })
    }

    /// Cancels the tickets that touch the span, so that their guards free nothing. Their places stay busy: of two
    /// claims on one place, forgetting to free is the harmless mistake, and a repair finds it.
    fn adopt(&mut self, span: Span<u64>) {
        for first in self.reserved_in(span) {
            self.reserved.remove(&first);
        }
    }

    /// Puts back what removing the span took from `withheld` and `reserved`; says how many places that were.
    fn busy_again(&mut self, span: Span<u64>) -> u64 {
        let mut kept = 0;
        for part in self.withheld.within(span) {
            kept += self.busy.insert(part);
        }
        for first in self.reserved_in(span) {
            if let Some(reserved) = self.reserved.get(&first) {
                kept += self.busy.insert(Span { first, last: reserved.last });
            }
        }
        kept
    }

    fn reserved_in(&self, span: Span<u64>) -> Vec<u64> {
        let up_to_end = self.reserved.range(..=span.last).rev();
        up_to_end.take_while(|(_, reserved)| reserved.last >= span.first).map(|(&first, _)| first).collect()
    }
}
