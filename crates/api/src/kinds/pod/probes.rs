//! Probes and lifecycle hooks of a container: one action each.

use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// The probes that a container can have.
pub(super) const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Mistakes in `lifecycle` of a container.
pub(super) fn lifecycle(errors: &mut Errors, path: &Path, spec: &Value, container: &Value) {
    for hook in ["postStart", "preStop"] {
        let handler = container.at("lifecycle").at(hook);
        if handler.is_object() {
            action(errors, &path.child(hook), spec, handler, &["exec", "httpGet", "tcpSocket", "sleep"]);
        }
    }
}

/// Mistakes in the probes of a container.
pub(super) fn probes(errors: &mut Errors, path: &Path, spec: &Value, container: &Value) {
    for name in PROBES {
        let probe = container.at(name);
        if !probe.is_object() {
            continue;
        }
        let at = path.child(name);
        action(errors, &at, spec, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
        let numbers =
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
        check::none_negative(errors, &at, probe, &numbers);
        if let Some(seconds) = probe.int_at("terminationGracePeriodSeconds") {
            let at = at.child("terminationGracePeriodSeconds");
            if seconds <= 0 {
                errors.push(FieldError::invalid(&at, seconds, "must be 1 or more"));
            }
            if name == "readinessProbe" {
                errors.push(FieldError::invalid(&at, seconds, "a readiness probe ends nothing"));
            }
        }
        let successes = probe.int_at("successThreshold").unwrap_or_default();
        if name != "readinessProbe" && successes != 1 {
            errors.push(FieldError::invalid(&at.child("successThreshold"), successes, "must be 1"));
        }
    }
}

/// What a probe or a hook does: one thing.
fn action(errors: &mut Errors, path: &Path, spec: &Value, handler: &Value, accepted: &[&str]) {
    let mut given = accepted.iter().filter(|name| !handler.at(name).is_null());
    let Some(kind) = given.next() else {
        errors.push(FieldError::required(path, format!("one of {}", accepted.join(", "))));
        return;
    };
    for extra in given {
        errors.push(FieldError::forbidden(&path.child(extra), "only one action is accepted"));
    }
    let (at, what) = (path.child(kind), handler.at(kind));
    match *kind {
        "exec" if what.list_at("command").is_empty() => errors.push(FieldError::required(&at.child("command"), "")),
        "httpGet" => http_get(errors, &at, what),
        "tcpSocket" | "grpc" => check::port_or_name(errors, &at.child("port"), what.at("port")),
        "sleep" => {
            let seconds = what.int_at("seconds").unwrap_or_default();
            if let Some(grace) = spec.int_at("terminationGracePeriodSeconds").filter(|g| !(0..=*g).contains(&seconds)) {
                let text = format!("must be between 0 and terminationGracePeriodSeconds, {grace}");
                errors.push(FieldError::invalid(&at, seconds, text));
            }
        }
        _ => {}
    }
}

fn http_get(errors: &mut Errors, path: &Path, get: &Value) {
    if get.str_at("path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    check::port_or_name(errors, &path.child("port"), get.at("port"));
    check::one_of(errors, &path.child("scheme"), get.str_at("scheme"), &["HTTP", "HTTPS"]);
    for header in get.list_at("httpHeaders") {
        let name = header.str_at("name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            errors.push(FieldError::invalid(&path.child("httpHeaders"), name, "accepted are letters, digits and '-'"));
        }
    }
}
