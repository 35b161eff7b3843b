//! Subnets, route tables and routes, zones, VPCs, elastic addresses.

use super::{Ec2, Filters, batches, cidr, one, tags};
use crate::{
    account::{AvailabilityZone, AwsError, RouteEntry, RouteTable, RouteTarget, Subnet, SubnetFilter},
    clients::{actions, query::Form, xml::Element},
};
use net::{Cidr, Family, HasFamily};

impl Ec2 {
    pub(in crate::clients) async fn describe_subnets(&self, filter: &SubnetFilter) -> Result<Vec<Subnet>, AwsError> {
        let mut subnets = Vec::new();
        for ids in batches(&filter.ids) {
            let mut filters = Filters::default();
            filters.add("vpc-id", &one(filter.vpc.as_ref()));
            filters.add("subnet-id", &ids);
            let read = |page: &Element| subnets.extend(page.items("subnetSet").map(subnet));
            self.query.pages(actions::DESCRIBE_SUBNETS, &filters.paged(), read).await?;
        }
        Ok(subnets)
    }

    pub(in crate::clients) async fn describe_route_tables(&self, vpc: &str) -> Result<Vec<RouteTable>, AwsError> {
        let mut filters = Filters::default();
        filters.add("vpc-id", &[vpc.to_owned()]);
        let mut tables = Vec::new();
        let mut form = filters.form;
        // This call takes no larger page.
        form.set("MaxResults", "100");
        let read = |page: &Element| tables.extend(page.items("routeTableSet").map(route_table));
        self.query.pages(actions::DESCRIBE_ROUTE_TABLES, &form, read).await?;
        Ok(tables)
    }

    pub(in crate::clients) async fn describe_availability_zones(&self) -> Result<Vec<AvailabilityZone>, AwsError> {
        let answer = self.query.ask(actions::DESCRIBE_AVAILABILITY_ZONES, &Form::default()).await?;
        let zone = |item: &Element| AvailabilityZone {
            name: item.text(&["zoneName"]).to_owned(),
            id: item.text(&["zoneId"]).to_owned(),
            kind: item.text(&["zoneType"]).to_owned(),
        };
        Ok(answer.items("availabilityZoneInfo").map(zone).collect())
    }

    pub(in crate::clients) async fn create_route(
        &self,
        table: &str,
        to: Cidr,
        via: &RouteTarget,
    ) -> Result<(), AwsError> {
        self.query.ask(actions::CREATE_ROUTE, &new_route_form(table, to, via)?).await.map(drop)
    }

    pub(in crate::clients) async fn delete_route(&self, table: &str, to: Cidr) -> Result<(), AwsError> {
        self.query.ask(actions::DELETE_ROUTE, &route_form(table, to)).await.map(drop)
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

fn subnet(element: &Element) -> Subnet {
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

fn route_table(element: &Element) -> RouteTable {
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
