//! A Route as a claim.

use super::{
    Age, Certificate, Claim, Host, Id, Insecure, PathKind, PathMatch, Port, Refusal, Target, Termination, certificate,
    options::{self, FromAnnotations},
};
use crate::router::{settings::Admission, text};
use api::{
    config::{HeaderAction, RouteTarget, RouteTls},
    kinds::names,
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use runtime::{controller::Key, operator::Route};
use serde_json::Value;

/// Checks a Route field by field; a refusal names all that is wrong. `secret` is the one that `externalCertificate` names, if it
/// exists.
pub(super) fn claim(
    route: &Route,
    rules: &Admission,
    secret: Option<&Secret>,
    now: Timestamp,
) -> Result<Claim, Refusal> {
    let spec = &route.spec;
    let FromAnnotations { mut options, ignored, refused: mut mistakes } =
        options::from_annotations(route.metadata.annotations.as_ref());
    let host =
        or_note(&mut mistakes, hostname(route, rules).and_then(|name| host(&name, &spec.wildcard_policy, rules)));
    let path = if spec.path.is_empty() { "/" } else { &spec.path };
    if !text::is_path(path) {
        mistakes.push(Refusal::field("spec.path", path, "a path such as /shop, without query"));
    }
    let tls = spec.tls.as_ref();
    let termination = or_note(&mut mistakes, termination(tls));
    if termination == Some(Termination::Passthrough) && path != "/" {
        mistakes.push(Refusal::field("spec.path", path, "no path with passthrough"));
    }
    if let Some(headers) = &spec.http_headers {
        let rules = |direction, rules: &[HeaderAction], at: &str| {
            options::header_rules(&format!("spec.httpHeaders.actions.{at}"), rules, direction)
        };
        let actions = &headers.actions;
        options.request_headers =
            or_note(&mut mistakes, rules(options::Direction::Request, &actions.request, "request")).unwrap_or_default();
        options.response_headers =
            or_note(&mut mistakes, rules(options::Direction::Response, &actions.response, "response"))
                .unwrap_or_default();
    }
    let insecure = or_note(&mut mistakes, insecure(tls));
    let targets = or_note(&mut mistakes, targets(&spec.to, &spec.alternate_backends));
    let port = or_note(&mut mistakes, port(spec.port.as_ref().map(|port| &port.target_port)));
    // What belongs to a way of ending TLS cannot be judged where that is wrong.
    let (certificate, destination_ca) = match termination {
        Some(termination) => (
            or_note(&mut mistakes, own_certificate(tls, termination, secret, now)).flatten(),
            or_note(&mut mistakes, destination_ca(tls, termination)).flatten(),
        ),
        None => (None, None),
    };
    let (Some(host), Some(termination), Some(insecure), Some(targets), Some(port), None) =
        (host, termination, insecure, targets, port, Refusal::all(mistakes.clone()))
    else {
        return Err(Refusal::all(mistakes).unwrap_or_else(|| Refusal::field("spec", "", "a Route")));
    };
    Ok(Claim {
        id: Id::route(Key::of(route)),
        age: age(&route.metadata),
        host,
        path: PathMatch { text: path.to_owned(), kind: PathKind::Route },
        termination,
        insecure,
        targets,
        port,
        certificate,
        destination_ca,
        options,
        ignored,
    })
}

/// What was read, or one mistake more.
fn or_note<T>(mistakes: &mut Vec<Refusal>, outcome: Result<T, Refusal>) -> Option<T> {
    outcome.map_err(|mistake| mistakes.push(mistake)).ok()
}

/// How old an object is.
pub(super) fn age(meta: &ObjectMeta) -> Age {
    let created = meta.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second());
    Age { created, uid: meta.uid.clone().unwrap_or_default() }
}

