//! A VPC with nodes to work in: the one of `aws::memory::Example`, made through the APIs.

use super::{Api, Element, Strict, Through};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Three zones with a public and a private subnet each, dual-stack, and nodes in the private ones.
#[derive(Clone, Debug)]
pub struct Example {
    /// Id of the VPC.
    pub vpc: String,
    /// Ids of the subnets by `public-a`, `private-a` and so on.
    pub subnets: BTreeMap<String, String>,
    /// The nodes' security group.
    pub node_group: String,
    /// A group that somebody else made.
    pub brought_group: String,
    /// The route table of the private subnets.
    pub route_table: String,
    /// Elastic addresses.
    pub allocations: Vec<String>,
    /// ARN of a certificate.
    pub certificate: String,
    /// Ids of the instances with their zones.
    pub instances: Vec<(String, String)>,
}

/// Id of the cluster.
const CLUSTER: &str = "example";
const ZONES: [&str; 3] = ["a", "b", "c"];

fn ec2(strict: &Strict, action: &str, params: &[(&str, &str)]) -> Element {
    strict.ask(Through::Strict, Api::Ec2, action, params).unwrap_or_else(|failure| panic!("{action}: {}", failure.body))
}

impl Example {
    /// Id of the cluster that the VPC belongs to.
    pub const CLUSTER: &'static str = CLUSTER;

    /// Makes it.
    pub fn build(strict: &Strict, nodes: usize) -> Self {
        let cidr = [("CidrBlock", "10.0.0.0/16"), ("AmazonProvidedIpv6CidrBlock", "true")];
        let made = ec2(strict, "CreateVpc", &cidr);
        let vpc = made.text("vpc/vpcId").to_owned();
        let block = made.text("vpc/ipv6CidrBlockAssociationSet/item/ipv6CidrBlock").to_owned();
        let prefix = block.trim_end_matches("00::/56").to_owned();
        let gateway = ec2(strict, "CreateInternetGateway", &[]).text("internetGateway/internetGatewayId").to_owned();
        ec2(strict, "AttachInternetGateway", &[("InternetGatewayId", &gateway), ("VpcId", &vpc)]);
        let public = ec2(strict, "CreateRouteTable", &[("VpcId", &vpc)]).text("routeTable/routeTableId").to_owned();
        for (key, to) in [("DestinationCidrBlock", "0.0.0.0/0"), ("DestinationIpv6CidrBlock", "::/0")] {
            ec2(strict, "CreateRoute", &[("RouteTableId", &public), (key, to), ("GatewayId", &gateway)]);
        }
        let mut subnets = BTreeMap::new();
        for (index, letter) in ZONES.into_iter().enumerate() {
            for (kind, offset) in [("public", 0), ("private", 100)] {
                let number = index + offset;
                let subnet = [
                    ("VpcId", vpc.as_str()),
                    ("CidrBlock", &format!("10.0.{number}.0/24")),
                    ("Ipv6CidrBlock", &format!("{prefix}{number:02x}::/64")),
                    ("AvailabilityZone", &format!("us-east-1{letter}")),
                    ("TagSpecification.1.ResourceType", "subnet"),
                    ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/example"),
                    ("TagSpecification.1.Tag.1.Value", "owned"),
                ];
                let id = ec2(strict, "CreateSubnet", &subnet).text("subnet/subnetId").to_owned();
                if kind == "public" {
                    ec2(strict, "AssociateRouteTable", &[("RouteTableId", &public), ("SubnetId", &id)]);
                }
                subnets.insert(format!("{kind}-{letter}"), id);
            }
        }
        let tables = ec2(strict, "DescribeRouteTables", &[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", &vpc)]);
        let route_table = tables.texts("routeTableSet/item/routeTableId").into_iter().find(|id| *id != public);
        let address = || ec2(strict, "AllocateAddress", &[("Domain", "vpc")]).text("allocationId").to_owned();
        let mut example = Self {
            node_group: group(strict, &vpc, "nodes", true),
            brought_group: group(strict, &vpc, "brought", false),
            vpc,
            subnets,
            route_table: route_table.expect("a VPC has a main route table"),
            allocations: (0..3).map(|_| address()).collect(),
            certificate: certificate(strict),
            instances: Vec::new(),
        };
        for _ in 0..nodes {
            example.add_node(strict);
        }
        strict.take_calls();
        example
    }

    /// Runs one more instance.
    pub fn add_node(&mut self, strict: &Strict) {
        let letter = ZONES[self.instances.len() % 3];
        let words = [
            ("ImageId", "ami-12c6146b"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("InstanceType", "m6i.large"),
            ("SubnetId", &self.subnets[&format!("private-{letter}")]),
            ("SecurityGroupId.1", &self.node_group),
            ("Ipv6AddressCount", "1"),
            ("EnablePrimaryIpv6", "true"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/example"),
            ("TagSpecification.1.Tag.1.Value", "owned"),
        ];
        let made = ec2(strict, "RunInstances", &words);
        self.instances.push((made.text("instancesSet/item/instanceId").to_owned(), format!("us-east-1{letter}")));
    }

    /// The cloud-config for a controller in this VPC.
    pub fn cloud_config(&self) -> String {
        format!(
            "[Global]\nRegion = us-east-1\nVPC = {}\nSubnetID = {}\nKubernetesClusterID = {CLUSTER}\nNLBSecurityGroupMode = Managed\n",
            self.vpc, self.subnets["private-a"]
        )
    }

    /// The node that an instance is.
    pub fn node(&self, index: usize) -> Value {
        let (id, zone) = &self.instances[index];
        let name = format!("node-{index}");
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": format!("aws:///{zone}/{id}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }
}

fn group(strict: &Strict, vpc: &str, name: &str, owned: bool) -> String {
    let mut words = vec![("GroupName", name), ("GroupDescription", name), ("VpcId", vpc)];
    if owned {
        words.extend([
            ("TagSpecification.1.ResourceType", "security-group"),
            ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/example"),
            ("TagSpecification.1.Tag.1.Value", "owned"),
        ]);
    }
    ec2(strict, "CreateSecurityGroup", &words).text("groupId").to_owned()
}

fn certificate(strict: &Strict) -> String {
    let answer = strict.json("CertificateManager.RequestCertificate", r#"{"DomainName": "example.test"}"#);
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    answer["CertificateArn"].as_str().expect("an ARN").to_owned()
}
