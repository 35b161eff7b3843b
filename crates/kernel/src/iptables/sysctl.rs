//! The two settings of the kernel that rules depend on, in the network namespace of the caller.

use super::IptablesError;
use std::fs;

const ROUTE_LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";
const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

/// Whether the kernel takes TCP segments outside of the window as part of their connection, not as invalid.
#[must_use]
pub fn tcp_is_liberal() -> bool {
    fs::read_to_string(BE_LIBERAL).is_ok_and(|value| !matches!(value.trim(), "" | "0"))
}

pub(super) fn route_loopback() -> Result<(), IptablesError> {
    if fs::read_to_string(ROUTE_LOCALNET).is_ok_and(|value| value.trim() == "1") {
        return Ok(());
    }
    fs::write(ROUTE_LOCALNET, "1").map_err(|source| IptablesError::Sysctl { path: ROUTE_LOCALNET, source })
}