/// The name under which a Route wants to be served: its own, or one below the router's domain.
pub(crate) fn hostname(route: &Route, rules: &Admission) -> Result<String, Refusal> {
    let spec = &route.spec;
    if !spec.host.is_empty() {
        return Ok(spec.host.to_ascii_lowercase());
    }
    let none =
        || Refusal::new("NoHostValue", "spec.host: no host, and this router has no domain to give it one".to_owned());
    let domain = Some(rules.domain.as_str()).filter(|domain| !domain.is_empty()).ok_or_else(none)?;
    let Key { namespace, name } = Key::of(route);
    let first = if spec.subdomain.is_empty() { format!("{name}-{namespace}") } else { spec.subdomain.clone() };
    Ok(format!("{first}.{domain}").to_ascii_lowercase())
}

fn host(name: &str, policy: &str, rules: &Admission) -> Result<Host, Refusal> {
    if !text::is_host(name) {
        let message =
            format!("spec.host: {name:?} is no name of a host; accepted: labels of letters, digits and dashes");
        return Err(Refusal::new("InvalidHost", message));
    }
    admitted_domain("spec.host", name, rules)?;
    match policy {
        "" | "None" => Ok(Host::Exact(name.to_owned())),
        "Subdomain" if !rules.wildcards => {
            let message = "spec.wildcardPolicy: \"Subdomain\" is not allowed by this router; accepted: None".to_owned();
            Err(Refusal::new("RouteNotAdmitted", message))
        }
        "Subdomain" => match name.split_once('.') {
            Some((_, domain)) => Ok(Host::Below(domain.to_owned())),
            None => Err(Refusal::field("spec.host", name, "a name below a domain, with wildcardPolicy Subdomain")),
        },
        other => Err(Refusal::field("spec.wildcardPolicy", other, "None, Subdomain")),
    }
}

/// Denied domains win; a domain stands for itself and everything below.
pub(super) fn admitted_domain(field: &str, name: &str, rules: &Admission) -> Result<(), Refusal> {
    let within = |domains: &[String]| {
        domains
            .iter()
            .any(|domain| name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let refuse = |why: &str| Err(Refusal::new("RouteNotAdmitted", format!("{field}: {name:?} {why}")));
    if within(&rules.denied_domains) {
        return refuse("is in a domain that this router denies");
    }
    if !rules.allowed_domains.is_empty() && !within(&rules.allowed_domains) {
        return refuse(&format!(
            "is in none of the domains that this router allows: {}",
            rules.allowed_domains.join(", ")
        ));
    }
    Ok(())
}

fn termination(tls: Option<&RouteTls>) -> Result<Termination, Refusal> {
    let Some(tls) = tls else { return Ok(Termination::Plain) };
    match tls.termination.as_str() {
        "edge" => Ok(Termination::Edge),
        "passthrough" => Ok(Termination::Passthrough),
        "reencrypt" => Ok(Termination::Reencrypt),
        other => Err(Refusal::field("spec.tls.termination", other, "edge, passthrough, reencrypt")),
    }
}

fn insecure(tls: Option<&RouteTls>) -> Result<Insecure, Refusal> {
    let Some(tls) = tls else { return Ok(Insecure::Refuse) };
    match tls.insecure_edge_termination_policy.as_str() {
        "" | "None" => Ok(Insecure::Refuse),
        "Redirect" => Ok(Insecure::Redirect),
        "Allow" if tls.termination != "passthrough" => Ok(Insecure::Allow),
        other => {
            let accepted = if tls.termination == "passthrough" { "None, Redirect" } else { "None, Allow, Redirect" };
            Err(Refusal::field("spec.tls.insecureEdgeTerminationPolicy", other, accepted))
        }
    }
}

fn targets(to: &RouteTarget, more: &[RouteTarget]) -> Result<Vec<Target>, Refusal> {
    let all = std::iter::once(("spec.to".to_owned(), to))
        .chain(more.iter().enumerate().map(|(at, target)| (format!("spec.alternateBackends[{at}]"), target)));
    all.map(|(at, target)| {
        if !matches!(target.kind.as_str(), "" | "Service") {
            return Err(Refusal::field(&format!("{at}.kind"), &target.kind, "Service"));
        }
        if !is_service(&target.name) {
            return Err(Refusal::field(&format!("{at}.name"), &target.name, "the name of a Service"));
        }
        let weight = target.weight.unwrap_or(1);
        let weight = u16::try_from(weight).ok().filter(|weight| *weight <= 256);
        let refuse = || Refusal::field(&format!("{at}.weight"), &target.weight.unwrap_or(1).to_string(), "0 to 256");
        Ok(Target { service: target.name.clone(), weight: weight.ok_or_else(refuse)? })
    })
    .collect()
}

/// As the API names Services: a label, or with dots as old ones.
pub(super) fn is_service(name: &str) -> bool {
    names::is_domain(name)
}

fn port(value: Option<&Value>) -> Result<Option<Port>, Refusal> {
    let refuse = |value: &Value| Refusal::field("spec.port.targetPort", &value.to_string(), "a port's name or number");
    let number = |number: u64| u16::try_from(number).ok().filter(|port| *port != 0).map(Port::Number);
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Number(given)) => given.as_u64().and_then(number).map(Some).ok_or_else(|| refuse(value)),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(value @ Value::String(text)) => match text.parse::<u64>() {
            Ok(given) => number(given).map(Some).ok_or_else(|| refuse(value)),
            Err(_) if is_service(text) => Ok(Some(Port::Name(text.clone()))),
            Err(_) => Err(refuse(value)),
        },
        Some(other) => Err(refuse(other)),
    }
}

