//! Ingress and IngressClass. Mirrors `pkg/registry/networking/{ingress,ingressclass}` and their validation.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::existing,
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// The way to name a class before `spec.ingressClassName`.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Whether Ingresses get this class which name none.
pub fn is_default(class: &Value) -> bool {
    class.at("metadata.annotations").get(DEFAULT_CLASS).is_some_and(|value| value == "true")
}

/// Rules of networking.k8s.io/v1 Ingress.
pub(super) struct Ingress;

impl Rules for Ingress {
    fn prepare_create(&self, ingress: &mut Value) {
        ingress.set("status", json!({"loadBalancer": {}}));
    }

    fn prepare_update(&self, ingress: &mut Value, old: &Value) {
        ingress.set("status", old.at("status").clone());
    }

    fn validate(&self, ingress: &Value) -> Errors {
        let mut errors = validate(ingress, None);
        let class = ingress.at("spec.ingressClassName").as_str();
        let annotation = ingress.at("metadata.annotations").get(CLASS_ANNOTATION).and_then(Value::as_str);
        if let (Some(class), Some(annotation)) = (class, annotation)
            && class != annotation
        {
            let path = Path::new("annotations").child(CLASS_ANNOTATION);
            errors.push(FieldError::invalid(&path, annotation, format!("must be spec.ingressClassName, {class}")));
        }
        errors
    }

    fn validate_update(&self, ingress: &Value, old: &Value) -> Errors {
        validate(ingress, Some(old))
    }

    fn validate_status(&self, ingress: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status").child("loadBalancer").child("ingress");
        let points = |ingress: &Value| ingress.list_at("status.loadBalancer.ingress").to_vec();
        let before = points(old);
        for (i, point) in points(ingress).iter().enumerate() {
            let (ip, hostname) = (point.str_at("ip"), point.str_at("hostname"));
            if !ip.is_empty() {
                check::ip(&mut errors, &path.index(i).child("ip"), ip, before.iter().map(|point| point.str_at("ip")));
            }
            if !hostname.is_empty() {
                check::hostname(&mut errors, &path.index(i).child("hostname"), hostname);
            }
        }
        errors
    }

    fn warnings(&self, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = ingress.at("metadata.annotations").get(CLASS_ANNOTATION).is_some();
        if old.is_none() && annotated && ingress.at("spec.ingressClassName").is_null() {
            vec![format!("annotation {CLASS_ANNOTATION} is deprecated; use spec.ingressClassName")]
        } else {
            Vec::new()
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Class", "string", 0, "Class that serves it"),
            ("Hosts", "string", 0, "Host names it answers to"),
            ("Address", "string", 0, "Where it can be reached"),
            ("Ports", "string", 0, "Ports it is served on"),
            AGE,
        ])
    }

    fn cells(&self, ingress: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            columns::name(ingress),
            ingress.at("spec.ingressClassName").as_str().unwrap_or("<none>").into(),
            hosts(ingress).into(),
            columns::load_balancer(ingress).into(),
            if ingress.list_at("spec.tls").is_empty() { "80" } else { "80, 443" }.into(),
            columns::age(ingress, now),
        ]
    }
}

/// The first three hosts. As upstream counts, rules without a host are among those left out.
fn hosts(ingress: &Value) -> String {
    let rules = ingress.list_at("spec.rules");
    let named: Vec<(usize, &str)> =
        rules.iter().map(|rule| rule.str_at("host")).enumerate().filter(|(_, host)| !host.is_empty()).collect();
    let shown: Vec<&str> = named.iter().take(3).map(|(_, host)| *host).collect();
    match (shown.len(), named.get(2)) {
        (0, _) => "*".to_owned(),
        (3, Some((third, _))) if third + 1 < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - 3)
        }
        _ => shown.join(","),
    }
}

