//! What `up` needs of the operator: its flag, its start, and the objects that it reads.

use super::{options, process};
use api::config::{CLUSTER, CONFIG, INGRESS_NAMESPACE, OPERATOR};
use ingress::operator::{self, Options};
use runtime::{config::Settings, controller::Context};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The operator in the process of `up`; routers are processes beside it.
pub(crate) struct ForUp {
    options: Options,
    /// Domain of the IngressController `default`; none is made without it.
    domain: Option<String>,
}

impl ForUp {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings) -> Self {
        let domain = given.optional("ingress-domain", "a DNS name such as apps.example.test", |text| {
            let plain = |label: &str| {
                let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                !label.is_empty() && label.len() <= 63 && label.bytes().all(good)
            };
            match text.len() <= 244 && text.split('.').all(plain) {
                true => Ok(text.to_owned()),
                false => Err("is no DNS name in lower case"),
            }
        });
        let process = process(given, None, PathBuf::new());
        Self { options: options(String::new(), Some(process), true), domain }
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
            process.words = vec![
                "router".to_owned(),
                format!("--working-dir={}", folder.display()),
                format!("--kubeconfig={}", kubeconfig.display()),
            ];
        }
        operator::start(&beside.with_options(self.options));
    }

    /// Where applications are reached, if there is a domain.
    pub(crate) fn told(&self) -> String {
        match &self.domain {
            Some(domain) => format!("*.{domain} on port {}, TLS on {}", super::PORTS.http, super::PORTS.https),
            None => "none; --ingress-domain runs the operator and a router".to_owned(),
        }
    }

    /// The domain.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }
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
    let ports = super::PORTS;
    objects.push(json!({
        "apiVersion": OPERATOR, "kind": "IngressController",
        "metadata": {"name": "default", "namespace": INGRESS_NAMESPACE},
        "spec": {"domain": domain, "replicas": 1, "endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {
            "httpPort": ports.http, "httpsPort": ports.https, "statsPort": ports.stats,
        }}},
    }));
    objects
}
