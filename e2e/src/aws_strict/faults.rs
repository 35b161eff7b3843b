//! What goes wrong on demand: a call fails, is throttled, gets no answer before or after its effect, reads what is old, or is the
//! last before its caller is gone.

use super::{
    call::{Api, Call},
    counts::Made,
    refusal::{Answer, Refusal},
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// AWS has an internal error; nothing is done.
    Fail,
    /// The permission is missing; nothing is done.
    Deny,
    /// It is throttled, in the words of its API; nothing is done.
    Throttle,
    /// The connection ends before anything is done.
    TimeOut,
    /// It is done, and the answer is lost.
    Lose,
    /// It is done, its caller is gone: this call and all that follow get no answer until [`Faults::mend`].
    Kill,
    /// A read gets the answer that the same question got before the last change; anything else works.
    Stale,
    /// Something in between answers with a page of HTML; nothing is done.
    NotXml,
}

/// Which calls a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Injected {
    fault: Fault,
    /// Only calls of this action are counted; `None` for all.
    action: Option<String>,
    /// So many pass first.
    after: usize,
    /// So many are met.
    times: usize,
    met: usize,
}

/// The faults that are set, and what was called.
#[derive(Debug, Default)]
pub(super) struct Faults {
    injected: Option<Injected>,
    /// Actions that nobody may do.
    denied: BTreeSet<String>,
    /// What the policy did not allow.
    pub(super) denials: Vec<String>,
    killed: bool,
    made: Vec<Made>,
    /// How many changes there were.
    changes: u64,
    /// By question: the last answer, and the last one of an earlier number of changes.
    answers: BTreeMap<String, (u64, Answer, Option<Answer>)>,
}

impl Faults {
    pub(super) fn inject(&mut self, action: Option<&str>, after: usize, times: usize, fault: Fault) {
        self.injected = Some(Injected { fault, action: action.map(str::to_owned), after, times, met: 0 });
    }

    pub(super) fn deny(&mut self, actions: &[&str]) {
        self.denied = actions.iter().map(|action| (*action).to_owned()).collect();
    }

    /// Takes the fault away, and a crash with it; says how many calls met it.
    pub(super) fn mend(&mut self) -> usize {
        self.killed = false;
        self.injected.take().map_or(0, |injected| injected.met)
    }

    pub(super) fn killed(&self) -> bool {
        self.killed
    }

    pub(super) fn take_calls(&mut self) -> Vec<Made> {
        std::mem::take(&mut self.made)
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Counts a call, and says what happens to it. A caller that is gone does not count.
    pub(super) fn next(&mut self, call: &Call) -> Option<Fault> {
        if self.killed {
            return Some(Fault::TimeOut);
        }
        self.made.push(Made { api: call.api, action: call.action.clone(), write: call.is_write(), at: Instant::now() });
        if self.denied.contains(&call.action) {
            return Some(Fault::Deny);
        }
        let injected = self.injected.as_mut()?;
        if injected.action.as_ref().is_some_and(|action| *action != call.action) || injected.times == 0 {
            return None;
        }
        if injected.after > 0 {
            injected.after -= 1;
            return None;
        }
        let fault = injected.fault;
        if fault == Fault::Stale && (call.is_write() || self.old(call).is_none()) {
            return None;
        }
        let injected = self.injected.as_mut()?;
        injected.times -= 1;
        injected.met += 1;
        self.killed = fault == Fault::Kill;
        Some(fault)
    }

    /// The answer of before the last change.
    pub(super) fn old(&self, call: &Call) -> Option<Answer> {
        let (changes, last, before) = self.answers.get(&call.question())?;
        if *changes < self.changes { Some(last.clone()) } else { before.clone() }
    }

    pub(super) fn remember(&mut self, call: &Call, answer: &Answer) {
        if call.is_write() {
            self.changes += 1;
            return;
        }
        let old = self.old(call);
        self.answers.insert(call.question(), (self.changes, answer.clone(), old));
    }
}

/// The answer of a fault that is answered, nothing being done.
pub(super) fn answer(fault: Fault, api: Api) -> Option<Answer> {
    match fault {
        Fault::Fail => Some(Refusal::with_status(500, "InternalFailure", "injected").answer(api)),
        Fault::Deny => {
            let code = if api == Api::Ec2 { "UnauthorizedOperation" } else { "AccessDenied" };
            Some(Refusal::with_status(403, code, "You are not authorized to perform this operation").answer(api))
        }
        Fault::Throttle => {
            let (status, code) = match api {
                Api::Ec2 => (503, "RequestLimitExceeded"),
                _ => (400, "Throttling"),
            };
            Some(Refusal::with_status(status, code, "Rate exceeded").answer(api))
        }
        Fault::NotXml => {
            let body = Bytes::from_static(b"<!doctype html>\n<title>502 Bad Gateway</title>\n<p>The server is busy.\n");
            Some(Answer { status: 502, kind: "text/html".to_owned(), body })
        }
        Fault::TimeOut | Fault::Lose | Fault::Kill | Fault::Stale => None,
    }
}
