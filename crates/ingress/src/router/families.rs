//! The families that this machine has, of those that the router is to listen on.

use super::settings::{IpMode, Listen};
use net::{DualStack, Family, HasFamily};
use std::{
    io,
    net::{IpAddr, TcpListener},
};

/// Leaves out a family that the machine does not have, so that the other one is served; a word of warning tells it. An address
/// that somebody chose and that is not there stays, and HAProxy says so.
pub(super) fn of_this_machine(listen: Listen) -> Result<Listen, String> {
    let chosen = |address: &IpAddr| !address.is_unspecified() && !address.is_loopback();
    let is_there = |address: &IpAddr| {
        let bound = TcpListener::bind((*address, 0));
        !bound.is_err_and(|error| matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported))
    };
    let (there, missing): (Vec<IpAddr>, Vec<IpAddr>) =
        listen.addresses().partition(|address| chosen(address) || is_there(address));
    if missing.is_empty() {
        return Ok(listen);
    }
    without(listen, &there, &missing)
}

fn without(listen: Listen, there: &[IpAddr], missing: &[IpAddr]) -> Result<Listen, String> {
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let mode = match there {
        [only] if only.family() == Family::V4 => IpMode::V4,
        [_] => IpMode::V6,
        _ => return Err(format!("this machine has no address to listen on: {} cannot be used", missing.join(", "))),
    };
    tracing::warn!(missing = missing.join(", "), "this machine lacks a family; the other one is served");
    let only = listen.only.and_then(|_| there.first().copied()).map(DualStack::one);
    Ok(Listen { mode, only, ..listen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::settings::Settings;

    #[test]
    fn what_is_missing_is_left_out() {
        let both = [("ROUTER_IP_V4_V6_MODE", "v4v6"), ("ROUTER_LISTEN_ADDRESSES", "127.0.0.1,::1")];
        let both = both.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let listen = || Settings::from_environment(both.clone()).unwrap().listen;
        let [v4, v6] = Family::BOTH.map(Family::loopback);
        for (there, missing, expected) in [(v4, v6, "127.0.0.1"), (v6, v4, "::1")] {
            let left: Vec<String> =
                without(listen(), &[there], &[missing]).unwrap().addresses().map(|ip| ip.to_string()).collect();
            assert_eq!(left, [expected]);
        }
        assert!(without(listen(), &[], &[v4, v6]).unwrap_err().contains("127.0.0.1, ::1"));
    }
}
