//! The paths of an Ingress as claims.

use super::{
    Age, Certificate, Claim, Host, Id, Insecure, PathKind, PathMatch, Port, Refusal, RouteOptions, Source, Target,
    Termination,
    options::{self, FromAnnotations},
    route,
};
use crate::router::{settings::Admission, text};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::Secret,
    networking::v1::{HTTPIngressPath, Ingress, IngressBackend, IngressClass, IngressRule},
};
use runtime::controller::Key;
use std::collections::BTreeSet;

/// The controller of classes that this router takes by themselves.
pub(crate) const CONTROLLER: &str = "twinstack.dev/router";
/// Upstream's controller, which makes Routes of Ingresses; its classes name an IngressController.
const UPSTREAM_CONTROLLER: &str = "openshift.io/ingress-to-route";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Whether a class is this router's.
pub(crate) fn is_ours(class: &IngressClass, router: &str, rules: &Admission) -> bool {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if rules.ingress_classes.iter().any(|known| known == name) {
        return true;
    }
    let spec = class.spec.as_ref();
    match spec.and_then(|spec| spec.controller.as_deref()) {
        Some(CONTROLLER) => true,
        Some(UPSTREAM_CONTROLLER) => spec.and_then(|spec| spec.parameters.as_ref()).is_some_and(|it| it.name == router),
        _ => false,
    }
}

/// Whether an Ingress is this router's, by its class, the old annotation, or the default class.
pub(crate) fn is_taken(ingress: &Ingress, classes: &[&IngressClass], ours: impl Fn(&IngressClass) -> bool) -> bool {
    let old = ingress.metadata.annotations.as_ref().and_then(|all| all.get("kubernetes.io/ingress.class"));
    let wanted = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_ref()).or(old);
    let named = |class: &&&IngressClass| class.metadata.name.as_ref() == wanted;
    let default = |class: &&&IngressClass| {
        class.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CLASS)).is_some_and(|value| value == "true")
    };
    match wanted {
        Some(_) => classes.iter().find(named).is_some_and(|class| ours(class)),
        None => classes.iter().find(default).is_some_and(|class| ours(class)),
    }
}

/// The Secrets that an Ingress names.
pub(super) fn secrets(ingress: &Ingress) -> Vec<Key> {
    let namespace = ingress.metadata.namespace.clone().unwrap_or_default();
    let tls = ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten());
    tls.filter_map(|tls| Some(Key::new(namespace.clone(), tls.secret_name.clone()?))).collect()
}

/// One claim for each path, and the default backend: for what no path of the rules' hosts takes, and for every host that nobody
/// has claimed.
pub(super) fn claims(
    ingress: &Ingress,
    rules: &Admission,
    secret: impl Fn(&Key) -> Option<std::sync::Arc<Secret>>,
    now: Timestamp,
) -> Vec<(Id, Result<Claim, Refusal>)> {
    let key = Key::of(ingress);
    let id =
        |part: usize| Id { key: key.clone(), source: Source::Ingress, part: u32::try_from(part).unwrap_or(u32::MAX) };
    let FromAnnotations { options, ignored, refused } =
        options::from_annotations(ingress.metadata.annotations.as_ref());
    if let Some(refusal) = Refusal::all(refused) {
        return vec![(id(0), Err(refusal))];
    }
    let common = Common { ingress, rules, options, ignored, age: route::age(&ingress.metadata), secret: &secret, now };
    let spec = ingress.spec.as_ref();
    let mut found = Vec::new();
    for (at, rule) in spec.iter().flat_map(|spec| spec.rules.iter().flatten()).enumerate() {
        let host = rule.host.as_deref().unwrap_or_default();
        for (number, path) in rule.http.iter().flat_map(|http| &http.paths).enumerate() {
            let at = format!("spec.rules[{at}]");
            let path_at = format!("{at}.http.paths[{number}]");
            let fields = Fields { backend: format!("{path_at}.backend"), path: path_at, host: format!("{at}.host") };
            let id = id(found.len());
            found.push((id.clone(), common.claim(id, &fields, host, path)));
        }
    }
    if let Some(backend) = spec.and_then(|spec| spec.default_backend.as_ref()) {
        let path =
            HTTPIngressPath { backend: backend.clone(), path: Some("/".to_owned()), path_type: "Prefix".to_owned() };
        let at = "spec.defaultBackend".to_owned();
        let fields = Fields { host: at.clone(), path: at.clone(), backend: at };
        for host in hosts_with_gaps(spec.and_then(|spec| spec.rules.as_deref()).unwrap_or_default()) {
            let id = id(found.len());
            found.push((id.clone(), common.claim(id, &fields, &host, &path)));
        }
        let id = id(found.len());
        found.push((id.clone(), common.claim(id, &fields, "", &path)));
    }
    found
}

/// The hosts of rules of which none takes every path.
fn hosts_with_gaps(rules: &[IngressRule]) -> BTreeSet<String> {
    let host = |rule: &IngressRule| rule.host.as_deref().unwrap_or_default().to_ascii_lowercase();
    let takes_all = |path: &HTTPIngressPath| {
        path.path_type != "Exact" && path.path.as_deref().is_none_or(|path| path.is_empty() || path == "/")
    };
    let whole = |rule: &&IngressRule| rule.http.iter().flat_map(|http| &http.paths).any(takes_all);
    let filled: BTreeSet<String> = rules.iter().filter(whole).map(host).collect();
    rules.iter().map(host).filter(|host| !host.is_empty() && !filled.contains(host)).collect()
}

