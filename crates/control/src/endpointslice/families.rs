//! Which families a Service's slices have.

use k8s_openapi::api::core::v1::Service;
use net::{Families, Family, HasFamily, legacy::parse_stored_ip};

/// The Service's families in its order. Without any (written by an API server before dual-stack): that of its cluster
/// IP; without that, both.
pub fn families(service: &Service) -> Families {
    let Some(spec) = &service.spec else { return Families::both(Family::V4) };
    let mut named = spec.ip_families.iter().flatten().filter_map(|family| family.parse::<Family>().ok());
    match (named.next(), named.next()) {
        (Some(first), Some(second)) if first != second => Families::both(first),
        (Some(first), _) => Families::one(first),
        (None, _) => {
            let cluster_ip = spec.cluster_ip.as_deref().and_then(|ip| parse_stored_ip(ip).ok());
            cluster_ip.map_or(Families::both(Family::V4), |ip| Families::one(ip.family()))
        }
    }
}

/// Whether it has neither a cluster IP nor is about to get one.
pub fn is_headless(service: &Service) -> bool {
    let cluster_ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    matches!(cluster_ip, None | Some("" | "None"))
}

/// The selector, if it has one that picks something; controllers leave the endpoints of others alone.
pub fn selector(service: &Service) -> Option<&std::collections::BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}
