//! `cloud-config`: the file of the AWS cloud provider, in its INI dialect.

use crate::{Cluster, Platform, gates};
use net::Family;

/// The text; only AWS has one.
pub(super) fn text(cluster: &Cluster) -> Option<String> {
    let Platform::Aws(aws) = &cluster.platform else { return None };
    let mut lines = vec![
        "[Global]".to_owned(),
        format!("Region = {}", aws.region),
        format!("KubernetesClusterID = {}", cluster.infrastructure_name),
    ];
    // A list is a repeated key in this dialect.
    lines.extend(aws.ip_family.families().iter().map(|family| match family {
        Family::V4 => "NodeIPFamilies = ipv4".to_owned(),
        Family::V6 => "NodeIPFamilies = ipv6".to_owned(),
    }));
    lines.push("ClusterServiceLoadBalancerHealthProbeMode = Shared".to_owned());
    if gates::resolve(cluster.feature_set, &cluster.gates).get(gates::NLB_SECURITY_GROUP) == Some(&true) {
        lines.push("NLBSecurityGroupMode = Managed".to_owned());
    }
    for (at, endpoint) in
        aws.endpoints.iter().filter_map(|endpoint| Some((service(&endpoint.name)?, endpoint))).enumerate()
    {
        let (service, endpoint) = endpoint;
        lines.extend([
            String::new(),
            format!("[ServiceOverride \"{}\"]", at + 1),
            format!("Service = {service}"),
            format!("Region = {}", aws.region),
            format!("URL = {}", endpoint.url),
            format!("SigningRegion = {}", aws.region),
        ]);
    }
    Some(lines.join("\n") + "\n")
}

/// The provider's name of a service that it talks to.
fn service(name: &str) -> Option<&'static str> {
    match name {
        "ec2" => Some("EC2"),
        "elasticloadbalancing" => Some("Elastic Load Balancing"),
        "elasticloadbalancingv2" => Some("Elastic Load Balancing v2"),
        "kms" => Some("KMS"),
        _ => None,
    }
}
