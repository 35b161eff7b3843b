//! What `up` needs of the operator: its flags, its start, and the objects that it reads.

use super::{
    super::up::{INGRESS_BIND_ADDRESS, INGRESS_DOMAIN, INGRESS_PORTS, NO_INGRESS, Part},
    options, process,
};
use api::config::{CLUSTER, CONFIG, INGRESS_NAMESPACE, OPERATOR};
use ingress::operator::{
    self, OperatorOptions,
    names::{DEFAULT, Names},
    plan::{class, environment::Ports},
    process::taken,
};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use net::{DualStack, HasFamily};
use runtime::{
    client::Api,
    config::Settings,
    controller::Context,
    listen::{Hosts, Machine},
};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

/// Below this applications have their names where nobody chose a domain: `.test` is nobody's (RFC 6761).
const USUAL_DOMAIN: &str = "apps.lab.test";
/// Its program, on the PATH or beside what only root has there.
const HAPROXY: &str = "haproxy";
/// Seconds for which the address of applications may be remembered.
const TTL: i64 = 30;

/// With nodes there is something to route to: a router is run where HAProxy is, unless a folder of `init` says how ingress is to be.
pub(crate) fn with_defaults(settings: Settings, given: &[Value], has_nodes: bool) -> Settings {
    let wanted = has_nodes && !is_configured(given) && lab::program(HAPROXY).is_some();
    settings.defaults(wanted.then(|| (INGRESS_DOMAIN.name.to_owned(), USUAL_DOMAIN.to_owned())))
}

fn is_configured(given: &[Value]) -> bool {
    given.iter().any(|object| object["kind"] == "Infrastructure")
}

/// The operator in the process of `up`; routers are processes beside it.
pub(crate) struct ForUp {
    options: OperatorOptions,
    listen: DualStack<IpAddr>,
    ports: Ports,
    /// Domain of the IngressController `default`; none is made without it, because of this.
    domain: Result<String, String>,
}

impl ForUp {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings) -> Self {
        let mut process = process(given, PathBuf::new());
        let (asked, ports) = (given.get(&INGRESS_BIND_ADDRESS), given.get(&INGRESS_PORTS));
        let listen = match Hosts::Each(asked).on(Machine::look()) {
            Hosts::Each(there) => there,
            Hosts::Everywhere => asked,
        };
        process.listen = Some(listen);
        process.ports = ports;
        let domain = match (given.optional(&INGRESS_DOMAIN), lab::program(HAPROXY)) {
            (Some(domain), _) if domain == NO_INGRESS => Err("none, as --ingress-domain says".to_owned()),
            (Some(domain), _) => Ok(domain),
            (None, Some(_)) => Err("none; --ingress-domain runs the operator and a router".to_owned()),
            (None, None) => Err("none; for a router: apt-get install haproxy".to_owned()),
        };
        Self { options: options(String::new(), Some(process), true), listen, ports, domain }
    }

    /// Where somebody else has its ports there is no router. What an earlier one of this folder has is its own.
    pub(crate) fn yield_ports(&mut self, folder: &Path) {
        if self.domain.is_err() || folder.join("ingress").join(DEFAULT).exists() {
            return;
        }
        let Ports { http, https, stats } = self.ports;
        let places = [http, https, stats].into_iter().flat_map(|port| self.listen.iter().map(move |ip| (*ip, port)));
        if let Some(place) = taken(&places.map(SocketAddr::from).collect::<Vec<_>>()) {
            let flag = INGRESS_PORTS.name;
            self.domain = Err(format!("none: somebody else listens on {place}; --{flag} chooses other ports"));
        }
    }

    /// Starts it beside what has this context. Its files are beside the kubeconfig. Without a domain nothing is started: no port
    /// of the machine is opened that nobody asked for, whatever objects a folder of `init` brings.
    pub(crate) fn start<O>(mut self, beside: &Context<O>, kubeconfig: &Path) {
        if self.domain.is_err() {
            return;
        }
        let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        if let Some(process) = &mut self.options.process {
            process.directory = kubeconfig.with_file_name("ingress");
            let folder = process.directory.join("{name}/haproxy");
            process.words = vec!["router".to_owned(), format!("--working-dir={}", folder.display())];
            process.words.extend(lab::program(HAPROXY).map(|path| format!("--haproxy={}", path.display())));
            process.kubeconfig = Some(kubeconfig);
        }
        operator::start(&beside.with_options(self.options));
    }

    /// What there is to see of the router, before and after the start.
    pub(crate) fn serving(&self, client: Client) -> Serving {
        Serving { client: self.domain.as_ref().map(|_| client).map_err(Clone::clone), ports: self.ports }
    }

    /// The domain.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_deref().ok()
    }

    /// Where this machine reaches the router.
    fn addresses(&self) -> Vec<IpAddr> {
        let reached = |ip: &IpAddr| if ip.is_unspecified() { ip.family().loopback() } else { *ip };
        self.listen.iter().map(reached).collect()
    }

    /// Domain, addresses and plain port of the router, where there is one.
    pub(crate) fn router(&self) -> Option<(String, Vec<IpAddr>, u16)> {
        Some((self.domain()?.to_owned(), self.addresses(), self.ports.http))
    }

    /// What the operator reads, as far as `init` has not given it: a platform that offers nothing, and with a domain the configuration of
    /// Ingress, an IngressController on ports that anybody may open, its class as the one of Ingresses that name none, and the record by
    /// which this machine finds applications.
    pub(crate) fn objects(&self, given: &[Value]) -> Vec<Value> {
        if is_configured(given) {
            return Vec::new();
        }
        let object = |kind: &str, spec: Value, status: Value| json!({"apiVersion": CONFIG, "kind": kind, "metadata": {"name": CLUSTER}, "spec": spec, "status": status});
        let one = "SingleReplica";
        let mut objects = vec![object(
            "Infrastructure",
            json!({"platformSpec": {"type": "None"}}),
            json!({
                "infrastructureName": "twinstack", "platform": "None", "platformStatus": {"type": "None"},
                "apiServerURL": "", "apiServerInternalURI": "", "controlPlaneTopology": one, "infrastructureTopology": one,
            }),
        )];
        if let Some(domain) = self.domain() {
            objects.push(object("Ingress", json!({"domain": domain}), json!({"defaultPlacement": "Workers"})));
            objects.extend(self.of_domain(domain));
        }
        objects
    }

    fn of_domain(&self, domain: &str) -> [Value; 4] {
        let (names, addresses) = (Names::of(DEFAULT), self.addresses());
        let here = |name: &str| json!({"name": name, "namespace": INGRESS_NAMESPACE});
        let record_type = if addresses.iter().all(IpAddr::is_ipv6) { "AAAA" } else { "A" };
        [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INGRESS_NAMESPACE}}),
            json!({
                "apiVersion": OPERATOR, "kind": "IngressController", "metadata": here(DEFAULT),
                "spec": {"domain": domain, "replicas": 1, "endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {
                    "httpPort": self.ports.http, "httpsPort": self.ports.https, "statsPort": self.ports.stats,
                }}},
            }),
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
                "metadata": {"name": names.class, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                "spec": {"controller": class::CONTROLLER},
            }),
            json!({
                "apiVersion": "ingress.operator.openshift.io/v1", "kind": "DNSRecord", "metadata": here(&names.record),
                "spec": {
                    "dnsName": format!("*.{domain}."), "targets": addresses, "recordType": record_type, "recordTTL": TTL,
                    "dnsManagementPolicy": "Managed",
                },
            }),
        ]
    }
}