fn validate(ingress: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (path, spec) = (Path::new("spec"), ingress.at("spec"));
    if spec.list_at("rules").is_empty() && spec.at("defaultBackend").is_null() {
        errors.push(FieldError::invalid(&path, spec.at("rules").clone(), "must have rules or defaultBackend"));
    }
    if !spec.at("defaultBackend").is_null() {
        backend(&mut errors, &path.child("defaultBackend"), spec.at("defaultBackend"));
    }
    for (i, rule) in spec.list_at("rules").iter().enumerate() {
        let at = path.child("rules").index(i);
        let host = rule.str_at("host");
        if !host.is_empty() {
            check::not_an_address(&mut errors, &at.child("host"), host);
            host_name(&mut errors, &at.child("host"), host);
        }
        if rule.at("http").is_object() {
            http_paths(&mut errors, &at.child("http").child("paths"), rule.list_at("http.paths"));
        }
    }
    let had_bad_secret = old.is_some_and(|old| {
        let bad = |tls: &Value| !secret_name(tls.str_at("secretName")).is_empty();
        old.list_at("spec.tls").iter().any(bad)
    });
    for (i, tls) in spec.list_at("tls").iter().enumerate() {
        let at = path.child("tls").index(i);
        for (j, host) in check::texts(tls, "hosts").into_iter().enumerate() {
            host_name(&mut errors, &at.child("hosts").index(j), host);
        }
        if !had_bad_secret {
            let name = tls.str_at("secretName");
            check::all_of(&mut errors, &at.child("secretName"), name, secret_name(name));
        }
    }
    if let Some(class) = spec.at("ingressClassName").as_str() {
        check::dns_subdomain(&mut errors, &path.child("ingressClassName"), class);
    }
    errors
}

fn secret_name(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::dns_subdomain(name, false) }
}

fn host_name(errors: &mut Errors, path: &Path, host: &str) {
    if host.contains('*') {
        check::all_of(errors, path, host, names::wildcard_subdomain(host));
    } else {
        check::dns_subdomain(errors, path, host);
    }
}

fn http_paths(errors: &mut Errors, path: &Path, paths: &[Value]) {
    if paths.is_empty() {
        errors.push(FieldError::required(path, "at least one path"));
    }
    for (i, entry) in paths.iter().enumerate() {
        let at = path.index(i);
        let (kind, value) = (entry.at("pathType").as_str(), entry.str_at("path"));
        let Some(kind) = kind else {
            errors.push(FieldError::required(&at.child("pathType"), "Exact, Prefix or ImplementationSpecific"));
            continue;
        };
        let mut refuse = |text: String| errors.push(FieldError::invalid(&at.child("path"), value, text));
        match kind {
            "Exact" | "Prefix" => {
                if !value.starts_with('/') {
                    refuse("must start with '/'".into());
                }
                for part in ["//", "/./", "/../", "%2f", "%2F"] {
                    if value.contains(part) {
                        refuse(format!("'{part}' is not accepted in it"));
                    }
                }
                for end in ["/..", "/."] {
                    if value.ends_with(end) {
                        refuse(format!("'{end}' is not accepted at its end"));
                    }
                }
            }
            "ImplementationSpecific" if !value.is_empty() && !value.starts_with('/') => {
                refuse("must start with '/'".into())
            }
            "ImplementationSpecific" => {}
            other => {
                let accepted = ["Exact", "ImplementationSpecific", "Prefix"];
                errors.push(FieldError::not_supported(&at.child("pathType"), other, &accepted));
            }
        }
        backend(errors, &at.child("backend"), entry.at("backend"));
    }
}

