//! Settings of the kernel that IPVS depends on, in the network namespace of the caller.

use super::IpvsError;
use std::fs;

const ALWAYS: [(&str, &str); 4] = [
    ("/proc/sys/net/ipv4/vs/conntrack", "1"),
    ("/proc/sys/net/ipv4/vs/expire_nodest_conn", "1"),
    ("/proc/sys/net/ipv4/vs/expire_quiescent_template", "1"),
    ("/proc/sys/net/ipv4/ip_forward", "1"),
];
const STRICT_ARP: [(&str, &str); 2] =
    [("/proc/sys/net/ipv4/conf/all/arp_ignore", "1"), ("/proc/sys/net/ipv4/conf/all/arp_announce", "2")];

/// IPv6 forwarding is left to the operator: switching it on makes a node ignore router advertisements.
pub(super) fn prepare(strict_arp: bool) -> Result<(), IpvsError> {
    let strict = STRICT_ARP.iter().filter(|_| strict_arp);
    for (path, value) in ALWAYS.iter().chain(strict) {
        let is_so = fs::read_to_string(path).is_ok_and(|now| now.trim() == *value);
        if !is_so {
            fs::write(path, value).map_err(|source| IpvsError::Sysctl { path, source })?;
        }
    }
    Ok(())
}