/// How far the router of the IngressController `default` has come, as its status says.
pub(crate) struct Serving {
    /// Or why there is none.
    pub(crate) client: Result<Client, String>,
    pub(crate) ports: Ports,
}

impl Serving {
    /// Where applications are reached now.
    pub(crate) async fn look(&self) -> Part {
        let client = match &self.client {
            Ok(client) => client,
            Err(why) => return Part::Off(why.clone()),
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("operator.openshift.io", "v1", "IngressController"));
        let controllers: Api<DynamicObject> = Api::namespaced_with(client.clone(), INGRESS_NAMESPACE, &kind);
        match controllers.get_opt(DEFAULT).await {
            Ok(controller) => part(&controller.map(|controller| controller.data).unwrap_or_default(), self.ports),
            Err(error) => Part::Missing(error.to_string()),
        }
    }
}

/// What an IngressController comes to.
fn part(controller: &Value, ports: Ports) -> Part {
    let status = &controller["status"];
    let available = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Available");
    let condition = |field: &str| available.and_then(|one| one[field].as_str()).filter(|text| !text.is_empty());
    let Some(domain) = status["domain"].as_str().filter(|_| condition("status") == Some("True")) else {
        let why = condition("message").unwrap_or("the router has not been started yet; the log says more");
        return Part::Missing(why.to_owned());
    };
    let network = &status["endpointPublishingStrategy"]["hostNetwork"];
    let port = |field: &str, usual: u16| network[field].as_u64().unwrap_or_else(|| usual.into());
    let (http, https) = (port("httpPort", ports.http), port("httpsPort", ports.https));
    Part::Serves(format!("*.{domain} on port {http}, TLS on {https}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_router_that_is_available_is_named() {
        let controller = |status: &str, message: &str| {
            json!({"status": {
                "domain": "apps.lab.test",
                "endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {"httpPort": 8080, "httpsPort": 8443}},
                "conditions": [{"type": "Admitted", "status": "True"}, {"type": "Available", "status": status, "message": message}],
            }})
        };
        let ports = Ports { http: 80, https: 443, stats: 1936 };
        let part = |controller: &Value| part(controller, ports);
        let serves = Part::Serves("*.apps.lab.test on port 8080, TLS on 8443".to_owned());
        assert_eq!(part(&controller("True", "")), serves);
        let why = "the router process has ended: exit code 1";
        assert_eq!(part(&controller("False", why)), Part::Missing(why.to_owned()));
        assert!(matches!(part(&controller("Unknown", "")), Part::Missing(_)));
        assert!(matches!(part(&Value::Null), Part::Missing(_)));
    }
}