fn backend(errors: &mut Errors, path: &Path, backend: &Value) {
    match (backend.at("service").is_object(), backend.at("resource").is_object()) {
        (true, true) => errors.push(FieldError::invalid(path, "", "must have one of service and resource, not both")),
        (false, false) => errors.push(FieldError::invalid(path, "", "must have service or resource")),
        (false, true) => reference(errors, &path.child("resource"), backend.at("resource")),
        (true, false) => {
            let (at, service) = (path.child("service"), backend.at("service"));
            match service.str_at("name") {
                "" => errors.push(FieldError::required(&at.child("name"), "")),
                name => check::dns_label(errors, &at.child("name"), name),
            }
            match (service.str_at("port.name"), service.int_at("port.number").unwrap_or_default()) {
                ("", 0) => errors.push(FieldError::required(path, "port.name or port.number")),
                ("", number) => check::port(errors, &at.child("port").child("number"), number),
                (name, 0) => check::all_of(errors, &at.child("port").child("name"), name, names::port_name(name)),
                _ => errors.push(FieldError::invalid(path, "", "must have one of port.name and port.number, not both")),
            }
        }
    }
}

/// Kind and name of another object, and the group of its kind.
fn reference(errors: &mut Errors, path: &Path, reference: &Value) {
    if let Some(group) = reference.at("apiGroup").as_str() {
        check::dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    for field in ["kind", "name"] {
        check::required_segment(errors, &path.child(field), reference.str_at(field));
    }
}

/// Rules of networking.k8s.io/v1 IngressClass.
pub(super) struct IngressClass;

impl Rules for IngressClass {
    fn default(&self, class: &mut Value) {
        if let Some(parameters) = existing(class, "spec.parameters") {
            parameters.set_default("scope", "Cluster");
        }
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec");
        controller(&mut errors, &path.child("controller"), class.str_at("spec.controller"));
        if class.at("spec.parameters").is_object() {
            parameters(&mut errors, &path.child("parameters"), class.at("spec.parameters"));
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec").child("controller");
        check::immutable(&mut errors, &path, class.at("spec.controller"), old.at("spec.controller"));
        errors.extend(self.validate(class));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Controller", "string", 0, "Who serves ingresses of this class"),
            ("Parameters", "string", 0, "Object with settings of the class"),
            AGE,
        ])
    }

    fn cells(&self, class: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let is_default = is_default(class);
        let mut name = class.str_at("metadata.name").to_owned();
        if is_default {
            name.push_str(" (default)");
        }
        let parameters = class.at("spec.parameters");
        let shown = match (parameters.is_object(), parameters.at("apiGroup").as_str()) {
            (false, _) => "<none>".to_owned(),
            (true, None) => format!("{}/{}", parameters.str_at("kind"), parameters.str_at("name")),
            (true, Some(group)) => format!("{}.{group}/{}", parameters.str_at("kind"), parameters.str_at("name")),
        };
        vec![name.into(), class.str_at("spec.controller").into(), shown.into(), columns::age(class, now)]
    }
}

fn controller(errors: &mut Errors, path: &Path, value: &str) {
    if value.len() > 250 {
        errors.push(FieldError::too_long(path, 250));
    }
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            check::dns_subdomain(errors, path, host);
            if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                errors.push(FieldError::invalid(path, rest, "accepted are the characters of a URL path"));
            }
        }
        _ => {
            errors.push(FieldError::invalid(path, value, "must be a domain and a path, such as 'example.com/ingress'"))
        }
    }
}

fn parameters(errors: &mut Errors, path: &Path, parameters: &Value) {
    reference(errors, path, parameters);
    let namespace = parameters.at("namespace").as_str();
    match (parameters.at("scope").as_str(), namespace) {
        (None, _) => errors.push(FieldError::required(&path.child("scope"), "Cluster or Namespace")),
        (Some("Namespace"), None) => {
            errors.push(FieldError::required(&path.child("namespace"), "because scope is Namespace"))
        }
        (Some("Namespace"), Some(name)) => check::dns_label(errors, &path.child("namespace"), name),
        (Some("Cluster"), Some(_)) => {
            errors.push(FieldError::forbidden(&path.child("namespace"), "because scope is Cluster"));
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => {
            errors.push(FieldError::not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]))
        }
    }
}
