//! What is read, what is refused, what is warned of, and the transformer's text to the byte.

use super::{CloudConfig, Endpoints, Gate, GroupMode, SharedProbe, gcfg, transform};
use net::{Families, Family};
use proptest::prelude::*;

fn read(text: &str) -> CloudConfig {
    CloudConfig::parse(text).unwrap().0
}

fn refused(text: &str) -> String {
    CloudConfig::parse(text).unwrap_err().to_string()
}

#[test]
fn nothing_is_a_config() {
    for text in ["", "\n", "# only a comment\n", "[Global]\n"] {
        assert_eq!(read(text), CloudConfig::default(), "{text:?}");
    }
}

#[test]
fn every_key_is_read_whatever_its_case_in_both_dialects() {
    let ini = "[global]\nzone = us-east-1a ; here\nREGION=eu-west-1\nVPC = vpc-1\nSubnetID = subnet-1\nRouteTableID = rtb-1\n\
        RoleARN = \"arn:aws:iam::1:role/a;b\"\nSourceARN = arn:x\nKubernetesClusterTag = c\nKubernetesClusterID = c\n\
        DisableSecurityGroupIngress\nElbSecurityGroup = sg-1\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n\
        ClusterServiceLoadBalancerHealthProbeMode = Shared\nClusterServiceSharedLoadBalancerHealthProbePort = 1\n\
        ClusterServiceSharedLoadBalancerHealthProbePath = /x\nSupportedTopologyInstanceTypePattern = p\n\
        NLBSecurityGroupMode = Managed\n";
    let yaml = r#"{"global": {"zone": "us-east-1a", "region": "eu-west-1", "vpc": "vpc-1", "subnetID": "subnet-1",
        "routeTableID": "rtb-1", "roleARN": "arn:aws:iam::1:role/a;b", "sourceARN": "arn:x", "kubernetesClusterTag": "c",
        "kubernetesClusterID": "c", "disableSecurityGroupIngress": true, "elbSecurityGroup": "sg-1", "nodeIPFamilies": ["ipv6", "ipv4"],
        "clusterServiceLoadBalancerHealthProbeMode": "Shared", "clusterServiceSharedLoadBalancerHealthProbePort": 1,
        "clusterServiceSharedLoadBalancerHealthProbePath": "/x", "supportedTopologyInstanceTypePattern": "p",
        "nlbSecurityGroupMode": "Managed"}}"#;
    let (config, warnings) = CloudConfig::parse(ini).unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(config, read(yaml));
    let global = &config.global;
    assert_eq!(config.region().as_deref(), Some("us-east-1"));
    assert_eq!(config.cluster_id(), Some("c"));
    assert_eq!(config.node_families(), Families::both(Family::V6));
    assert_eq!(global.role, "arn:aws:iam::1:role/a;b");
    assert!(global.disable_node_rules);
    assert_eq!(global.shared_probe, Some(SharedProbe { port: 1, path: "/x".into() }));
    assert_eq!(global.nlb_groups, GroupMode::Managed);
}

#[test]
fn group_modes_are_spelt_as_upstream_spells_them() {
    let mode = |text: &str| format!("[Global]\nNLBSecurityGroupMode = {text}\n");
    assert_eq!(read(&mode("Managed")).global.nlb_groups, GroupMode::Managed);
    for off in ["", "Unmanaged"] {
        assert_eq!(read(&mode(off)).global.nlb_groups, GroupMode::Unmanaged, "{off:?}");
    }
    for wrong in [
        "managed",
        "MANAGED",
        "MaNaGeD",
        "Disabled",
        "BYO",
        "random",
        "\"  \"",
        "\" Managed \"",
        "xManaged",
        "Managedx",
    ] {
        let message = refused(&mode(wrong));
        assert!(message.contains("NLBSecurityGroupMode") && message.contains("accepted"), "{message}");
    }
    assert!(refused(&mode("manged")).contains("did you mean \"Managed\"?"));
}

