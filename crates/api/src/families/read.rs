//! Family fields of Services that were stored without them, by older writers.

use super::{
    Cluster,
    spec::{FAMILIES, IPS, Policy, Spec},
};
use crate::object::Fields;
use net::{Families, HasFamily};
use serde_json::Value;
use std::borrow::Cow;

/// The Service as a reader of today expects it; most are so already and are not copied.
///
/// Called for `old` in every update, and where objects that another writer may have stored are served.
pub fn default_on_read<'a>(cluster: &Cluster, stored: &'a Value) -> Cow<'a, Value> {
    let complete = !stored.list_at(FAMILIES).is_empty() && !stored.list_at(IPS).is_empty();
    let external_name = stored.str_at("spec.type") == "ExternalName";
    if complete || external_name && stored.at("spec.internalTrafficPolicy").is_null() {
        return Cow::Borrowed(stored);
    }
    let mut service = stored.clone();
    if external_name {
        service.remove("spec.internalTrafficPolicy");
        return Cow::Owned(service);
    }
    let mut spec = Spec::read(stored);
    if spec.ips.is_empty() && !spec.ip.is_empty() {
        spec.ips = vec![spec.ip.clone()];
    }
    if spec.families.is_empty() {
        family_fields(cluster, &mut spec);
    }
    spec.write(&mut service);
    Cow::Owned(service)
}

fn family_fields(cluster: &Cluster, spec: &mut Spec) {
    let primary = cluster.families.primary();
    let known: Vec<_> = if spec.is_unmanaged() {
        Families::both(primary).iter().collect()
    } else if spec.is_headless() {
        vec![primary]
    } else {
        spec.addresses().into_iter().map(|ip| ip.family()).collect()
    };
    if known.is_empty() {
        return;
    }
    spec.set_families(&known);
    spec.policy.get_or_insert(if known.len() == 1 { Policy::Single } else { Policy::Require });
}
