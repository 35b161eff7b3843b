//! Settings of the kernel without which Pods reach nobody, in the network namespace of this process.

use super::CniError;
use net::{Families, Family};
use std::{fs, path::PathBuf};

/// Lets packets of these families through. An IPv6 router does not take advertisements from others unless it is told to (2):
/// a node that has its own address from one would lose it.
pub(super) fn forward(families: Families) -> Result<(), CniError> {
    for family in families.iter() {
        let settings: &[(&str, &str)] = match family {
            Family::V4 => &[("net/ipv4/ip_forward", "1"), ("net/ipv4/conf/all/route_localnet", "1")],
            Family::V6 => &[("net/ipv6/conf/all/forwarding", "1"), ("net/ipv6/conf/default/forwarding", "1")],
        };
        if family == Family::V6 {
            keep_advertisements();
        }
        for (name, value) in settings {
            set(name, value)?;
        }
    }
    Ok(())
}

fn keep_advertisements() {
    let interfaces = fs::read_dir("/proc/sys/net/ipv6/conf").into_iter().flatten().flatten();
    for interface in interfaces {
        let file = interface.path().join("accept_ra");
        if fs::read_to_string(&file).is_ok_and(|now| now.trim() == "1") {
            // Where it cannot be written nobody takes advertisements either.
            let _ = fs::write(file, "2");
        }
    }
}

fn set(name: &str, value: &str) -> Result<(), CniError> {
    let path = PathBuf::from("/proc/sys").join(name);
    if fs::read_to_string(&path).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value).map_err(|source| CniError::File { path, source })
}
