//! `crds/` and `objects/`: the cluster's configuration as API objects with their status, in the order of their names.

use super::{File, access, cloud_config, yaml};
use crate::{Aws, Cluster, Platform, gates};
use api::config::{
    self, AwsDns, AwsIngress, AwsLoadBalancer, AwsPlatformStatus, CLUSTER, CloudConfigReference, ClusterNetwork,
    CustomGates, CustomResource, DnsManagement, DnsPlatform, DnsSpec, DnsZone, FeatureGateSpec, FeatureGateStatus,
    FeatureSet, GateName, INGRESS_NAMESPACE, InfrastructureSpec, InfrastructureStatus, IngressControllerSpec,
    IngressLoadBalancer, IngressPlatform, IngressSpec, IngressStatus, LoadBalancer, NetworkSpec, NetworkStatus,
    Placement, PlatformSpec, PlatformStatus, ProviderParameters, Publishing, PublishingKind, Topology, VersionGates,
};
use net::HasFamily;
use runtime::operator::{
    Custom, DnsConfig, FeatureGate, Infrastructure, IngressConfig, IngressController, Network, definitions,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where the cloud provider's file is kept, and under which names.
const CONFIG_NAMESPACE: &str = "openshift-config";
const CLOUD_CONFIG: (&str, &str) = ("cloud-provider-config", "config");

pub(super) fn files(cluster: &Cluster, version: &str) -> Vec<File> {
    let definitions = config::definitions().into_iter().map(|definition| {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        File::new(format!("crds/{name}.yaml"), yaml::render(&definitions::marked(definition, version)))
    });
    let objects = objects(cluster, version).into_iter().enumerate().map(|(at, object)| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase().replace(':', "-");
        let name = format!("{:02}-{}-{}", at + 1, text(&object["kind"]), text(&object["metadata"]["name"]));
        File::new(format!("objects/{name}.yaml"), yaml::render(&object))
    });
    definitions.chain(objects).collect()
}

/// What others refer to comes first.
fn objects(cluster: &Cluster, version: &str) -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut objects = vec![namespace(CONFIG_NAMESPACE), namespace(INGRESS_NAMESPACE)];
    if let Some(text) = cloud_config::text(cluster) {
        let (name, key) = CLOUD_CONFIG;
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": CONFIG_NAMESPACE}, "data": {key: text},
        }));
        objects.extend(access::cloud_controller_manager());
    }
    objects.extend([
        value(infrastructure(cluster)),
        value(network(cluster)),
        value(dns(cluster)),
        value(ingress(cluster)),
        value(feature_gate(cluster, version)),
        value(ingress_controller(cluster)),
    ]);
    objects.extend(access::of_every_cluster());
    objects
}

/// These types have nothing that JSON lacks.
fn value(object: impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn named<Spec: CustomResource>(spec: Spec, status: Spec::Status) -> Custom<Spec> {
    Custom::new(None, CLUSTER, spec).with_status(status)
}

fn platform_name(cluster: &Cluster) -> String {
    match cluster.platform {
        Platform::Aws(_) => "AWS".to_owned(),
        Platform::None => "None".to_owned(),
    }
}

fn infrastructure(cluster: &Cluster) -> Infrastructure {
    let kind = platform_name(cluster);
    let mut spec =
        InfrastructureSpec { cloud_config: None, platform_spec: PlatformSpec { kind: kind.clone(), rest: Map::new() } };
    let mut status = PlatformStatus { kind: kind.clone(), aws: None, rest: Map::new() };
    if let Platform::Aws(aws) = &cluster.platform {
        let (name, key) = CLOUD_CONFIG;
        spec.cloud_config = Some(CloudConfigReference { name: name.to_owned(), key: key.to_owned() });
        let choices = if aws.endpoints.is_empty() { json!({}) } else { json!({"serviceEndpoints": aws.endpoints}) };
        spec.platform_spec.rest.insert("aws".to_owned(), choices);
        status.aws = Some(AwsPlatformStatus {
            region: aws.region.clone(),
            ip_family: aws.ip_family,
            service_endpoints: aws.endpoints.clone(),
            resource_tags: aws.tags.clone(),
            rest: Map::new(),
        });
    }
    let local = (cluster.local().to_string(), cluster.port);
    let outside = cluster.endpoint.as_ref().unwrap_or(&local);
    let inside = cluster.internal_endpoint.as_ref().unwrap_or(outside);
    named(
        spec,
        InfrastructureStatus {
            infrastructure_name: cluster.infrastructure_name.clone(),
            platform: kind,
            api_server_url: url(outside),
            api_server_internal_uri: url(inside),
            control_plane_topology: cluster.control_plane,
            infrastructure_topology: cluster.infrastructure,
            platform_status: Some(status),
            rest: Map::new(),
        },
    )
}

/// An IPv6 address stands in brackets.
fn url((host, port): &(String, u16)) -> String {
    match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
    }
}

