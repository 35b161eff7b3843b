//! How many requests are served at a time where priority and fairness are switched off: a flood of one sort waits outside and
//! cannot starve the control loops.
//!
//! Upstream's two limits (`--max-requests-inflight`, `--max-mutating-requests-inflight`); watches and connections to nodes
//! do not count, as they last. On top of them, in place of upstream's flow schemas: components of the system have a share of
//! their own, and signs of life (leases, node status) another one, so that nodes stay ready and leaders stay leaders even
//! when a component is what floods. Administrators and health probes always get an answer.

use access::{
    authn::{
        User,
        user::{ANONYMOUS, MASTERS},
    },
    authz::Attributes,
};
use api::error::ApiError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits.
pub struct Inflight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    system: Arc<Semaphore>,
    signs_of_life: Arc<Semaphore>,
}

/// A place; given back when dropped.
pub struct Permit(#[allow(dead_code)] Option<OwnedSemaphorePermit>);

/// How much depends on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Anybody's.
    Common,
    /// Of a component.
    System,
    /// Without which a node or a leader is taken for dead.
    SignOfLife,
    /// Never turned away.
    Exempt,
}

impl Weight {
    /// Of a request.
    pub fn of(asked: &Attributes<'_>) -> Self {
        let probe = |path: &str| ["healthz", "livez", "readyz"].contains(&path.split('/').nth(1).unwrap_or_default());
        if asked.user.in_group(MASTERS) || asked.path.is_some_and(probe) {
            return Self::Exempt;
        }
        let lives = match (asked.group, asked.resource) {
            ("coordination.k8s.io", "leases") => true,
            ("", "nodes") => asked.user.node().is_some(),
            _ => false,
        };
        match (is_system(asked.user), lives) {
            (false, _) => Self::Common,
            (true, false) => Self::System,
            (true, true) => Self::SignOfLife,
        }
    }
}

impl Inflight {
    /// `0` means no limit, as upstream has it.
    pub fn new(reading: usize, writing: usize) -> Self {
        let limit = |count: usize| Arc::new(Semaphore::new(if count == 0 { Semaphore::MAX_PERMITS } else { count }));
        let share = reading.saturating_add(writing).div_ceil(4).min(Semaphore::MAX_PERMITS);
        Self { reading: limit(reading), writing: limit(writing), system: limit(share), signs_of_life: limit(share) }
    }

    /// A place for a request, or 429.
    pub fn take(&self, weight: Weight, mutating: bool) -> Result<Permit, ApiError> {
        let common = if mutating { &self.writing } else { &self.reading };
        let shares: &[&Arc<Semaphore>] = match weight {
            // Who is never turned away leaves the shares to those who would be.
            Weight::Common | Weight::Exempt => &[common],
            Weight::System => &[common, &self.system],
            Weight::SignOfLife => &[common, &self.system, &self.signs_of_life],
        };
        if let Some(permit) = shares.iter().find_map(|share| Arc::clone(share).try_acquire_owned().ok()) {
            return Ok(Permit(Some(permit)));
        }
        match weight {
            Weight::Exempt => Ok(Permit(None)),
            _ => Err(ApiError::too_many_requests("Too many requests, please try again later.", 1)),
        }
    }
}

fn is_system(user: &User) -> bool {
    let named = user.name.starts_with("system:") && !user.name.starts_with("system:serviceaccount:");
    (named && user.name != ANONYMOUS) || user.in_group("system:serviceaccounts:kube-system")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Inflight {
        fn enter(&self, asked: &Attributes<'_>, mutating: bool) -> Result<Permit, ApiError> {
            self.take(Weight::of(asked), mutating)
        }
    }

    fn code(entered: &Result<Permit, ApiError>) -> u16 {
        entered.as_ref().err().map_or(200, |error| error.code)
    }

    #[test]
    fn a_flood_leaves_room_for_the_system_and_for_the_other_sort() {
        let inflight = Inflight::new(2, 2);
        let (flooder, node) = (User::new("eve", ["dev"]), User::new("system:node:a", ["system:nodes"]));
        let pods = |user| Attributes::resource(user, "list", "", "pods");
        let held: Vec<_> = (0..2).map(|_| inflight.enter(&pods(&flooder), false).unwrap()).collect();
        assert_eq!(code(&inflight.enter(&pods(&flooder), false)), 429);
        let served = inflight.enter(&pods(&node), false).unwrap();
        assert_eq!(code(&inflight.enter(&pods(&node), false)), 429, "the share is bounded too");
        assert_eq!(code(&inflight.enter(&pods(&flooder), true)), 200, "writes have their own limit");
        drop((held, served));
        assert_eq!(code(&inflight.enter(&pods(&flooder), false)), 200);
    }

    #[test]
    fn signs_of_life_go_on_when_a_component_floods() {
        let inflight = Inflight::new(2, 2);
        let node = User::new("system:node:a", ["system:nodes"]);
        let manager = User::new("system:kube-controller-manager", ["system:authenticated"]);
        let account = User::service_account("kube-system", "dns", "1");
        let floods = Attributes::resource(&manager, "update", "", "pods");
        let held: Vec<_> = (0..3).map(|_| inflight.enter(&floods, true).unwrap()).collect();
        assert_eq!(code(&inflight.enter(&floods, true)), 429);
        for (user, group, resource) in [
            (&node, "coordination.k8s.io", "leases"),
            (&node, "", "nodes"),
            (&manager, "coordination.k8s.io", "leases"),
            (&account, "coordination.k8s.io", "leases"),
        ] {
            let asked = Attributes::resource(user, "update", group, resource);
            assert_eq!(code(&inflight.enter(&asked, true)), 200, "{} {resource}", user.name);
        }
        drop(held);
    }

    #[test]
    fn administrators_and_probes_always_get_an_answer() {
        let inflight = Inflight::new(1, 1);
        let (eve, admin) = (User::new("eve", ["dev"]), User::new("root", ["system:masters"]));
        let stranger = User::anonymous();
        let other = User::service_account("dev", "app", "1");
        let _held = inflight.enter(&Attributes::resource(&eve, "list", "", "pods"), false).unwrap();
        for (asked, want) in [
            (Attributes::resource(&admin, "list", "", "pods"), 200),
            (Attributes::path(&stranger, "get", "/readyz"), 200),
            (Attributes::path(&stranger, "get", "/livez/ping"), 200),
            (Attributes::path(&stranger, "get", "/version"), 429),
            (Attributes::resource(&other, "list", "coordination.k8s.io", "leases"), 429),
        ] {
            let permits: Vec<_> = (0..9).map(|_| inflight.enter(&asked, false)).collect();
            assert!(permits.iter().all(|permit| code(permit) == want), "{asked:?}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let inflight = Inflight::new(0, 0);
        let eve = User::new("eve", ["dev"]);
        let held: Vec<_> =
            (0..1000).map(|_| inflight.enter(&Attributes::path(&eve, "get", "/version"), false)).collect();
        assert!(held.iter().all(Result::is_ok));
    }
}
