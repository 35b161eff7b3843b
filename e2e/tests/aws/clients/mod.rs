//! The AWS clients against moto: every call of `Account` and every form of a DNS zone, in both families where there are two.

mod account;
mod permissions;
mod zones;

use aws::{
    account::{
        Account, Attributes, AwsError, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicPolicy,
        Direction, GroupFilter, HealthCheck, InstanceFilter, IpAddressType, Kind, ListenerSettings, LoadBalancer,
        LoadBalancerType, NewClassicLoadBalancer, NewListener, NewLoadBalancer, NewSecurityGroup, NewTargetGroup, Peer,
        Protocol, RouteTarget, Rule, Scheme, SubnetFilter, SubnetMapping, Tags, Target, TargetGroupFilter,
    },
    clients::{Keys, Session, actions},
    cloud_config::CloudConfig,
    route53::Route53,
};
use e2e::{Process, Server, free_port, twinstack, wait_for};
use net::{Cidr, Family};
use runtime::{
    cloud::{DnsEntry, DnsProvider, DnsZone},
    metrics::{Metrics, TextFormat},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// A moto of its own, with a VPC that has two zones.
struct World {
    _moto: Process,
    _folder: TempDir,
    url: String,
    metrics: Metrics,
    vpc: String,
    subnets: Vec<String>,
    instance: String,
}

impl World {
    fn start() -> Option<Self> {
        let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
        let program = tools.map(|tools| tools.join("moto/bin/moto_server")).filter(|program| program.exists());
        let Some(program) = program else {
            e2e::skip("the AWS clients against moto", "scripts/need test");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let words = ["-H", "127.0.0.1", "-p", &port.to_string()];
        let moto = Process::start(program, &words, &folder.path().join("moto.log"));
        let ready = wait_for(Duration::from_secs(120), || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(ready.is_some(), "moto does not start:\n{}", moto.output());
        let mut world = Self {
            _moto: moto,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
            metrics: Metrics::new(),
            vpc: String::new(),
            subnets: Vec::new(),
            instance: String::new(),
        };
        world.furnish();
        Some(world)
    }

    /// Makes what a cluster finds in an account.
    fn furnish(&mut self) {
        let vpc = self.ec2("CreateVpc", &[("CidrBlock", "10.0.0.0/16"), ("AmazonProvidedIpv6CidrBlock", "true")]);
        self.vpc = between(&vpc, "vpcId").to_owned();
        let block = between(&vpc, "ipv6CidrBlock").replace("00::/56", "");
        for (number, zone) in ["us-east-1a", "us-east-1b"].into_iter().enumerate() {
            let (ipv4, ipv6) = (format!("10.0.{number}.0/24"), format!("{block}{number:02x}::/64"));
            let words = [
                ("VpcId", self.vpc.as_str()),
                ("CidrBlock", &ipv4),
                ("Ipv6CidrBlock", &ipv6),
                ("AvailabilityZone", zone),
            ];
            let subnet = self.ec2("CreateSubnet", &words);
            self.subnets.push(between(&subnet, "subnetId").to_owned());
        }
        let words = [
            ("ImageId", "ami-12c6146b"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("SubnetId", self.subnets[0].as_str()),
            ("Ipv6AddressCount", "1"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/blue"),
            ("TagSpecification.1.Tag.1.Value", "owned"),
        ];
        let instances = self.ec2("RunInstances", &words);
        self.instance = between(&instances, "instanceId").to_owned();
    }

    /// Asks moto directly for what the clients have no call for.
    fn ec2(&self, action: &str, words: &[(&str, &str)]) -> String {
        let mut all = vec![("Action", action), ("Version", "2016-11-15")];
        all.extend(words);
        let mut command = self.curl("ec2");
        for (name, value) in all {
            command.args(["--data-urlencode", &format!("{name}={value}")]);
        }
        answer(command.arg(&self.url))
    }

    fn curl(&self, service: &str) -> Command {
        let scope = format!("Credential=id/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0");
        let mut command = Command::new("curl");
        command.args(["-s", "-f", "-H", &format!("Authorization: AWS4-HMAC-SHA256 {scope}")]);
        command
    }

    /// Asks Route53's API with XML, or without for a read.
    fn route53(&self, path: &str, body: Option<&str>) -> String {
        let mut command = self.curl("route53");
        if let Some(body) = body {
            command.args(["-H", "Content-Type: text/xml", "-d", body]);
        }
        answer(command.arg(format!("{}/2013-04-01/{path}", self.url)))
    }

    /// A certificate of ACM.
    fn certificate(&self, name: &str) -> String {
        let mut command = self.curl("acm");
        command.args(["-H", "X-Amz-Target: CertificateManager.RequestCertificate"]);
        command.args(["-H", "Content-Type: application/x-amz-json-1.1", "-d"]);
        let reported = answer(command.arg(format!(r#"{{"DomainName":"{name}"}}"#)).arg(&self.url));
        let reported: serde_json::Value = serde_json::from_str(&reported).expect("JSON");
        reported["CertificateArn"].as_str().expect("an ARN").to_owned()
    }

    /// Keys of a user who may do this and nothing else, from now on.
    fn restrict(&self, allowed: &[&str]) -> Keys {
        let iam = |words: &[(&str, &str)]| {
            let mut command = self.curl("iam");
            for (name, value) in words.iter().chain(&[("UserName", "ccm"), ("Version", "2010-05-08")]) {
                command.args(["--data-urlencode", &format!("{name}={value}")]);
            }
            answer(command.arg(&self.url))
        };
        iam(&[("Action", "CreateUser")]);
        let statement = serde_json::json!({"Effect": "Allow", "Action": allowed, "Resource": "*"});
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
        iam(&[("Action", "PutUserPolicy"), ("PolicyName", "some"), ("PolicyDocument", &policy)]);
        let key = iam(&[("Action", "CreateAccessKey")]);
        let keys =
            Keys { id: between(&key, "AccessKeyId").to_owned(), secret: between(&key, "SecretAccessKey").to_owned() };
        let plain = ["-s", "-f", "-H", "Content-Type: text/plain", "-d", "0"];
        answer(Command::new("curl").args(plain).arg(format!("{}/moto-api/reset-auth", self.url)));
        keys
    }

    fn config(&self) -> CloudConfig {
        let mut text = "[Global]\nRegion = us-east-1\n".to_owned();
        for service in ["EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "Route 53"] {
            let section = format!("[ServiceOverride \"{service}\"]\nService = {service}\nRegion = us-east-1\n");
            text += &format!("{section}URL = {}\nSigningRegion = us-east-1\n", self.url);
        }
        let (config, warnings) = CloudConfig::parse(&text).expect("a cloud-config");
        assert!(warnings.is_empty(), "{warnings:?}");
        config
    }

    async fn session(&self) -> Session {
        self.session_of(Keys { id: "id".to_owned(), secret: "secret".to_owned() }).await
    }

    async fn session_of(&self, keys: Keys) -> Session {
        Session::with_keys(&self.config(), keys, &self.metrics).await.expect("a session")
    }
}

fn answer(command: &mut Command) -> String {
    let output = command.output().expect("curl runs");
    assert!(output.status.success(), "moto refuses {command:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("text")
}

/// The text of the first element of this name.
fn between<'a>(text: &'a str, name: &str) -> &'a str {
    let after = text.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    after.split('<').next().unwrap_or_default()
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a block")
}

fn check(protocol: &str) -> HealthCheck {
    HealthCheck {
        protocol: protocol.to_owned(),
        port: "traffic-port".to_owned(),
        path: (protocol == "HTTP").then(|| "/healthz".to_owned()),
        interval: 10,
        timeout: Some(5),
        healthy: 2,
        unhealthy: 3,
    }
}

async fn balancer(world: &World, account: &Account, name: &str) -> String {
    let mapping = |id: &String| SubnetMapping { subnet: id.clone(), ..SubnetMapping::default() };
    let new = NewLoadBalancer {
        name: name.to_owned(),
        scheme: Scheme::InternetFacing,
        ip_address_type: IpAddressType::Dualstack,
        subnets: world.subnets.iter().map(mapping).collect(),
        security_groups: BTreeSet::new(),
        ipv6_source_nat: false,
        tags: Tags::new(),
    };
    account.network.create_load_balancer(&new).await.expect("a load balancer").dns_name
}
