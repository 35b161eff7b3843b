//! What `up` needs of the operator: its flag, its start, and the objects that it reads.

use super::{
    super::up::{INGRESS_BIND_ADDRESS, INGRESS_DOMAIN, Part},
    OPERAND_PORTS, options, process,
};
use api::config::{CLUSTER, CONFIG, INGRESS_NAMESPACE, OPERATOR};
use ingress::operator::{self, OperatorOptions};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use runtime::{client::Api, config::Settings, controller::Context};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The operator in the process of `up`; routers are processes beside it.
pub(crate) struct ForUp {
    options: OperatorOptions,
    /// Domain of the IngressController `default`; none is made without it.
    domain: Option<String>,
}

impl ForUp {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings) -> Self {
        let mut process = process(given, PathBuf::new());
        process.listen = Some(given.get(&INGRESS_BIND_ADDRESS));
        Self { options: options(String::new(), Some(process), true), domain: given.optional(&INGRESS_DOMAIN) }
    }

    /// Starts it beside what has this context. Its files are beside the kubeconfig. Without a domain nothing is started: no port
    /// of the machine is opened that nobody asked for, whatever objects a folder of `init` brings.
    pub(crate) fn start<O>(mut self, beside: &Context<O>, kubeconfig: &Path) {
        if self.domain.is_none() {
            return;
        }
        let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        if let Some(process) = &mut self.options.process {
            process.directory = kubeconfig.with_file_name("ingress");
            let folder = process.directory.join("{name}/haproxy");
            process.words = vec!["router".to_owned(), format!("--working-dir={}", folder.display())];
            process.kubeconfig = Some(kubeconfig);
        }
        operator::start(&beside.with_options(self.options));
    }

    /// What there is to see of the router, before and after the start.
    pub(crate) fn serving(&self, client: Client) -> Serving {
        Serving { asked: self.domain.is_some().then_some(client) }
    }

    /// The domain.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }
}

/// How far the router of the IngressController `default` has come, as its status says.
#[derive(Default)]
pub(crate) struct Serving {
    /// None when nobody asked for a router.
    asked: Option<Client>,
}

impl Serving {
    /// Where applications are reached now.
    pub(crate) async fn look(&self) -> Part {
        let Some(client) = &self.asked else {
            return Part::Off("none; --ingress-domain runs the operator and a router".to_owned());
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("operator.openshift.io", "v1", "IngressController"));
        let controllers: Api<DynamicObject> = Api::namespaced_with(client.clone(), INGRESS_NAMESPACE, &kind);
        match controllers.get_opt("default").await {
            Ok(controller) => part(&controller.map(|controller| controller.data).unwrap_or_default()),
            Err(error) => Part::Missing(error.to_string()),
        }
    }
}

/// What an IngressController comes to.
fn part(controller: &Value) -> Part {
    let status = &controller["status"];
    let available = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Available");
    let condition = |field: &str| available.and_then(|one| one[field].as_str()).filter(|text| !text.is_empty());
    let Some(domain) = status["domain"].as_str().filter(|_| condition("status") == Some("True")) else {
        let why = condition("message").unwrap_or("the router has not been started yet; the log says more");
        return Part::Missing(why.to_owned());
    };
    let network = &status["endpointPublishingStrategy"]["hostNetwork"];
    let ports = OPERAND_PORTS.default();
    let port = |field: &str, usual: u16| network[field].as_u64().unwrap_or_else(|| usual.into());
    let (http, https) = (port("httpPort", ports.http), port("httpsPort", ports.https));
    Part::Serves(format!("*.{domain} on port {http}, TLS on {https}"))
}

/// What the operator reads, as far as `init` has not given it: a platform that offers nothing, and with a domain the configuration of
/// Ingress and an IngressController on ports that anybody may open.
pub(crate) fn objects(given: &[Value], domain: Option<&str>) -> Vec<Value> {
    if given.iter().any(|object| object["kind"] == "Infrastructure") {
        return Vec::new();
    }
    let object = |version: &str, kind: &str, spec: Value, status: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": CLUSTER}, "spec": spec, "status": status});
    let one = "SingleReplica";
    let mut objects = vec![object(
        CONFIG,
        "Infrastructure",
        json!({"platformSpec": {"type": "None"}}),
        json!({
            "infrastructureName": "twinstack", "platform": "None", "platformStatus": {"type": "None"},
            "apiServerURL": "", "apiServerInternalURI": "", "controlPlaneTopology": one, "infrastructureTopology": one,
        }),
    )];
    let Some(domain) = domain else { return objects };
    objects.push(object(CONFIG, "Ingress", json!({"domain": domain}), json!({"defaultPlacement": "Workers"})));
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INGRESS_NAMESPACE}}));
    let ports = OPERAND_PORTS.default();
    objects.push(json!({
        "apiVersion": OPERATOR, "kind": "IngressController",
        "metadata": {"name": "default", "namespace": INGRESS_NAMESPACE},
        "spec": {"domain": domain, "replicas": 1, "endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {
            "httpPort": ports.http, "httpsPort": ports.https, "statsPort": ports.stats,
        }}},
    }));
    objects
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
        let serves = Part::Serves("*.apps.lab.test on port 8080, TLS on 8443".to_owned());
        assert_eq!(part(&controller("True", "")), serves);
        let why = "the router process has ended: exit code 1";
        assert_eq!(part(&controller("False", why)), Part::Missing(why.to_owned()));
        assert!(matches!(part(&controller("Unknown", "")), Part::Missing(_)));
        assert!(matches!(part(&Value::Null), Part::Missing(_)));
    }
}
