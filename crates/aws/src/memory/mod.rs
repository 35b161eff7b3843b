//! An AWS account in memory that refuses what AWS refuses, for fast tests; and faults on demand.
//!
//! It holds what `account` can ask for and nothing else. Every refusal is one that AWS is known to make; a test that passes here
//! has met them. Faults hit the nth call from when they were set: it fails, takes effect without an answer, is throttled,
//! is the last before a crash, or reads what was true before the last change.

mod account;
mod classic;
mod ec2;
mod elbv2;
mod example;
mod groups;
pub mod testing;
#[cfg(test)]
mod tests;

pub use example::Example;

use crate::account::{
    Address, Attributes, AvailabilityZone, AwsError, Call, ClassicAttributes, ClassicLoadBalancer, Instance, Kind,
    Listener, LoadBalancer, RouteTable, SecurityGroup, Subnet, Tags, Target, TargetGroup, Vpc,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and does nothing.
    Fail,
    /// It does its work, and the answer is lost.
    Lose,
    /// It is throttled and does nothing.
    Throttle,
    /// It does its work, and whoever called never makes another call: all that follow fail until [`Memory::mend`].
    Kill,
    /// A read tells what was true before the last change; anything else works.
    Stale,
    /// The permission for it is missing.
    Deny,
}

impl Fault {
    /// All of them, for tables.
    pub const ALL: [Self; 6] = [Self::Fail, Self::Lose, Self::Throttle, Self::Kill, Self::Stale, Self::Deny];
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its IAM action.
    pub action: &'static str,
    /// Whether it could change something.
    pub write: bool,
}

/// Everything there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) serial: u64,
    /// Network load balancers by ARN.
    pub load_balancers: BTreeMap<String, HeldBalancer>,
    /// Listeners by ARN, with their load balancer.
    pub listeners: BTreeMap<String, HeldListener>,
    /// Target groups by ARN.
    pub target_groups: BTreeMap<String, HeldTargetGroup>,
    /// Classic load balancers by name.
    pub classic: BTreeMap<String, HeldClassic>,
    /// Security groups by id.
    pub groups: BTreeMap<String, SecurityGroup>,
    /// VPCs by id.
    pub vpcs: BTreeMap<String, Vpc>,
    pub subnets: Vec<Subnet>,
    pub route_tables: Vec<RouteTable>,
    pub zones: Vec<AvailabilityZone>,
    /// Instances by id.
    pub instances: BTreeMap<String, Instance>,
    /// Instances that drop packets that are not their own.
    pub source_dest_check: BTreeMap<String, bool>,
    /// Elastic addresses by allocation.
    pub addresses: BTreeMap<String, Address>,
    /// Certificates by ARN.
    pub certificates: BTreeSet<String>,
    /// What is still held by something deleted, for so many attempts.
    pub(crate) busy: BTreeMap<String, u32>,
}

/// A network load balancer that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBalancer {
    pub load_balancer: LoadBalancer,
    pub attributes: Attributes,
    pub tags: Tags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldListener {
    pub load_balancer: String,
    pub listener: Listener,
    /// Beside its own one.
    pub certificates: BTreeSet<String>,
    pub tags: Tags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTargetGroup {
    pub group: TargetGroup,
    pub attributes: Attributes,
    pub tags: Tags,
    pub targets: BTreeSet<Target>,
    /// On their way out, and still shown.
    pub draining: BTreeSet<Target>,
}

/// A classic load balancer that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClassic {
    pub load_balancer: ClassicLoadBalancer,
    pub attributes: ClassicAttributes,
    pub tags: Tags,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// As it was before the last change.
    before: State,
    made: Vec<Made>,
    fault: Option<(usize, Fault)>,
    killed: bool,
    lingers: u32,
    forgets: bool,
    /// Actions that the role may not do.
    denied: BTreeSet<String>,
    /// Decides who goes on after each call, where several are at work; 0 for whoever called.
    order: u64,
}

