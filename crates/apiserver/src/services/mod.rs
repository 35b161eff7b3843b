//! Services and what they take from the cluster: addresses of one or two families, node ports, health check ports.
//!
//! The verbs ask `ServiceKind` around every write of a Service. The rules are `api::families`; here they meet the
//! pools and the store. `run` keeps up with other servers on the same store and mends what others broke (`repair`).

pub mod claims;
mod event;
mod kind;
pub mod kubernetes;
mod metrics;
pub mod pools;
pub mod ranges;
mod reconcile;
pub mod repair;
mod reserved;
mod settings;

pub use api::families::RuleSet;
pub use kind::ServiceKind;
pub use reconcile::{StartError, bootstrap, load, run};
pub use reserved::Reserved;
pub use settings::{Advertised, KubernetesService, Settings};

use crate::{ApiServer, call::Call};
use api::{
    error::ApiError,
    families::{self, Wish},
    object::Fields,
};
use claims::{Claimed, Holder};
use pools::Pools;
use serde_json::Value;
use store::{Store, Txn};

/// The settings and the pools.
pub struct Services {
    /// What the administrator decided.
    pub settings: Settings,
    /// What is free.
    pub pools: Pools,
}

impl Default for Services {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Services {
    /// Empty pools; `load` fills them.
    pub fn new(settings: Settings) -> Self {
        Self { pools: Pools::new(&settings), settings }
    }

    /// A Service that goes: what it has goes with it.
    fn give_back(&self, call: &Call, old: &Value) -> Reserved {
        let (addresses, ports) = families::held(old);
        let mut txn = Txn::default();
        reserved::give_back(&call.server, &mut txn, &Holder::of(old), &addresses, &ports);
        Reserved::of(txn)
    }

    /// A new or changed Service: its families are decided and what it needs is taken; what it no longer needs goes back when
    /// it is stored.
    async fn reserve(&self, call: &Call, object: &mut Value, old: Option<&Value>) -> Result<Reserved, ApiError> {
        let name = object.str_at("metadata.name").to_owned();
        let resolved = families::resolve(&self.settings.cluster(), object, old)
            .map_err(|errors| ApiError::invalid("Service", "", &name, &errors))?;
        self.look_again(&call.server, &resolved.claims).await;
        let mut reserved =
            reserved::take(&self.pools, &resolved.claims, object).map_err(|refusal| refusal.answer(&name))?;
        reserved::together(&call.server, &mut reserved, &resolved.claims, object)?;
        call.warn(resolved.warnings);
        Ok(reserved)
    }

    /// What another server gave back a moment ago may still look taken here.
    async fn look_again(&self, server: &ApiServer, claims: &families::Claims) {
        let addresses = claims.addresses.iter().filter_map(|claim| match claim.wish {
            Wish::This(ip) if self.pools.addresses().iter().any(|pool| pool.contains(ip)) => {
                Some(claims::address_key(ip))
            }
            _ => None,
        });
        let ports = claims.ports.iter().filter_map(|claim| match claim.wish {
            Wish::This(port) => {
                let port = u16::try_from(port).ok()?;
                self.pools.ports()?.contains(port).then(|| claims::port_key(port))
            }
            Wish::Any => None,
        });
        let doubtful: Vec<_> = addresses.chain(ports).collect();
        if !doubtful.is_empty() && server.store.revision().await.is_ok() {
            for key in doubtful {
                self.note(&server.store, &key);
            }
        }
    }

    /// Learns from the store whether somebody has what the key stands for.
    pub fn note(&self, store: &Store, key: &str) {
        match Claimed::of_key(key) {
            Some(Claimed::Address(ip)) => self.pools.note_address(ip, store.get(key).is_some()),
            Some(Claimed::Port(port)) => self.pools.note_port(port, store.get(key).is_some()),
            None => {}
        }
    }
}
