//! Names, labels and annotations: upstream's, so that scripts and dashboards go on working.

use std::collections::BTreeMap;

/// Where IngressControllers and DNSRecords live.
pub const OPERATOR_NAMESPACE: &str = api::config::INGRESS_NAMESPACE;
/// Where routers live.
pub const OPERAND_NAMESPACE: &str = api::rights::ROUTER_NAMESPACE;
/// Where administrators put what an IngressController refers to by name.
pub const CONFIG_NAMESPACE: &str = api::rights::CONFIG_NAMESPACE;
/// Where operators put what all may read.
pub const MANAGED_CONFIG_NAMESPACE: &str = api::rights::MANAGED_CONFIG_NAMESPACE;
/// The IngressController that every cluster has.
pub const DEFAULT: &str = "default";

/// Whose object it is. A Service of our name without it is somebody else's.
pub const OWNING: &str = "ingresscontroller.operator.openshift.io/owning-ingresscontroller";
/// Which routers a Pod is one of.
pub const DEPLOYMENT: &str = "ingresscontroller.operator.openshift.io/deployment-ingresscontroller";
/// Which generation of them.
pub const HASH: &str = "ingresscontroller.operator.openshift.io/hash";
/// Keeps an IngressController until its routers and records are gone.
pub const CONTROLLER_FINALIZER: &str = "ingresscontroller.operator.openshift.io/finalizer-ingresscontroller";
/// Keeps a DNSRecord until no zone has it.
pub const RECORD_FINALIZER: &str = "operator.openshift.io/ingress-dns";

/// On an IngressController: replace the load balancer Service without asking when it cannot be changed.
pub const AUTO_DELETE: &str = "ingress.operator.openshift.io/auto-delete-load-balancer";
/// On an IngressController, or on the Ingress configuration for those that do not say: `true` lets routers speak HTTP/2.
pub const HTTP2: &str = "ingress.operator.openshift.io/default-enable-http2";
/// On an IngressController, or on the Ingress configuration for those that do not say: when old HAProxy processes are ended.
pub const HARD_STOP_AFTER: &str = "ingress.operator.openshift.io/hard-stop-after";
/// On an IngressController: who sends the PROXY protocol, as CIDRs between commas; others are served without it.
pub const PROXY_SENDERS: &str = "twinstack.dev/proxy-protocol-trusted-cidrs";
/// On a DNSRecord: the zone of its target, for when the load balancer is gone.
pub const TARGET_ZONE: &str = "ingress.operator.openshift.io/target-hosted-zone-id";

/// The names of everything that belongs to one IngressController.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The IngressController's own.
    pub controller: String,
    /// Deployment, load balancer Service, PodDisruptionBudget, NetworkPolicy.
    pub router: String,
    /// NodePort Service.
    pub node_port: String,
    /// ClusterIP Service.
    pub internal: String,
    /// Secret with the default certificate, when the operator makes it.
    pub certificate: String,
    /// Secret with the password for statistics.
    pub stats: String,
    /// The wildcard DNSRecord.
    pub record: String,
    /// IngressClass by which Ingresses choose these routers.
    pub class: String,
    /// ConfigMap with the authority of clients' certificates, a copy.
    pub client_ca: String,
    /// ConfigMap with pages for errors, a copy.
    pub error_pages: String,
}

impl Names {
    /// Those of the IngressController of this name.
    pub fn of(controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            router: format!("router-{controller}"),
            node_port: format!("router-nodeport-{controller}"),
            internal: format!("router-internal-{controller}"),
            certificate: format!("router-certs-{controller}"),
            stats: format!("router-stats-{controller}"),
            record: format!("{controller}-wildcard"),
            class: format!("openshift-{controller}"),
            client_ca: format!("router-client-ca-{controller}"),
            error_pages: format!("{controller}-errorpages"),
        }
    }

    /// Labels of what the operator makes.
    pub fn owning(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(OWNING.to_owned(), self.controller.clone())])
    }

    /// Labels by which the Pods are found.
    pub fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(DEPLOYMENT.to_owned(), self.controller.clone())])
    }
}
