//! Instances and their network interfaces.

use super::tags;
use crate::{
    account::{Instance, Interface},
    clients::xml::Element,
};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn instance(element: &Element) -> Instance {
    let text = |path: &[&str]| element.text(path).to_owned();
    // One that is being taken away still stands there, with addresses that are the instance's no more.
    let held = element.items("networkInterfaceSet").filter(|item| matches!(item.text(&["status"]), "" | "in-use"));
    let mut interfaces: Vec<Interface> = held.map(interface).collect();
    interfaces.sort_by_key(|interface| interface.device_index);
    Instance {
        id: text(&["instanceId"]),
        instance_type: text(&["instanceType"]),
        zone: text(&["placement", "availabilityZone"]),
        vpc: text(&["vpcId"]),
        subnet: text(&["subnetId"]),
        state: text(&["instanceState", "name"]),
        private_dns: text(&["privateDnsName"]),
        public_dns: text(&["dnsName"]),
        public_ipv4: element.text(&["ipAddress"]).parse().ok(),
        interfaces,
        tags: tags(element),
    }
}

fn interface(element: &Element) -> Interface {
    let mut ipv4: Vec<(bool, Ipv4Addr)> = element
        .items("privateIpAddressesSet")
        .filter_map(|item| Some((item.text(&["primary"]) != "true", item.text(&["privateIpAddress"]).parse().ok()?)))
        .collect();
    ipv4.sort_by_key(|(other, _)| *other);
    let mut ipv6: Vec<(bool, Ipv6Addr)> = element
        .items("ipv6AddressesSet")
        .filter_map(|item| Some((item.text(&["isPrimaryIpv6"]) != "true", item.text(&["ipv6Address"]).parse().ok()?)))
        .collect();
    ipv6.sort_by_key(|(other, _)| *other);
    Interface {
        id: element.text(&["networkInterfaceId"]).to_owned(),
        device_index: element.text(&["attachment", "deviceIndex"]).parse().unwrap_or(0),
        primary_ipv6: ipv6.first().is_some_and(|(other, _)| !other),
        ipv4: ipv4.into_iter().map(|(_, address)| address).collect(),
        ipv6: ipv6.into_iter().map(|(_, address)| address).collect(),
        security_groups: element.items("groupSet").filter_map(|item| item.some("groupId")).collect(),
    }
}