fn own_certificate(
    tls: Option<&RouteTls>,
    termination: Termination,
    secret: Option<&Secret>,
    now: Timestamp,
) -> Result<Option<Certificate>, Refusal> {
    let failed = |field: &str, problem: String| {
        Refusal::new(
            "ExtendedValidationFailed",
            format!("{field}: {problem}; accepted: PEM of a certificate and its key"),
        )
    };
    let Some(tls) = tls else { return Ok(None) };
    let external = tls.external_certificate.as_ref().filter(|secret| !secret.name.is_empty());
    if termination == Termination::Passthrough {
        let given = !tls.certificate.is_empty() || !tls.key.is_empty() || external.is_some();
        return match given {
            true => Err(failed("spec.tls.certificate", "cannot be used with passthrough".to_owned())),
            false => Ok(None),
        };
    }
    if let Some(external) = external {
        let field = "spec.tls.externalCertificate";
        let missing = || failed(field, format!("there is no Secret {:?} that this router may read", external.name));
        let secret = secret.ok_or_else(missing)?;
        return from_secret(secret, now).map(Some).map_err(|problem| failed(field, problem));
    }
    if tls.certificate.is_empty() && tls.key.is_empty() {
        return Ok(None);
    }
    let read = Certificate::read(&tls.certificate, &tls.key, &tls.ca_certificate).and_then(|read| read.valid_at(now));
    read.map(Some).map_err(|problem| failed("spec.tls.certificate", problem))
}

/// Chain and key of a Secret of type kubernetes.io/tls.
pub(super) fn from_secret(secret: &Secret, now: Timestamp) -> Result<Certificate, String> {
    let kind = secret.type_.as_deref().unwrap_or("Opaque");
    if kind != "kubernetes.io/tls" {
        return Err(format!("is of type {kind}, not kubernetes.io/tls"));
    }
    let part = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name)).ok_or_else(|| format!("has no {name}"))?;
        std::str::from_utf8(&bytes.0).map_err(|_| format!("has a {name} that is no text"))
    };
    Certificate::read(part("tls.crt")?, part("tls.key")?, "").and_then(|read| read.valid_at(now))
}

fn destination_ca(tls: Option<&RouteTls>, termination: Termination) -> Result<Option<String>, Refusal> {
    let given = tls.map(|tls| tls.destination_ca_certificate.as_str()).filter(|pem| !pem.is_empty());
    let Some(pem) = given else { return Ok(None) };
    let failed = |problem: &str| {
        let message =
            format!("spec.tls.destinationCACertificate: {problem}; accepted: PEM of certificates, with reencrypt");
        Refusal::new("ExtendedValidationFailed", message)
    };
    if termination != Termination::Reencrypt {
        return Err(failed("needs termination reencrypt"));
    }
    certificate::authorities(pem).map(Some).map_err(|problem| failed(&problem))
}
