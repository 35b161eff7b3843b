//! Addresses, blocks, ranges, families and flags as text.

use crate::{Target, input};
use net::{Cidr, Families, Family, PortRange, ServiceRange, flags, is_canonical, legacy, parse_ip};
use std::{fmt::Debug, fmt::Display, net::IpAddr, str::FromStr};

pub(crate) const TARGETS: &[Target] = &[Target::new("net-text", text).up_to(256)];

fn text(data: &[u8]) {
    let text = input::text(data);
    if let Ok(ip) = parse_ip(&text) {
        assert_eq!(parse_ip(&ip.to_string()), Ok(ip));
        assert_eq!(legacy::parse_stored_ip(&text), Ok(ip), "what is spelled well may be stored");
    }
    if let Ok(ip) = legacy::parse_stored_ip(&text) {
        assert!(is_canonical(&ip.to_string()));
    }
    if let Ok(cidr) = text.parse::<Cidr>() {
        assert!(cidr.contains(cidr.first()) && cidr.contains(cidr.last()));
        assert_eq!(legacy::parse_stored_cidr(&text), Ok(cidr));
    }
    let _ = (legacy::ip_spelling(&text), legacy::cidr_spelling(&text), legacy::parse_stored_cidr(&text));
    reads_back::<Cidr>(&text);
    reads_back::<ServiceRange>(&text);
    reads_back::<PortRange>(&text);
    reads_back::<Family>(&text);
    reads_back::<Families>(&text);
    let _ = flags::one_or_pair::<IpAddr>("bind-address", &text);
    let _ = flags::one_or_pair::<Cidr>("cluster-cidr", &text);
    let _ = (flags::service_ranges(&text), flags::node_ip(&text), flags::node_port_range(&text));
    for family in Family::BOTH {
        let _ = flags::advertise_address(&text, family);
    }
}

/// What is printed is read as the same.
fn reads_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert!(shown.parse::<T>().is_ok_and(|again| again == value), "{value:?} is shown as {shown:?}");
    }
}
