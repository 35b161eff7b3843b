//! The dual-stack rules of Services: which families, addresses and node ports a request comes to.
//!
//! The API server calls [`resolve`] with every Service that is written, before it validates it in full. What comes back
//! says what to take from the pools and what to give back; the request then has everything but the numbers that the pools
//! choose. The order of the steps is that of kube-apiserver (`pkg/registry/core/service/storage`), because it decides which
//! mistakes are reported together.
//!
//! A request is read into a [`spec::Spec`] once; every step decides on that, and what it came to is written back.

mod carry;
mod claims;
mod init;
mod prefer;
mod read;
mod rules;
mod seed;
mod spec;
#[cfg(test)]
mod tests;

use crate::{error::FieldError, kinds::service_ips};
use net::Families;
use serde_json::Value;

pub use claims::{AddressClaim, Claims, PortClaim, PortField, Wish, addresses, held};
pub use read::default_on_read;
pub use rules::{RuleSet, UnknownRules};
use spec::Spec;

/// What the rules need to know of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The families of `--service-cluster-ip-range`; the first is the default.
    pub families: Families,
    /// Whose rules hold where the two differ.
    pub rules: RuleSet,
}

/// What a request came to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolved {
    /// What to take and what to give back.
    pub claims: Claims,
    /// How the request was read where it could surprise.
    pub warnings: Vec<String>,
}

/// Decides the family fields of `service` and writes them into it; says what it needs from the pools.
///
/// `service` has its static defaults. `old` is the Service before an update. The mistakes of one stage are reported
/// together; what a later stage would find is not looked for, since it would mislead.
pub fn resolve(cluster: &Cluster, service: &mut Value, old: Option<&Value>) -> Result<Resolved, Vec<FieldError>> {
    let mut warnings = Vec::new();
    let stored = old.map(|old| default_on_read(cluster, old));
    let prefers = prefer::take(service)?;
    let before = stored.as_deref().map(Spec::read);
    let before = before.as_ref();
    let mut spec = Spec::read(service);
    if let Some(prefers) = prefers {
        prefer::translate(prefers, &mut spec, before, &mut warnings)?;
    }
    if let Some(before) = before {
        carry::allocated_values(&mut spec, before);
    }
    carry::singular_and_plural(&mut spec, before);
    if cluster.rules == RuleSet::Seed {
        seed::relax(&mut spec, before, &mut warnings);
    }
    if !init::is_settled(cluster, &spec, before) {
        init::policy(&mut spec, before);
        spec.write(service);
        structure(service, stored.as_deref())?;
        init::families(cluster, &mut spec, before)?;
    }
    spec.write(service);
    Ok(Resolved { claims: claims::of(&spec, before), warnings })
}

/// The checks that come before families are decided.
fn structure(service: &Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    let errors = service_ips::validate(service, old);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
