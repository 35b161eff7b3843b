//! Family fields of Services that were stored without them, by older writers.

use super::{
    Cluster,
    spec::{FAMILIES, IP, IPS, POLICY, REQUIRE, SINGLE, is_external_name, is_unmanaged, set_families},
};
use crate::{
    kinds::{check, service::is_headless},
    object::Fields,
};
use net::{Families, HasFamily};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The Service as a reader of today expects it; most are so already and are not copied.
///
/// Called for `old` in every update, and where objects that another writer may have stored are served.
pub fn default_on_read<'a>(cluster: &Cluster, stored: &'a Value) -> Cow<'a, Value> {
    let complete = !stored.list_at(FAMILIES).is_empty() && !stored.list_at(IPS).is_empty();
    let external_name = is_external_name(stored);
    if complete || external_name && stored.at("spec.internalTrafficPolicy").is_null() {
        return Cow::Borrowed(stored);
    }
    let mut service = stored.clone();
    if external_name {
        service.remove("spec.internalTrafficPolicy");
        return Cow::Owned(service);
    }
    if service.list_at(IPS).is_empty() && !service.str_at(IP).is_empty() {
        let only = json!([service.at(IP)]);
        service.set(IPS, only);
    }
    if service.list_at(FAMILIES).is_empty() {
        family_fields(cluster, &mut service);
    }
    Cow::Owned(service)
}

fn family_fields(cluster: &Cluster, service: &mut Value) {
    let primary = cluster.families.primary();
    let known = if is_unmanaged(service) {
        Families::both(primary).iter().collect()
    } else if is_headless(service) {
        vec![primary]
    } else {
        let ips = check::texts(service, IPS);
        ips.into_iter().filter_map(|ip| net::legacy::parse_stored_ip(ip).ok()).map(|ip| ip.family()).collect()
    };
    if known.is_empty() {
        return;
    }
    set_families(service, &known);
    service.set_default(POLICY, if known.len() == 1 { SINGLE } else { REQUIRE });
}
