//! The object around the spec and status of a custom resource: what stores hold, clients read and `init` writes.

use api::config::{self, ClusterWide, CustomResource, Namespaced};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What the cluster runs on.
pub type Infrastructure = Custom<config::InfrastructureSpec>;
/// Which addresses Pods and Services get.
pub type Network = Custom<config::NetworkSpec>;
/// Where applications are published.
pub type IngressConfig = Custom<config::IngressSpec>;
/// The cluster's domain and its zones.
pub type DnsConfig = Custom<config::DnsSpec>;
/// Which gates are open.
pub type FeatureGate = Custom<config::FeatureGateSpec>;
/// How the cluster's DNS servers answer.
pub type OperatorDns = Custom<config::OperatorDnsSpec>;
/// A set of routers and how they are reached.
pub type IngressController = Custom<config::IngressControllerSpec>;
/// A name and where it leads.
pub type DnsRecord = Custom<config::DnsRecordSpec>;
/// A host name and the Service that answers for it.
pub type Route = Custom<config::RouteSpec>;

/// An object of a custom resource. What nobody here knows is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "")]
pub struct Custom<Spec: CustomResource> {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: Spec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Spec::Status>,
    /// What else there is beside these.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl<Spec: CustomResource> Custom<Spec> {
    /// A new object; `namespace` is for kinds that live in one.
    pub fn new(namespace: Option<&str>, name: &str, spec: Spec) -> Self {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        };
        let (api_version, kind) = (format!("{}/{}", Spec::GROUP, Spec::VERSION), Spec::KIND.to_owned());
        Self { api_version, kind, metadata, spec, status: None, rest: Map::new() }
    }

    #[must_use]
    pub fn with_status(mut self, status: Spec::Status) -> Self {
        self.status = Some(status);
        self
    }

    /// As the owner of other objects; they go with it.
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{}/{}", Spec::GROUP, Spec::VERSION),
            kind: Spec::KIND.to_owned(),
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

impl<Spec: CustomResource> objects::Decode for Custom<Spec> {
    fn decode(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }
}

impl<Spec: CustomResource> objects::Encode for Custom<Spec> {
    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

/// A scope in the words of kube.
pub trait KubeScope {
    type Scope;
}

impl KubeScope for Namespaced {
    type Scope = NamespaceResourceScope;
}

impl KubeScope for ClusterWide {
    type Scope = ClusterResourceScope;
}

impl<Spec> Resource for Custom<Spec>
where
    Spec: CustomResource,
    Spec::Scope: KubeScope,
{
    type DynamicType = ();
    type Scope = <Spec::Scope as KubeScope>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Spec::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        Spec::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        Spec::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        Spec::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    fn survives<T: Serialize + DeserializeOwned>(object: Value) -> T {
        let read: T = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), object);
        read
    }

    #[test]
    fn an_infrastructure_keeps_what_nobody_here_knows() {
        let read: Infrastructure = survives(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster", "generation": 3}, "unheardOf": {"a": [1]},
            "spec": {"platformSpec": {"type": "AWS", "aws": {"serviceEndpoints": [{"name": "ec2", "url": "https://a.test"}]}}},
            "status": {
                "infrastructureName": "lab-x2k9p", "platform": "AWS", "cpuPartitioning": "None",
                "apiServerURL": "https://api.lab.example.test:6443", "apiServerInternalURI": "https://api-int.lab.example.test:6443",
                "controlPlaneTopology": "SingleReplica", "infrastructureTopology": "HighlyAvailable",
                "platformStatus": {"type": "AWS", "aws": {
                    "region": "eu-west-1", "ipFamily": "DualStackIPv6Primary",
                    "cloudLoadBalancerConfig": {"dnsType": "PlatformDefault"}}}},
        }));
        let family = read.status.unwrap().platform_status.unwrap().aws.unwrap().ip_family;
        assert_eq!(family.families().to_string(), "IPv6,IPv4");
    }

    #[test]
    fn an_ingress_controller_keeps_its_union_and_the_rest() {
        let read: IngressController = survives(json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
            "metadata": {"name": "default", "namespace": "openshift-ingress-operator"},
            "spec": {"replicas": 2, "tuningOptions": {"threadCount": 8}, "endpointPublishingStrategy": {
                "type": "LoadBalancerService",
                "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed", "providerParameters": {
                    "type": "AWS", "aws": {"type": "NLB", "networkLoadBalancer": {"protocol": "PROXY"}}}}}},
        }));
        let strategy = read.spec.endpoint_publishing_strategy.unwrap();
        assert_eq!(strategy.kind, config::PublishingKind::LoadBalancerService);
        let aws = strategy.load_balancer.and_then(|balancer| balancer.provider_parameters?.aws).unwrap();
        assert_eq!(aws.kind, config::LoadBalancerKind::Nlb);
    }

    #[test]
    fn a_gate_is_open_when_its_version_lists_it() {
        let read: FeatureGate = survives(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
            "spec": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["AWSDualStackInstall"]}},
            "status": {"featureGates": [
                {"version": "1", "enabled": [{"name": "AWSDualStackInstall"}, {"name": "Both"}], "disabled": [{"name": "DNSTemplatePlugin"}]},
                {"version": "2", "enabled": [{"name": "Both"}], "disabled": []}]},
        }));
        let status = read.status.unwrap();
        for (version, gate, open) in [
            (Some("1"), "AWSDualStackInstall", true),
            (Some("1"), "DNSTemplatePlugin", false),
            (Some("2"), "AWSDualStackInstall", false),
            (Some("3"), "AWSDualStackInstall", false),
            (Some("3"), "Both", true),
            (None, "AWSDualStackInstall", false),
            (None, "Both", true),
        ] {
            assert_eq!(status.is_enabled(version, gate), open, "{version:?} {gate}");
        }
        assert!(!config::FeatureGateStatus::default().is_enabled(None, "Both"));
    }

    #[test]
    fn the_small_ones_survive_too() {
        survives::<Network>(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
            "spec": {"clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}, {"cidr": "10.128.0.0/14", "hostPrefix": 23}],
                "serviceNetwork": ["fd02::/112", "172.30.0.0/16"], "networkType": "OVNKubernetes", "serviceNodePortRange": "1-2"},
            "status": {"clusterNetwork": [{"cidr": "10.128.0.0/14"}], "serviceNetwork": [], "networkType": "x", "clusterNetworkMTU": 8901},
        }));
        survives::<IngressConfig>(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Ingress", "metadata": {"name": "cluster"},
            "spec": {"domain": "apps.lab.example.test", "appsDomain": "a.test", "loadBalancer": {"platform": {"type": "AWS", "aws": {"type": "Classic"}}}},
            "status": {"defaultPlacement": "Workers"},
        }));
        survives::<DnsConfig>(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"},
            "spec": {"baseDomain": "lab.example.test", "publicZone": {"id": "Z1"}, "privateZone": {"tags": {"Name": "lab-int"}},
                "platform": {"type": "AWS", "aws": {"privateZoneIAMRole": "arn:aws:iam::123456789012:role/r"}}},
        }));
    }
}
