//! Subnets, route tables and routes, zones, VPCs, elastic addresses.

use super::{cidr, tags};
use crate::{
    account::{AvailabilityZone, AwsError, RouteEntry, RouteTable, RouteTarget, Subnet},
    clients::{query::Form, xml::Element},
};
use net::{Cidr, Family, HasFamily};

pub(super) fn zone(element: &Element) -> AvailabilityZone {
    AvailabilityZone {
        name: element.text(&["zoneName"]).to_owned(),
        id: element.text(&["zoneId"]).to_owned(),
        kind: element.text(&["zoneType"]).to_owned(),
    }
}

pub(super) fn new_route_form(table: &str, to: Cidr, via: &RouteTarget) -> Result<Form, AwsError> {
    let mut form = route_form(table, to);
    match via {
        RouteTarget::Gateway(id) => form.set("GatewayId", id),
        RouteTarget::Instance(id) => form.set("InstanceId", id),
        RouteTarget::Interface(id) => form.set("NetworkInterfaceId", id),
        RouteTarget::Other(id) => {
            let message = format!("a route through {id} cannot be made; accepted are gateways, instances, interfaces");
            return Err(AwsError::Invalid { code: "InvalidParameterValue".to_owned(), message });
        }
    }
    Ok(form)
}

pub(super) fn route_form(table: &str, to: Cidr) -> Form {
    let mut form = Form::default();
    form.set("RouteTableId", table);
    let name = match to.family() {
        Family::V4 => "DestinationCidrBlock",
        Family::V6 => "DestinationIpv6CidrBlock",
    };
    form.set(name, to.to_string());
    form
}

/// Blocks of a list that are in use.
fn associated(element: &Element, list: &str, block: &str, state: &str) -> Vec<Cidr> {
    let used = element.items(list).filter(|item| item.text(&[state, "state"]) == "associated");
    used.filter_map(|item| cidr(item.text(&[block]))).collect()
}

pub(super) fn subnet(element: &Element) -> Subnet {
    Subnet {
        id: element.text(&["subnetId"]).to_owned(),
        vpc: element.text(&["vpcId"]).to_owned(),
        zone: element.text(&["availabilityZone"]).to_owned(),
        ipv4: cidr(element.text(&["cidrBlock"])),
        ipv6: associated(element, "ipv6CidrBlockAssociationSet", "ipv6CidrBlock", "ipv6CidrBlockState"),
        free_ipv4: element.text(&["availableIpAddressCount"]).parse().unwrap_or(0),
        tags: tags(element),
    }
}

pub(super) fn route_table(element: &Element) -> RouteTable {
    let associations = || element.items("associationSet");
    RouteTable {
        id: element.text(&["routeTableId"]).to_owned(),
        vpc: element.text(&["vpcId"]).to_owned(),
        main: associations().any(|item| item.text(&["main"]) == "true"),
        subnets: associations().filter_map(|item| item.some("subnetId")).collect(),
        routes: element.items("routeSet").map(route).collect(),
        tags: tags(element),
    }
}

fn route(element: &Element) -> RouteEntry {
    let to = element.some("destinationCidrBlock").or_else(|| element.some("destinationIpv6CidrBlock"));
    let others = [
        "natGatewayId",
        "egressOnlyInternetGatewayId",
        "transitGatewayId",
        "vpcPeeringConnectionId",
        "carrierGatewayId",
        "localGatewayId",
        "coreNetworkArn",
    ];
    let gateway = || element.some("gatewayId").map(RouteTarget::Gateway);
    let instance = || element.some("instanceId").map(RouteTarget::Instance);
    let interface = || element.some("networkInterfaceId").map(RouteTarget::Interface);
    let other = || RouteTarget::Other(others.iter().find_map(|name| element.some(name)).unwrap_or_default());
    RouteEntry {
        to: to.as_deref().and_then(cidr),
        via: gateway().or_else(instance).or_else(interface).unwrap_or_else(other),
        blackhole: element.text(&["state"]) == "blackhole",
    }
}