/// An account in memory.
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Memory {
    /// An account that holds this.
    pub fn new(state: State) -> Self {
        Self { inner: Mutex::new(Inner { before: state.clone(), state, ..Inner::default() }) }
    }

    /// What it holds now.
    pub fn state(&self) -> State {
        self.inner.lock().state.clone()
    }

    /// Changes it as somebody else would.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        let mut inner = self.inner.lock();
        change(&mut inner.state);
        inner.before = inner.state.clone();
    }

    /// Keeps groups and target groups of what is deleted in use for so many attempts, as AWS does for minutes.
    pub fn linger(&self, attempts: u32) {
        self.inner.lock().lingers = attempts;
    }

    /// Does not keep what was true before a change: no read can be old, and much is done fast.
    pub fn forget_history(&self) {
        self.inner.lock().forgets = true;
    }

    /// From now on others may make calls between any two calls, in an order that this number decides.
    pub fn interleave(&self, order: u64) {
        self.inner.lock().order = order;
    }

    /// For how many turns of others a caller waits after a call.
    fn turns(&self) -> u64 {
        let mut inner = self.inner.lock();
        if inner.order == 0 {
            return 0;
        }
        // A step of xorshift: any order will do that is another one for another number.
        let mut order = inner.order;
        order ^= order << 13;
        order ^= order >> 7;
        order ^= order << 17;
        inner.order = order;
        order % 5
    }

    /// The nth call from now on, counted from 0, meets this fault.
    pub fn inject(&self, nth: usize, fault: Fault) {
        let mut inner = self.inner.lock();
        let at = inner.made.len() + nth;
        inner.fault = Some((at, fault));
    }

    /// Takes these permissions away, until other ones are.
    pub fn deny(&self, actions: &[&str]) {
        self.inner.lock().denied = actions.iter().map(|action| (*action).to_owned()).collect();
    }

    /// Takes the fault away, and a crash with it; says whether it was met.
    pub fn mend(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.killed = false;
        inner.fault.take().is_none_or(|(at, _)| inner.made.len() > at)
    }

    /// The calls made so far; counting begins anew.
    pub fn take_calls(&self) -> Vec<Made> {
        let mut inner = self.inner.lock();
        let at = inner.made.len();
        if let Some((nth, _)) = &mut inner.fault {
            *nth = nth.saturating_sub(at);
        }
        std::mem::take(&mut inner.made)
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        action: &'static str,
        access: Access,
        work: impl FnOnce(&mut State, u32) -> Result<T, AwsError>,
    ) -> Call<'a, T> {
        let outcome = self.perform(action, access, work);
        let turns = self.turns();
        Box::pin(async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            outcome
        })
    }

    fn perform<T>(
        &self,
        action: &'static str,
        access: Access,
        work: impl FnOnce(&mut State, u32) -> Result<T, AwsError>,
    ) -> Result<T, AwsError> {
        let mut inner = self.inner.lock();
        let timeout = |message: &str| AwsError::Timeout { action: action.to_owned(), message: message.to_owned() };
        if inner.killed {
            return Err(timeout("the process is gone"));
        }
        let fault = inner.fault.filter(|(at, _)| *at == inner.made.len()).map(|(_, fault)| fault);
        inner.made.push(Made { action, write: access == Access::Write });
        let fault = fault.or_else(|| inner.denied.contains(action).then_some(Fault::Deny));
        match fault {
            Some(Fault::Fail) => {
                let (code, request_id) = ("InternalFailure".to_owned(), "memory".to_owned());
                return Err(AwsError::Other { code, message: "injected".to_owned(), request_id });
            }
            Some(Fault::Deny) => {
                let (action, message) = (action.to_owned(), "You are not authorized".to_owned());
                return Err(AwsError::Unauthorized { action, message });
            }
            Some(Fault::Throttle) => return Err(AwsError::Throttled { message: "Rate exceeded".to_owned() }),
            _ => {}
        }
        let lingers = inner.lingers;
        let outcome = if access == Access::Write && inner.forgets {
            work(&mut inner.state, lingers)
        } else if access == Access::Write {
            let before = inner.state.clone();
            let outcome = work(&mut inner.state, lingers);
            if inner.state != before {
                inner.before = before;
            }
            outcome
        } else if fault == Some(Fault::Stale) {
            let mut old = inner.before.clone();
            work(&mut old, lingers)
        } else {
            let inner = &mut *inner;
            work(&mut inner.state, lingers)
        };
        match fault {
            Some(Fault::Lose) => Err(timeout("the answer is lost")),
            Some(Fault::Kill) => {
                inner.killed = true;
                Err(timeout("the process is gone"))
            }
            _ => outcome,
        }
    }
}

impl State {
    /// A number that was not given before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn is_busy(&mut self, id: &str) -> bool {
        match self.busy.get_mut(id) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => {
                self.busy.remove(id);
                false
            }
        }
    }
}

fn invalid(code: &str, message: impl Into<String>) -> AwsError {
    AwsError::Invalid { code: code.to_owned(), message: message.into() }
}

fn not_found(kind: Kind, what: &str) -> AwsError {
    AwsError::NotFound { kind, message: format!("{what} does not exist") }
}

fn checked_name(name: &str) -> Result<(), AwsError> {
    let fits = !name.is_empty()
        && name.len() <= 32
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.starts_with("internal-");
    if fits { Ok(()) } else { Err(invalid("ValidationError", format!("The name '{name}' is not valid"))) }
}

fn checked_tags(tags: &Tags) -> Result<(), AwsError> {
    if tags.len() > 50 {
        return Err(AwsError::LimitExceeded { code: "TooManyTags".to_owned(), message: "at most 50 tags".to_owned() });
    }
    match tags.keys().find(|key| key.starts_with("aws:")) {
        Some(key) => {
            Err(invalid("InvalidParameterValue", format!("Tag keys starting with 'aws:' are reserved: {key}")))
        }
        None => Ok(()),
    }
}
