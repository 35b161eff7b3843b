//! `twinstack ingress-operator` with a private zone that is in another account: its records are written in the name of `privateZoneIAMRole`, those of the
//! public zone in the operator's own, and both go again.

use e2e::{
    Kubectl, Process, Server,
    aws_strict::{Api, Element, Example, Strict, Through},
    twinstack, wait_for,
};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
const OPERATOR: &str = "openshift-ingress-operator";
const ROLE: &str = "arn:aws:iam::210987654321:role/shared/zones";
const NAME: &str = "*.apps.example.test.";

/// A request of Route 53.
fn request(kind: &str, content: &str) -> String {
    format!("<{kind} xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">{content}</{kind}>")
}

fn create(reference: &str, vpc: Option<&str>) -> String {
    let private = vpc.map(|vpc| {
        format!(
            "<VPC><VPCRegion>us-east-1</VPCRegion><VPCId>{vpc}</VPCId></VPC><HostedZoneConfig><PrivateZone>true</PrivateZone></HostedZoneConfig>"
        )
    });
    let private = private.unwrap_or_default();
    let content = format!("<Name>example.test</Name><CallerReference>{reference}</CallerReference>{private}");
    request("CreateHostedZoneRequest", &content)
}

fn id(made: &Element) -> String {
    made.text("HostedZone/Id").trim_start_matches("/hostedzone/").to_owned()
}

/// An API server, AWS with a zone in each of two accounts, and the operator. All of it stops with the handle.
struct Cluster {
    operator: Process,
    kubectl: Kubectl,
    aws: Strict,
    /// An access key of the other account.
    other: String,
    public: String,
    private: String,
    /// A load balancer's host name.
    host: String,
    _server: Server,
}

impl Cluster {
    fn start() -> Option<Self> {
        let aws = Strict::start()?;
        let example = Example::build(&aws, 0);
        let other = aws.take_on(ROLE);
        let public = id(&aws.route53(Through::Strict, "/2013-04-01/hostedzone", &create("public", None)).unwrap());
        let private = create("private", Some(&example.vpc));
        let private = id(&aws.route53_as(&other, "/2013-04-01/hostedzone", &private).unwrap());
        let tag =
            request("ChangeTagsForResourceRequest", "<AddTags><Tag><Key>Name</Key><Value>int</Value></Tag></AddTags>");
        aws.route53_as(&other, &format!("/2013-04-01/tags/hostedzone/{private}"), &tag).unwrap();
        let subnet = &example.subnets["public-a"];
        let wanted =
            [("Name", "router"), ("Type", "network"), ("IpAddressType", "dualstack"), ("Subnets.member.1", subnet)];
        let made = aws.ask(Through::Strict, Api::Elbv2, "CreateLoadBalancer", &wanted).unwrap();
        let host = made.text("CreateLoadBalancerResult/LoadBalancers/member/DNSName").to_owned();

        let server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112"]);
        let kubectl = server.kubectls().pop()?;
        let mut words: Vec<String> =
            aws.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.push(twinstack().display().to_string());
        words.extend(
            ["ingress-operator", "--dns-provider=aws", "--leader-elect=false", "--secure-port=0"].map(str::to_owned),
        );
        words.push(format!("--kubeconfig={}", server.kubeconfig().display()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // `env` becomes the program, so that it ends with the handle.
        let operator = Process::start("env", &words, &server.folder().join("operator.log"));
        Some(Self { operator, kubectl, aws, other, public, private, host, _server: server })
    }

    fn until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        wait_for(PATIENCE, ask).unwrap_or_else(|| panic!("{what}: not within {PATIENCE:?}\n{}", self.operator.output()))
    }

    /// The cluster's configuration, with this role for the private zone.
    fn configure(&self, role: &str) -> Result<(), String> {
        let object = |kind: &str, spec: Value| json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        let zones = json!({"baseDomain": "example.test", "publicZone": {"id": self.public}, "privateZone": {"tags": {"Name": "int"}},
            "platform": {"type": "AWS", "aws": {"privateZoneIAMRole": role}}});
        let output = self.kubectl.run_with(&["apply", "-f", "-"], &object("DNS", zones).to_string());
        if output.success { Ok(()) } else { Err(output.stderr) }
    }

    fn make_infrastructure(&self) {
        let path = "/apis/config.openshift.io/v1/infrastructures";
        let mut object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "spec": {"platformSpec": {"type": "AWS"}}});
        let made = self.kubectl.ok_with(&["create", "--raw", path, "-f", "-"], &object.to_string());
        object["metadata"] = serde_json::from_str::<Value>(&made).unwrap()["metadata"].clone();
        let platform = json!({"type": "AWS", "aws": {"region": "us-east-1", "ipFamily": "DualStackIPv4Primary"}});
        object["status"] = json!({"platform": "AWS", "platformStatus": platform, "controlPlaneTopology": "HighlyAvailable",
            "infrastructureTopology": "HighlyAvailable", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
        self.kubectl.ok_with(&["replace", "--raw", &format!("{path}/cluster/status"), "-f", "-"], &object.to_string());
    }

    /// Types of the alias records in a zone that lead to the load balancer, as the one or the other account sees them.
    fn records(&self, zone: &str, as_other: bool) -> Result<Vec<String>, String> {
        let path = format!("/2013-04-01/hostedzone/{zone}/rrset");
        let listed = match as_other {
            true => self.aws.route53_as(&self.other, &path, ""),
            false => self.aws.route53(Through::Moto, &path, ""),
        };
        let listed = listed.map_err(|failure| failure.code)?;
        let sets = listed.all("ResourceRecordSets/ResourceRecordSet");
        let ours = sets.iter().filter(|set| set.text("AliasTarget/DNSName").trim_end_matches('.') == self.host);
        let mut kinds: Vec<String> = ours.map(|set| set.text("Type").to_owned()).collect();
        kinds.sort();
        Ok(kinds)
    }

    /// What the record's status says of each zone.
    fn published(&self) -> String {
        let words = [
            "-n",
            OPERATOR,
            "get",
            "dnsrecord",
            "wildcard",
            "-o",
            "jsonpath={.status.zones[*].conditions[*]['status','message']}",
        ];
        self.kubectl.ok(&words)
    }
}

#[test]
fn records_of_a_private_zone_are_written_in_its_account() {
    let Some(cluster) = Cluster::start() else { return };
    let kinds = ["dnses.config.openshift.io", "infrastructures", "dnsrecords"];
    let served = |kind: &&str| cluster.kubectl.run(&["get", kind, "--all-namespaces"]).success;
    cluster.until("the operator's kinds are served", || kinds.iter().all(&served).then_some(()));
    // What is no ARN of a role does not get as far as the operator.
    let why = cluster.configure("zones").unwrap_err();
    assert!(why.contains("spec.platform.aws.privateZoneIAMRole"), "{why}");
    cluster.configure(ROLE).unwrap();
    cluster.make_infrastructure();
    cluster.kubectl.run(&["create", "namespace", OPERATOR]);
    let record = json!({"apiVersion": "ingress.operator.openshift.io/v1", "kind": "DNSRecord", "metadata": {"name": "wildcard", "namespace": OPERATOR},
        "spec": {"dnsName": NAME, "targets": [cluster.host], "recordType": "CNAME", "recordTTL": 30, "dnsManagementPolicy": "Managed"}});
    cluster.kubectl.ok_with(&["create", "-f", "-"], &record.to_string());

    let both = Ok(vec!["A".to_owned(), "AAAA".to_owned()]);
    for (zone, as_other) in [(&cluster.private, true), (&cluster.public, false)] {
        let found = wait_for(PATIENCE, || (cluster.records(zone, as_other) == both).then_some(()));
        assert!(
            found.is_some(),
            "{:?}\n{}\n{}",
            cluster.records(zone, as_other),
            cluster.published(),
            cluster.operator.output()
        );
    }
    cluster.until("it is told", || (cluster.published().matches("True").count() == 2).then_some(()));
    // Neither account has the other's zone.
    assert_eq!(cluster.records(&cluster.private, false), Err("NoSuchHostedZone".to_owned()));
    assert_eq!(cluster.records(&cluster.public, true), Err("NoSuchHostedZone".to_owned()));
    let asked = cluster.aws.take_calls();
    let changes = asked.iter().filter(|call| call.action == "ChangeResourceRecordSets").count();
    assert_eq!(changes, 2, "one batch of both families in each zone");

    cluster.kubectl.ok(&["-n", OPERATOR, "delete", "dnsrecord", "wildcard", "--wait=false"]);
    let there = || cluster.kubectl.run(&["-n", OPERATOR, "get", "dnsrecord", "wildcard"]).success;
    cluster.until("the record is gone", || (!there()).then_some(()));
    assert_eq!(cluster.records(&cluster.private, true), Ok(vec![]));
    assert_eq!(cluster.records(&cluster.public, false), Ok(vec![]));
}
