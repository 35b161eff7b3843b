//! OpenShift-style install-configs.

use super::{cluster, file, mistakes, warnings};
use crate::Platform;

/// An install-config with this below `platform.aws`, and what else is given.
fn installed(aws: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nmetadata: {{name: lab}}\nbaseDomain: example.test\nplatform: {{aws: {{region: eu-west-1, {aws}}}}}\n{more}"
    )
}

const PREVIEW: &str = "featureSet: TechPreviewNoUpgrade\n";

#[test]
fn each_family_has_its_ranges_load_balancer_and_cloud_config() {
    for (family, services, balancer, nodes) in [
        ("IPv4", "172.30.0.0/16", "Classic", "NodeIPFamilies = ipv4\nC"),
        ("DualStackIPv4Primary", "172.30.0.0/16,fd02::/112", "NLB", "NodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\nC"),
        ("DualStackIPv6Primary", "fd02::/112,172.30.0.0/16", "NLB", "NodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\nC"),
    ] {
        let cluster = cluster(&installed(&format!("ipFamily: {family}"), PREVIEW));
        assert!(
            file(&cluster, "components/apiserver.yaml").contains(&format!("service-cluster-ip-range: {services}\n"))
        );
        let Platform::Aws(aws) = &cluster.platform else { panic!("{family} is on AWS") };
        assert_eq!((aws.load_balancer.name(), aws.ip_family.name()), (balancer, family));
        assert!(file(&cluster, "cloud-config").contains(nodes), "{}", file(&cluster, "cloud-config"));
    }
}

#[test]
fn a_dual_stack_cluster_needs_the_gate_however_it_is_opened() {
    let dual = "ipFamily: DualStackIPv4Primary";
    let custom = |gates: &str| format!("featureSet: CustomNoUpgrade\nfeatureGates: [{gates}]\n");
    for open in [PREVIEW.to_owned(), "featureSet: DevPreviewNoUpgrade\n".to_owned(), custom("AWSDualStackInstall=true")]
    {
        cluster(&installed(dual, &open));
    }
    for closed in
        [String::new(), "featureSet: OKD\n".to_owned(), custom("AWSDualStackInstall=false"), custom("Other=true")]
    {
        let found = mistakes(&installed(dual, &closed));
        let expected = r#"platform.aws.ipFamily "DualStackIPv4Primary": needs the feature gate AWSDualStackInstall; set featureSet to"#;
        assert!(found[0].starts_with(expected), "{found:#?}");
    }
}

#[test]
fn a_classic_load_balancer_is_refused_on_a_dual_stack_cluster() {
    for family in ["DualStackIPv4Primary", "DualStackIPv6Primary"] {
        let found = mistakes(&installed(&format!("ipFamily: {family}, lbType: Classic"), PREVIEW));
        let expected = format!(
            r#"platform.aws.lbType "Classic": cannot be dual-stack, which ipFamily {family} asks for; accepted with it: NLB"#
        );
        assert_eq!(found, [expected]);
    }
    cluster(&installed("ipFamily: IPv4, lbType: Classic", ""));
    cluster(&installed("lbType: NLB", ""));
}

#[test]
fn a_private_zone_may_be_in_another_account() {
    let role = "arn:aws:iam::210987654321:role/zones";
    let found = |more: &str| file(&cluster(&installed(more, "")), "objects/10-dns-cluster.yaml");
    assert!(found(&format!("hostedZone: Z1, hostedZoneRole: '{role}'")).contains(role));
    assert!(!found("hostedZone: Z1").contains("platform:"), "{}", found("hostedZone: Z1"));
}