#[test]
fn all_mistakes_are_told_together() {
    let message = refused(
        "[Global]\nZone = nowhere\nNodeIPFamilies = ipv4,ipv6\nDisableSecurityGroupIngress = perhaps\n\
         ClusterServiceLoadBalancerHealthProbeMode = shared\nKubernetesClusterID = a\nKubernetesClusterTag = b\n",
    );
    for part in
        ["invalid AZ: \"nowhere\"", "\"ipv4,ipv6\"", "\"perhaps\"", "did you mean \"Shared\"", "KubernetesClusterID"]
    {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn a_key_that_is_not_known_is_a_warning() {
    let (_, warnings) = CloudConfig::parse("[Global]\nNLBSecurityGroupMod = Managed\n[Foo]\nbar = 1\n").unwrap();
    assert_eq!(
        warnings,
        [
            "[Global] NLBSecurityGroupMod is not known and does nothing; did you mean NLBSecurityGroupMode?",
            "[Foo] bar is not known and does nothing",
        ]
    );
}

#[test]
fn text_that_is_no_config_is_refused_with_its_line() {
    for (text, message) in [
        ("Region = x\n", "line 1: \"Region = x\" stands before any section; start with [Global]"),
        ("[Global]\nRegion = \"x\n", "line 2: a quote is not closed"),
        ("[Global\n", "line 1: the section has no closing bracket; write [Name] or [Name \"part\"]"),
        ("[Global]\n=x\n", "line 2: \"\" is no key; a key is letters, digits and hyphens, such as Region"),
        ("[Global]\nRegion = a\\x\n", "line 2: \\x is no escape; accepted are \\\", \\\\, \\n, \\t and \\b"),
    ] {
        assert_eq!(refused(text), message);
    }
}

#[test]
fn comments_quotes_and_lines_that_go_on_are_as_in_git() {
    for (line, region) in [
        ("Region = a b", "a b"),
        ("Region=a;b", "a"),
        ("Region = \"a;b\" # c", "a;b"),
        ("Region = a\" ; \"b", "a ; b"),
        ("Region = a\\\n  b", "a  b"),
        ("Region = \"a\\\nb\"", "ab"),
        ("Region = a\\\\", "a\\"),
        // A comment ends with its line, whatever it ends with.
        ("Region = a ; C:\\\nVPC = vpc-1", "a"),
        ("Region = \"a\" # \\\nVPC = vpc-1", "a"),
        ("  REGION = a\r\n\tVPC = vpc-1 \r\n", "a"),
        ("Region = b\nRegion = a", "a"),
        ("Region = b\n[Other]\n[GLOBAL]\nRegion = a", "a"),
    ] {
        let config = read(&format!("\u{feff}[Global] ; here\n{line}\n"));
        assert_eq!(config.global.region, region, "{line}");
        assert_eq!(config.global.vpc, if line.contains("vpc-1") { "vpc-1" } else { "" }, "{line}");
    }
    assert!(read("[Global]\nDisableSecurityGroupIngress ; = false\n").global.disable_node_rules);
    let message = refused("[Global]\nVPC\nNodeIPFamilies\n");
    assert!(message.contains("VPC: stands without a value; write VPC = VALUE, or leave it out"), "{message}");
    assert!(message.contains("NodeIPFamilies: stands without a value"), "{message}");
}

#[test]
fn yaml_may_say_where_it_begins() {
    assert_eq!(read("# ours\n---\nglobal:\n  vpc: vpc-1\n").global.vpc, "vpc-1");
}

#[test]
fn services_are_named_by_the_sdk_or_by_what_is_signed() {
    let section = |name: &str, url: &str| {
        format!("[ServiceOverride \"{name}\"]\nService = {name}\nRegion = r\nURL = http://{url}\nSigningRegion = r\n")
    };
    let text = section("ec2", "ec2") + &section("elasticloadbalancing", "lb") + &section("route53", "dns");
    let url = |text: &str, service: &str| {
        Endpoints::new(read(text).overrides, []).of(service, "r").map(|endpoint| endpoint.url)
    };
    for (service, expected) in [
        ("EC2", Some("http://ec2")),
        ("Elastic Load Balancing", Some("http://lb")),
        ("Elastic Load Balancing v2", Some("http://lb")),
        ("Route 53", Some("http://dns")),
        ("STS", None),
    ] {
        assert_eq!(url(&text, service).as_deref(), expected, "{service}");
    }
    // The SDK's own name wins, and is of one API.
    let text = text + &section("Elastic Load Balancing", "classic");
    assert_eq!(url(&text, "Elastic Load Balancing").as_deref(), Some("http://classic"));
    assert_eq!(url(&text, "Elastic Load Balancing v2").as_deref(), Some("http://lb"));
    assert_eq!(url(&section("Elastic Load Balancing", "classic"), "Elastic Load Balancing v2"), None);
}

#[test]
fn overrides_are_complete_and_once() {
    let full = "[ServiceOverride \"1\"]\nService = EC2\nRegion = r\nURL = http://[::1]:5000\nSigningRegion = s\nSigningName = n\n";
    let config = read(full);
    assert_eq!(config.overrides.len(), 1);
    for missing in ["Service", "Region", "URL", "SigningRegion"] {
        let text: String = full
            .lines()
            .filter(|line| !line.starts_with(&format!("{missing} ")))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(refused(&text), format!("[ServiceOverride \"1\"] {missing} is missing"));
    }
    let twice = format!("{full}{}", full.replace("\"1\"", "\"2\""));
    assert!(refused(&twice).contains("overridden already"));
    let regions = format!("{full}{}", full.replace("\"1\"", "\"2\"").replace("Region = r", "Region = q"));
    assert_eq!(read(&regions).overrides.len(), 2);
    let environment = [("AWS_ENDPOINT_URL", "http://all"), ("AWS_ENDPOINT_URL_ROUTE_53", "http://dns"), ("HOME", "/")];
    let endpoints = Endpoints::new(config.overrides, environment.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let url = |service: &str, region: &str| endpoints.of(service, region).unwrap().url;
    assert_eq!(url("EC2", "r"), "http://[::1]:5000");
    assert_eq!(url("EC2", "elsewhere"), "http://all");
    assert_eq!(url("Route 53", "r"), "http://dns");
    let ignored = [("AWS_ENDPOINT_URL", "http://all"), ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")];
    let endpoints = Endpoints::new(Vec::new(), ignored.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(endpoints.of("EC2", "r"), None);
}

#[test]
fn the_transformer_prints_what_upstream_prints() {
    let defaults = "[Global]\n\
        DisableSecurityGroupIngress                     = false\n\
        ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
        ClusterServiceSharedLoadBalancerHealthProbePort = 0\n";
    let managed = format!("{defaults}NLBSecurityGroupMode                            = Managed\n");
    for (text, gate, expected) in [
        ("", Gate::Off, defaults),
        ("[Global]\n", Gate::Off, defaults),
        ("", Gate::On, &managed),
        ("[Global]\nNLBSecurityGroupMode = Unmanaged\n", Gate::On, &managed),
        ("[Global]\nNLBSecurityGroupMode = Managed\n", Gate::Off, &managed),
    ] {
        assert_eq!(transform(text, gate).unwrap().0, *expected, "{text:?}");
    }
    for (first, second) in [("ipv4", "ipv6"), ("ipv6", "ipv4")] {
        let text = format!(
            "[Global]\nNodeIPFamilies = {first}\nVPC = v\nNodeIPFamilies = {second}\n[Global]\nMystery = 1\n\
            [ServiceOverride \"2\"]\nURL = u\nService = S\nRegion = r\nSigningRegion = s\n"
        );
        let expected = format!(
            "[Global]\n\
             VPC                                             = v\n\
             DisableSecurityGroupIngress                     = false\n\
             NodeIPFamilies                                  = {first}\n\
             NodeIPFamilies                                  = {second}\n\
             ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
             ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\
             Mystery                                         = 1\n\n\
             [ServiceOverride \"2\"]\n\
             Service       = S\n\
             Region        = r\n\
             URL           = u\n\
             SigningRegion = s\n"
        );
        let (printed, warnings) = transform(&text, Gate::Off).unwrap();
        assert_eq!(printed, expected);
        assert_eq!(warnings, ["[Global] Mystery is not known and does nothing"]);
        assert_eq!(transform(&printed, Gate::Off).unwrap().0, printed);
    }
}

#[test]
fn the_transformer_keeps_what_was_there_with_its_overrides() {
    let text = "[Global]\nVPC = vpc-1\nSubnetID = subnet-1\nClusterServiceLoadBalancerHealthProbeMode = ServiceNodePort\n\
        [ServiceOverride \"2\"]\nService = s2\nRegion = r\nURL = http://[::1]:2\nSigningRegion = r\n\
        [ServiceOverride \"1\"]\nService = s1\nRegion = r\nURL = http://127.0.0.1:1\nSigningRegion = r\nSigningMethod = m\nSigningName = n\n";
    let expected = "[Global]\n\
        VPC                                             = vpc-1\n\
        SubnetID                                        = subnet-1\n\
        DisableSecurityGroupIngress                     = false\n\
        ClusterServiceLoadBalancerHealthProbeMode       = ServiceNodePort\n\
        ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\n\
        [ServiceOverride \"1\"]\n\
        Service       = s1\nRegion        = r\nURL           = http://127.0.0.1:1\nSigningRegion = r\n\
        SigningMethod = m\nSigningName   = n\n\n\
        [ServiceOverride \"2\"]\n\
        Service       = s2\nRegion        = r\nURL           = http://[::1]:2\nSigningRegion = r\n";
    assert_eq!(transform(text, Gate::Off).unwrap(), (expected.to_owned(), Vec::new()));
    for family in ["ipv4", "ipv6"] {
        let (printed, _) = transform(&format!("[global]\nnodeipfamilies = {family}\n"), Gate::On).unwrap();
        assert!(
            printed.contains(&format!("NodeIPFamilies                                  = {family}\n")),
            "{printed}"
        );
        assert_eq!(read(&printed).node_families().to_string().to_lowercase(), family);
    }
}

proptest! {
    #[test]
    fn values_survive_being_written(value in "[ -~]{0,20}") {
        let text = format!("[Global]\nRegion = {}\n", gcfg::written(&value));
        prop_assert_eq!(read(&text).global.region, value);
    }

    #[test]
    fn no_text_is_too_strange(text in "(?s).{0,200}") {
        let _ = CloudConfig::parse(&text);
        let _ = transform(&text, Gate::On);
    }
}
