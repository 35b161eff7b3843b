//! Kernel settings: only those that each pod has its own of and that touch nobody else.

use super::{super::pod::PodView, Violation};
use api::object::Fields;

/// Each with the minor release since which it counts as safe.
const SAFE: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_notsent_lowat", 37),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
];

pub(super) fn v1_0(pod: PodView<'_>) -> Option<Violation> {
    check(pod, 0)
}

pub(super) fn v1_27(pod: PodView<'_>) -> Option<Violation> {
    check(pod, 27)
}

pub(super) fn v1_29(pod: PodView<'_>) -> Option<Violation> {
    check(pod, 29)
}

pub(super) fn v1_32(pod: PodView<'_>) -> Option<Violation> {
    check(pod, 32)
}

pub(super) fn v1_37(pod: PodView<'_>) -> Option<Violation> {
    check(pod, 37)
}

fn check(pod: PodView<'_>, minor: u32) -> Option<Violation> {
    let is_safe = |name: &str| SAFE.iter().any(|(safe, since)| *safe == name && *since <= minor);
    let names = pod.security_context().list_at("sysctls").iter().map(|sysctl| sysctl.str_at("name"));
    let forbidden: Vec<&str> = names.filter(|name| !is_safe(name)).collect();
    (!forbidden.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: forbidden.join(", ") })
}
