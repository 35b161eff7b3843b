//! IngressControllers and clusters to plan from, for the tests of this room.

use super::{
    admit::Admission,
    cluster::Cluster,
    names::{Names, OPERATOR_NAMESPACE},
    objects::{DnsConfig, Infrastructure, IngressConfig, IngressController, Network},
    plan::Input,
    strategy,
};
use serde_json::{Value, json};

/// One case: an IngressController in a cluster.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) controller: IngressController,
    pub(super) cluster: Cluster,
    names: Names,
    admission: Admission,
}

impl Case {
    /// Of this spec, in a cluster that says nothing.
    pub(super) fn new(spec: Value) -> Self {
        let controller =
            IngressController::new(Some(OPERATOR_NAMESPACE), "default", serde_json::from_value(spec).unwrap());
        let cluster = Cluster { base_domain: "example.test".to_owned(), ..Cluster::default() };
        let admission = Admission {
            domain: "apps.example.test".to_owned(),
            strategy: strategy::wanted(None, None, &cluster, true),
            without_effect: Vec::new(),
            foreign_domain: false,
        };
        Self { controller, cluster, names: Names::of("default"), admission }.admitted()
    }

    pub(super) fn strategy(strategy: Value) -> Self {
        Self::new(json!({"endpointPublishingStrategy": strategy}))
    }

    /// The strategy follows what has been changed.
    fn admitted(mut self) -> Self {
        let before = self.controller.status.as_ref().and_then(|status| status.endpoint_publishing_strategy.clone());
        let spec = self.controller.spec.endpoint_publishing_strategy.as_ref();
        self.admission.strategy = strategy::wanted(spec, before.as_ref(), &self.cluster, true);
        self
    }

    pub(super) fn on(mut self, platform: &str) -> Self {
        self.cluster.platform = Some(platform.to_owned());
        self.admitted()
    }

    pub(super) fn family(mut self, family: &str) -> Self {
        self.cluster.ip_family = serde_json::from_value(json!(family)).unwrap();
        self
    }

    pub(super) fn tags(mut self, tags: &[(&str, &str)]) -> Self {
        let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        self.cluster.tags = serde_json::from_value(json!(tags)).unwrap();
        self
    }

    pub(super) fn internal(mut self) -> Self {
        let balancer = self.controller.spec.endpoint_publishing_strategy.as_mut().unwrap().load_balancer.as_mut();
        balancer.unwrap().scope = api::config::Scope::Internal;
        self.admitted()
    }

    pub(super) fn annotated(mut self, key: &str) -> Self {
        self.controller.metadata.annotations.get_or_insert_default().insert(key.to_owned(), String::new());
        self
    }

    pub(super) fn tuned(mut self, tuning: Value) -> Self {
        self.controller.spec.tuning_options = serde_json::from_value(tuning).unwrap();
        self
    }

    pub(super) fn pods(mut self, networks: &[&str]) -> Self {
        let list: Vec<Value> = networks.iter().map(|cidr| json!({"cidr": cidr})).collect();
        let mut network = Network::new(None, "cluster", Default::default());
        network.status = serde_json::from_value(json!({"clusterNetwork": list})).unwrap();
        self.cluster.pods = Cluster::read(None, None, None, Some(&network), None).pods;
        self
    }

    pub(super) fn topology(mut self, control_plane: &str, infrastructure: &str) -> Self {
        self.cluster.control_plane = serde_json::from_value(json!(control_plane)).unwrap();
        self.cluster.infrastructure = serde_json::from_value(json!(infrastructure)).unwrap();
        self
    }

    pub(super) fn placed(mut self, placement: &str) -> Self {
        self.cluster.placement = serde_json::from_value(json!(placement)).unwrap();
        self
    }

    pub(super) fn domain(mut self, domain: &str) -> Self {
        self.admission.domain = domain.to_owned();
        self
    }

    pub(super) fn zones(mut self, ids: &[&str]) -> Self {
        let zones: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        self.cluster.zones = serde_json::from_value(json!(zones)).unwrap();
        self
    }

    /// As if it had been admitted with this load balancer on AWS.
    pub(super) fn admitted_as(mut self, kind: &str, more: Value) -> Self {
        let block = if kind == "NLB" { "networkLoadBalancer" } else { "classicLoadBalancer" };
        self.controller.status = serde_json::from_value(json!({"endpointPublishingStrategy": {
            "type": "LoadBalancerService", "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed",
                "providerParameters": {"type": "AWS", "aws": {"type": kind, (block): more}}},
        }}))
        .unwrap();
        self.admitted()
    }

    /// After the administrator has patched it, with what it was admitted as before in its status.
    pub(super) fn patched(mut self, patch: &Value) -> Self {
        let mut status = self.controller.status.take().unwrap_or_default();
        status.endpoint_publishing_strategy = Some(self.admission.strategy.clone());
        self.controller.status = Some(status);
        let mut object = json!({"spec": self.controller.spec});
        merged(&mut object, patch);
        self.controller.spec = serde_json::from_value(object["spec"].take()).unwrap();
        self.admitted()
    }

    pub(super) fn input(&self) -> Input<'_> {
        let Self { controller, cluster, names, admission } = self;
        Input { controller, admission, cluster, names }
    }
}

/// Reads a cluster from the statuses and specs of its objects.
pub(super) fn cluster(infrastructure: Value, ingress: Value, dns: Value) -> Cluster {
    let mut object = Infrastructure::new(None, "cluster", Default::default());
    object.status = serde_json::from_value(infrastructure).unwrap();
    let config = IngressConfig::new(None, "cluster", serde_json::from_value(ingress).unwrap());
    let zones = DnsConfig::new(None, "cluster", serde_json::from_value(dns).unwrap());
    Cluster::read(Some(&object), Some(&config), Some(&zones), None, None)
}

/// A merge patch, as `kubectl patch --type=merge` applies it.
pub(super) fn merged(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value.is_null() {
            true => drop(target.as_object_mut().unwrap().remove(key)),
            false => merged(&mut target[key], value),
        }
    }
}