/// What refusals of one claim name.
struct Fields {
    host: String,
    path: String,
    backend: String,
}

struct Common<'a, F> {
    ingress: &'a Ingress,
    rules: &'a Admission,
    options: RouteOptions,
    ignored: Vec<String>,
    age: Age,
    secret: &'a F,
    now: Timestamp,
}

impl<F: Fn(&Key) -> Option<std::sync::Arc<Secret>>> Common<'_, F> {
    fn claim(&self, id: Id, fields: &Fields, host: &str, path: &HTTPIngressPath) -> Result<Claim, Refusal> {
        let name = host.to_ascii_lowercase();
        let host = self.host(&fields.host, &name)?;
        let field = |rest: &str| format!("{}.{rest}", fields.path);
        let text = path.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        if !text::is_path(text) {
            return Err(Refusal::field(&field("path"), text, "a path such as /shop, without query"));
        }
        let kind = match path.path_type.as_str() {
            "Exact" => PathKind::Exact,
            "Prefix" => PathKind::Prefix,
            "ImplementationSpecific" => PathKind::Route,
            other => return Err(Refusal::field(&field("pathType"), other, "Exact, Prefix, ImplementationSpecific")),
        };
        let (target, port) = target(&fields.backend, &path.backend)?;
        let certificate = self.certificate(&name)?;
        let tls = self.tls_of(&name).is_some();
        Ok(Claim {
            id,
            age: self.age.clone(),
            host,
            path: PathMatch { text: text.to_owned(), kind },
            termination: if tls { Termination::Edge } else { Termination::Plain },
            insecure: if tls { Insecure::Redirect } else { Insecure::Refuse },
            targets: vec![target],
            port: Some(port),
            certificate,
            destination_ca: None,
            options: self.options.clone(),
            ignored: self.ignored.clone(),
        })
    }

    fn host(&self, at: &str, name: &str) -> Result<Host, Refusal> {
        if name.is_empty() {
            return match self.rules.hostless() {
                true => Ok(Host::Any),
                false => {
                    let message = format!(
                        "{at}: without a host it is for every host, which this router does not allow; accepted: a host, or a router \
                         that allows wildcards and has no list of domains"
                    );
                    Err(Refusal::new("RouteNotAdmitted", message))
                }
            };
        }
        let (bare, wildcard) = name.strip_prefix("*.").map_or((name, false), |domain| (domain, true));
        if !text::is_host(bare) {
            return Err(Refusal::field(at, name, "a host name, or *. and a domain"));
        }
        route::admitted_domain(at, bare, self.rules)?;
        match wildcard {
            false => Ok(Host::Exact(bare.to_owned())),
            true if self.rules.wildcards => Ok(Host::Below(bare.to_owned())),
            true => {
                let message = format!("{at}: {name:?} is a wildcard, which this router does not allow");
                Err(Refusal::new("RouteNotAdmitted", message))
            }
        }
    }

    /// The TLS entry of a host; one without hosts is for all.
    fn tls_of(&self, name: &str) -> Option<(usize, Option<&str>)> {
        let all = self.ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten()).enumerate();
        all.filter(|(_, tls)| {
            tls.hosts
                .as_ref()
                .is_none_or(|hosts| hosts.is_empty() || hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
        })
        .map(|(at, tls)| (at, tls.secret_name.as_deref()))
        .next()
    }

    fn certificate(&self, name: &str) -> Result<Option<Certificate>, Refusal> {
        let Some((at, Some(secret))) = self.tls_of(name) else { return Ok(None) };
        let failed = |problem: String| {
            Refusal::new(
                "ExtendedValidationFailed",
                format!("spec.tls[{at}].secretName: {secret:?} {problem}; accepted: a Secret with tls.crt and tls.key"),
            )
        };
        let namespace = self.ingress.metadata.namespace.clone().unwrap_or_default();
        let found = (self.secret)(&Key::new(namespace, secret))
            .ok_or_else(|| failed("does not exist, or this router may not read it".to_owned()))?;
        route::from_secret(&found, self.now).map(Some).map_err(failed)
    }
}

fn target(at: &str, backend: &IngressBackend) -> Result<(Target, Port), Refusal> {
    let Some(service) = &backend.service else {
        return Err(Refusal::field(&format!("{at}.resource"), "", "a service; other resources are not served"));
    };
    if !route::is_service(&service.name) {
        return Err(Refusal::field(&format!("{at}.service.name"), &service.name, "the name of a Service"));
    }
    let port = service.port.as_ref();
    let number = port.and_then(|port| port.number).and_then(|number| u16::try_from(number).ok()).map(Port::Number);
    let name = port.and_then(|port| port.name.clone()).filter(|name| route::is_service(name)).map(Port::Name);
    let port =
        number.or(name).ok_or_else(|| Refusal::field(&format!("{at}.service.port"), "", "a port's name or number"))?;
    Ok((Target { service: service.name.clone(), weight: 1 }, port))
}
