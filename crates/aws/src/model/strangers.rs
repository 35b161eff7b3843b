//! Annotations that are not read here: those of the AWS Load Balancer Controller, and words that nobody knows.
//!
//! One that says who may connect, from where, or where traffic goes is refused when it asks for something else than what is
//! made; leaving it out would make a load balancer that nobody asked for. The others are told and have no effect.

use super::{
    annotations::{Annotations, Kind, name},
    request::Note,
};
use crate::account::IpAddressType;
use runtime::suggest::nearest;
use std::collections::BTreeMap;

/// What is read by `annotations`, without `aws-load-balancer-`.
pub const READ: &[&str] = &[
    "type",
    "internal",
    "subnets",
    "security-groups",
    "extra-security-groups",
    "manage-backend-security-group-rules",
    "additional-resource-tags",
    "target-node-labels",
    "target-group-attributes",
    "ssl-cert",
    "ssl-ports",
    "ssl-negotiation-policy",
    "backend-protocol",
    "proxy-protocol",
    "access-log-enabled",
    "access-log-emit-interval",
    "access-log-s3-bucket-name",
    "access-log-s3-bucket-prefix",
    "connection-draining-enabled",
    "connection-draining-timeout",
    "connection-idle-timeout",
    "cross-zone-load-balancing-enabled",
    "healthcheck-protocol",
    "healthcheck-port",
    "healthcheck-path",
    "healthcheck-interval",
    "healthcheck-timeout",
    "healthcheck-healthy-threshold",
    "healthcheck-unhealthy-threshold",
    "eip-allocations",
    "private-ipv4-addresses",
];

/// Those of [`READ`] that are for classic load balancers alone.
const CLASSIC_ONLY: &[&str] = &[
    "proxy-protocol",
    "access-log-emit-interval",
    "connection-draining-enabled",
    "connection-draining-timeout",
    "connection-idle-timeout",
];

/// Those of [`READ`] that are for network load balancers alone, and not refused elsewhere.
const NETWORK_ONLY: &[&str] = &["manage-backend-security-group-rules", "eip-allocations", "private-ipv4-addresses"];

/// The other controller's, which have no effect here; some are followed by a dot and more.
pub const NO_EFFECT: &[&str] = &[
    "name",
    "proxy-protocol-per-target-group",
    "healthcheck-success-codes",
    "ipv6-addresses",
    "alpn-policy",
    "attributes",
    "inbound-sg-rules-on-private-link-traffic",
    "listener-attributes",
    "multi-cluster-target-group",
    "enable-prefix-for-ipv6-source-nat",
    "source-nat-ipv6-prefixes",
    "minimum-load-balancer-capacity",
    "enable-icmp-for-path-mtu-discovery",
    "enable-tcp-udp-listener",
    "disable-nlb-sg",
    "quic-enabled-ports",
];

/// The other controller's that are accepted only where they ask for what is made anyway.
pub const REFUSED: &[&str] = &["nlb-target-type", "scheme", "ip-address-type", "security-group-prefix-lists"];

/// Refuses what would be made otherwise than asked for, and tells of what has no effect.
pub(super) fn check(
    given: &BTreeMap<String, String>,
    annotations: &Annotations,
    kind: IpAddressType,
    notes: &mut Vec<Note>,
    mistakes: &mut Vec<String>,
) {
    let start = name("");
    for (key, value) in given {
        let Some(suffix) = key.strip_prefix(&start) else { continue };
        let first = suffix.split('.').next().unwrap_or_default();
        let (other, of) = match annotations.kind {
            Kind::Network => (CLASSIC_ONLY, "classic"),
            Kind::Classic | Kind::Elsewhere => (NETWORK_ONLY, "network"),
        };
        if other.contains(&suffix) {
            let message = format!("{key} is for {of} load balancers: it has no effect here");
            notes.push(Note { reason: "AnnotationHasNoEffect", message });
        }
        if READ.contains(&suffix) {
            continue;
        }
        if REFUSED.contains(&suffix) {
            mistakes.extend(refusal(suffix, value, annotations, kind).map(|why| format!("{key}: {value:?}: {why}")));
        } else if NO_EFFECT.contains(&first) {
            let message = format!("{key} is read by the AWS Load Balancer Controller, not here: it has no effect");
            notes.push(Note { reason: "AnnotationHasNoEffect", message });
        } else {
            let near = nearest(suffix, READ.iter().copied());
            let near = near.map(|near| format!("; did you mean {}?", name(near))).unwrap_or_default();
            let message = format!("{key} is not known and has no effect{near}");
            notes.push(Note { reason: "AnnotationNotKnown", message });
        }
    }
    if let Some(other) = given.get(&name("type")).filter(|kind| *kind != "nlb" && annotations.kind == Kind::Classic) {
        let message = format!(
            "{}: {other:?} is no type that is known here, and a Classic Load Balancer is made; known are nlb, and external and \
             nlb-ip for other controllers",
            name("type")
        );
        notes.push(Note { reason: "LoadBalancerTypeNotKnown", message });
    }
}

fn refusal(suffix: &str, value: &str, annotations: &Annotations, kind: IpAddressType) -> Option<String> {
    let made = match suffix {
        "nlb-target-type" => {
            return (value != "instance").then(|| {
                "targets are nodes here, and the only accepted value is instance; the AWS Load Balancer Controller has others"
                    .to_owned()
            });
        }
        "security-group-prefix-lists" => {
            return Some("prefix lists are not supported; list addresses in spec.loadBalancerSourceRanges".to_owned());
        }
        "scheme" if annotations.internal => "internal",
        "scheme" => "internet-facing",
        _ if kind == IpAddressType::Dualstack => "dualstack",
        _ => "ipv4",
    };
    let decided_by = if suffix == "scheme" { name("internal") } else { "spec.ipFamilies".to_owned() };
    (value != made).then(|| format!("{decided_by} decides this, and makes it {made}"))
}