fn network(cluster: &Cluster) -> Network {
    let prefix = |range: &net::Cidr| Some(cluster.blocks.as_ref()?.get(range.family())?.mask());
    let pods = cluster.pods.iter().flat_map(|pods| pods.iter().copied().collect::<Vec<_>>());
    let pods: Vec<_> =
        pods.map(|range| ClusterNetwork { cidr: range.to_string(), host_prefix: prefix(&range) }).collect();
    let services: Vec<String> = cluster.services.iter().map(ToString::to_string).collect();
    let network_type = cluster.network_type.clone();
    let status = NetworkStatus {
        cluster_network: pods.clone(),
        service_network: services.clone(),
        network_type: network_type.clone(),
        rest: Map::new(),
    };
    let spec = NetworkSpec { cluster_network: pods, service_network: services, network_type, rest: Map::new() };
    named(spec, status)
}

fn dns(cluster: &Cluster) -> DnsConfig {
    let mut spec = DnsSpec { base_domain: cluster.base_domain.clone(), ..DnsSpec::default() };
    if let Platform::Aws(aws) = &cluster.platform {
        let owned = (format!("kubernetes.io/cluster/{}", cluster.infrastructure_name), "owned".to_owned());
        let name = ("Name".to_owned(), format!("{}-int", cluster.infrastructure_name));
        spec.private_zone = Some(match &aws.private_zone {
            Some(id) => DnsZone { id: id.clone(), tags: BTreeMap::new() },
            None => DnsZone { id: String::new(), tags: BTreeMap::from([owned, name]) },
        });
        spec.platform = aws.private_zone_role.clone().map(|private_zone_role| DnsPlatform {
            kind: "AWS".to_owned(),
            aws: Some(AwsDns { private_zone_role, rest: Map::new() }),
            rest: Map::new(),
        });
    }
    named(spec, Map::new())
}

fn domain(cluster: &Cluster) -> String {
    format!("apps.{}", cluster.base_domain)
}

fn ingress(cluster: &Cluster) -> IngressConfig {
    let load_balancer = match &cluster.platform {
        Platform::Aws(aws) => Some(IngressLoadBalancer {
            platform: IngressPlatform { kind: "AWS".to_owned(), aws: Some(AwsIngress { kind: aws.load_balancer }) },
        }),
        Platform::None => None,
    };
    let spec = IngressSpec { domain: domain(cluster), load_balancer, rest: Map::new() };
    let alone = cluster.platform == Platform::None && cluster.control_plane == Topology::SingleReplica;
    let default_placement = if alone { Placement::ControlPlane } else { Placement::Workers };
    named(spec, IngressStatus { default_placement, rest: Map::new() })
}

fn feature_gate(cluster: &Cluster, version: &str) -> FeatureGate {
    let single =
        |open: bool| cluster.gates.iter().filter(move |(_, is)| **is == open).map(|(name, _)| name.clone()).collect();
    let custom = (cluster.feature_set == FeatureSet::CustomNoUpgrade)
        .then(|| CustomGates { enabled: single(true), disabled: single(false) });
    let gates = gates::resolve(cluster.feature_set, &cluster.gates);
    let listed = |open: bool| {
        gates.iter().filter(move |(_, is)| **is == open).map(|(name, _)| GateName { name: name.clone() }).collect()
    };
    let gates = VersionGates { version: version.to_owned(), enabled: listed(true), disabled: listed(false) };
    let spec = FeatureGateSpec { feature_set: cluster.feature_set, custom_no_upgrade: custom };
    named(spec, FeatureGateStatus { feature_gates: vec![gates], rest: Map::new() })
}

/// Its status is the operator's to write.
fn ingress_controller(cluster: &Cluster) -> IngressController {
    let strategy = match &cluster.platform {
        Platform::Aws(aws) => load_balancer(aws),
        Platform::None => Publishing {
            kind: PublishingKind::HostNetwork,
            load_balancer: None,
            host_network: None,
            node_port: None,
            private: None,
        },
    };
    let replicas = if cluster.infrastructure == Topology::SingleReplica { 1 } else { 2 };
    let spec = IngressControllerSpec {
        domain: None,
        replicas: Some(replicas),
        endpoint_publishing_strategy: Some(strategy),
        ..IngressControllerSpec::default()
    };
    IngressController::new(Some(INGRESS_NAMESPACE), "default", spec)
}

fn load_balancer(aws: &Aws) -> Publishing {
    let sort = AwsLoadBalancer {
        kind: aws.load_balancer,
        network_load_balancer: None,
        classic_load_balancer: None,
        rest: Map::new(),
    };
    Publishing {
        kind: PublishingKind::LoadBalancerService,
        load_balancer: Some(LoadBalancer {
            scope: aws.scope,
            dns_management_policy: DnsManagement::Managed,
            allowed_source_ranges: None,
            provider_parameters: Some(ProviderParameters {
                kind: "AWS".to_owned(),
                aws: Some(sort),
                ..ProviderParameters::default()
            }),
        }),
        host_network: None,
        node_port: None,
        private: None,
    }
}