#[test]
fn each_mistake_names_its_field() {
    let net = |text: &str| format!("networking: {text}\n");
    for (text, expected) in [
        (
            installed("ipFamily: DualStack", ""),
            r#"platform.aws.ipFamily "DualStack": cannot be used; accepted: IPv4, DualStackIPv4Primary, DualStackIPv6Primary"#,
        ),
        (
            installed("lbType: nlb", ""),
            r#"platform.aws.lbType "nlb": cannot be used; accepted: NLB, Classic; did you mean NLB?"#,
        ),
        (
            installed("hostedZoneRole: 'arn:aws:iam::210987654321:role/zones'", ""),
            r#"platform.aws.hostedZoneRole "arn:aws:iam::210987654321:role/zones": is for a zone that hostedZone names"#,
        ),
        (
            installed("hostedZone: Z1, hostedZoneRole: zones", ""),
            r#"platform.aws.hostedZoneRole "zones": is no role; accepted: an ARN such as arn:aws:iam::123456789012:role/NAME"#,
        ),
        (installed("", "").replace("eu-west-1", "Europe"), r#"platform.aws.region "Europe": is no region"#),
        (installed("", "").replace("region: eu-west-1, ", ""), "platform.aws.region: must be given"),
        (
            installed("", "").replace("aws:", "azure:"),
            "platform.azure: is a platform that is not supported; accepted: aws, none",
        ),
        (installed("", "").replace("name: lab", "nam: lab"), "metadata.name: must be given"),
        (installed("", "").replace("name: lab", "name: Lab"), r#"metadata.name "Lab": is no name"#),
        (installed("", "").replace("example.test", "Example_test"), r#"baseDomain "Example_test": is no DNS name"#),
        (
            installed("", "").replace("apiVersion: v1", "apiVersion: v2"),
            r#"apiVersion "v2": is no version of an install-config"#,
        ),
        (installed("", "featureSet: TechPreview\n"), r#"featureSet "TechPreview": is no feature set; accepted: "#),
        (installed("", "featureGates: [A=true]\n"), "featureGates: needs featureSet CustomNoUpgrade"),
        (
            installed("", "featureSet: CustomNoUpgrade\nfeatureGates: [A]\n"),
            r#"featureGates[0] "A": is no gate; accepted: NAME=true, NAME=false"#,
        ),
        (installed("", "publish: Mixed\n"), r#"publish "Mixed": cannot be used; accepted: External, Internal"#),
        (
            installed("", &net("{serviceNetwork: [172.30.0.0/16, 'fd02::/112']}")),
            r#"networking.serviceNetwork "IPv4,IPv6": is not what platform.aws.ipFamily IPv4 asks for: IPv4, in this order"#,
        ),
        (
            installed(
                "ipFamily: DualStackIPv6Primary",
                &(net("{serviceNetwork: [172.30.0.0/16, 'fd02::/112']}") + PREVIEW),
            ),
            r#"networking.serviceNetwork "IPv4,IPv6": is not what platform.aws.ipFamily DualStackIPv6Primary asks for: IPv6,IPv4, in this order"#,
        ),
        (
            installed("ipFamily: DualStackIPv4Primary", &(net("{clusterNetwork: [{cidr: 10.128.0.0/14}]}") + PREVIEW)),
            r#"networking.clusterNetwork "IPv4": is not what platform.aws.ipFamily DualStackIPv4Primary asks for"#,
        ),
        (
            installed("", &net("{clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 12}]}")),
            r#"networking.clusterNetwork "10.128.0.0/14": cluster CIDR 10.128.0.0/14 is smaller than one node CIDR of /12; choose a hostPrefix of 14 or more"#,
        ),
        (
            installed("", &net("{clusterNetwork: [{hostPrefix: 23}]}")),
            "networking.clusterNetwork[0].cidr: must be given",
        ),
        (
            installed("", &net("{clusterNetwork: [{cidr: 10.128.0.0/14}, {cidr: 10.132.0.0/14}]}")),
            r#"networking.clusterNetwork "10.128.0.0/14,10.132.0.0/14": 10.128.0.0/14 and 10.132.0.0/14 are both IPv4"#,
        ),
        (
            installed("", &net("{machineNetwork: [{cidr: 172.30.0.0/20}]}")),
            r#"networking.serviceNetwork "172.30.0.0/16": overlaps 172.30.0.0/20, which is for machines"#,
        ),
        (installed("", &net("{machineNetwork: [{cidr: x}]}")), r#"networking.machineNetwork[0].cidr "x": "#),
        (
            installed("", "controlPlane: {replicas: -1}\n"),
            r#"controlPlane.replicas "-1": cannot be used; accepted: a number of machines, 0 or more"#,
        ),
        (
            installed("serviceEndpoints: [{name: EC2, url: 'http://a.test'}]", ""),
            r#"platform.aws.serviceEndpoints[0].url "http://a.test": cannot be used; accepted: https://HOST"#,
        ),
        (installed("propagateUserTags: true, userTags: {a: 'b*'}", ""), r#"platform.aws.userTags[a] "b*": is no tag"#),
    ] {
        let found = mistakes(&text);
        assert!(
            found.iter().any(|mistake| mistake.starts_with(expected)),
            "\n{expected}\nis not in\n{found:#?}\nfor\n{text}"
        );
    }
}

#[test]
fn unknown_keys_are_warned_about() {
    let text = installed("lbtype: NLB, zone: a", "netwroking: {}\npublish: Internal\n");
    assert_eq!(
        warnings(&text),
        [
            "platform.aws.lbtype: unknown field; did you mean lbType? (no effect)",
            "platform.aws.zone: unknown field (no effect)",
            "netwroking: unknown field; did you mean networking? (no effect)",
        ]
    );
}

#[test]
fn a_public_cluster_is_told_about_its_zone() {
    let found = warnings(&installed("", ""));
    assert!(found[0].starts_with("baseDomain: its public zone is not looked up"), "{found:#?}");
}

#[test]
fn replicas_decide_the_topology_and_the_number_of_routers() {
    for (machines, control_plane, routers) in [
        ("", "HighlyAvailable", 2),
        ("controlPlane: {replicas: 1}\ncompute: [{name: worker, replicas: 0}]\n", "SingleReplica", 1),
        ("controlPlane: {replicas: 3}\ncompute: [{replicas: 0}]\n", "HighlyAvailable", 2),
        ("controlPlane: {replicas: 3}\ncompute: [{replicas: 1}]\n", "HighlyAvailable", 1),
        ("controlPlane: {replicas: 1}\ncompute: [{replicas: 1}, {replicas: 1}]\n", "SingleReplica", 2),
    ] {
        let cluster = cluster(&installed("", machines));
        let text = file(&cluster, "objects/08-infrastructure-cluster.yaml");
        assert!(text.contains(&format!("controlPlaneTopology: {control_plane}\n")), "{text}");
        let text = file(&cluster, "objects/13-ingresscontroller-default.yaml");
        assert!(text.contains(&format!("replicas: {routers}\n")), "{text}");
    }
}

#[test]
fn a_cluster_on_no_platform_follows_its_ranges() {
    let text = "apiVersion: v1\nmetadata: {name: lab}\nbaseDomain: example.test\nplatform: {none: {}}\n\
                networking: {clusterNetwork: [{cidr: 'fd01::/48'}], serviceNetwork: ['fd02::/112']}\n";
    let cluster = cluster(text);
    assert_eq!(cluster.services.families().to_string(), "IPv6");
    assert!(file(&cluster, "objects/08-ingresscontroller-default.yaml").contains("type: HostNetwork\n"));
}
