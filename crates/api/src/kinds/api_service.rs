//! APIService: which server answers for a group and version, and in which order discovery names them.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, change_only},
};
use serde_json::{Value, json};

pub const GROUP: &str = "apiregistration.k8s.io";
/// The condition that says whether requests are passed on.
pub const AVAILABLE: &str = "Available";
/// Who wrote an APIService by itself, and when it is brought back: `onstart` or `true`.
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

const MOST_GROUP_PRIORITY: i64 = 20000;
const MOST_VERSION_PRIORITY: i64 = 1000;
/// Of the groups that definitions bring.
const CUSTOM: (i64, i64) = (1000, 100);

/// Rules of apiregistration.k8s.io/v1 APIService.
pub(super) struct ApiService;

impl Rules for ApiService {
    fn default(&self, service: &mut Value) {
        if service.at("spec.service").is_object() {
            service.set_default("spec.service.port", 443);
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        let status = match service.at("spec.service").is_object() {
            true => json!({}),
            false => json!({"conditions": [local_condition(service.str_at("metadata.creationTimestamp"))]}),
        };
        service.set("status", status);
    }

    fn prepare_update(&self, service: &mut Value, old: &Value) {
        service.set("status", old.at("status").clone());
    }

    fn prepare_status(&self, service: &mut Value, old: &Value) {
        change_only(service, old, &["status"]);
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata"]
    }

    fn validate(&self, service: &Value) -> Errors {
        let mut errors = Errors::new();
        let wanted = format!("{}.{}", service.str_at("spec.version"), service.str_at("spec.group"));
        let name = service.str_at("metadata.name");
        if name != wanted {
            let text = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
            errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, text));
        }
        spec(&mut errors, &Path::new("spec"), service.at("spec"));
        errors
    }

    fn validate_status(&self, service: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status").child("conditions");
        for (index, condition) in service.list_at("status.conditions").iter().enumerate() {
            let at = path.index(index).child("status");
            check::one_of(&mut errors, &at, condition.str_at("status"), &["False", "True", "Unknown"]);
        }
        errors
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Service", "string", 0, "The reference to the service that hosts this API endpoint."),
            ("Available", "string", 0, "Whether this service is available."),
            AGE,
        ])
    }

    fn cells(&self, service: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let host = service.at("spec.service");
        let reference = match host.is_object() {
            true => format!("{}/{}", host.str_at("namespace"), host.str_at("name")),
            false => "Local".to_owned(),
        };
        vec![columns::name(service), reference.into(), available(service).into(), columns::age(service, now)]
    }
}

fn spec(errors: &mut Errors, path: &Path, spec: &Value) {
    let (group, version) = (spec.str_at("group"), spec.str_at("version"));
    if group.is_empty() && version != "v1" {
        let text = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), text));
    }
    if !group.is_empty() {
        check::dns_subdomain(errors, &path.child("group"), group);
    }
    check::dns_label(errors, &path.child("version"), version);
    if version.starts_with(|first: char| first.is_ascii_digit()) {
        errors.push(FieldError::invalid(&path.child("version"), version, "must start with a letter, such as 'v1'"));
    }
    for (field, most) in [("groupPriorityMinimum", MOST_GROUP_PRIORITY), ("versionPriority", MOST_VERSION_PRIORITY)] {
        let given = spec.int_at(field).unwrap_or_default();
        if !(1..=most).contains(&given) {
            let text = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(&path.child(field), given, text));
        }
    }
    let (unchecked, bundle) = (spec.is_true("insecureSkipTLSVerify"), spec.str_at("caBundle"));
    let skip = path.child("insecureSkipTLSVerify");
    let Some(service) = Some(spec.at("service")).filter(|service| service.is_object()) else {
        if !bundle.is_empty() {
            let size = format!("{} bytes", bundle.len() / 4 * 3);
            let text = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), size, text));
        }
        if unchecked {
            errors.push(FieldError::invalid(&skip, true, "local APIServices may not have insecureSkipTLSVerify"));
        }
        return;
    };
    let at = path.child("service");
    for field in ["namespace", "name"] {
        if service.str_at(field).is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    }
    let port = service.int_at("port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let text = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&at.child("port"), port, text));
    }
    if unchecked && !bundle.is_empty() {
        errors.push(FieldError::invalid(&skip, true, "may not be true if caBundle is present"));
    }
}

/// What an APIService without a Service has from its first moment.
pub fn local_condition(since: &str) -> Value {
    json!({
        "type": AVAILABLE, "status": "True", "lastTransitionTime": since, "reason": "Local",
        "message": "Local APIServices are always available",
    })
}

/// The condition by which requests are passed on or refused.
pub fn available_condition(service: &Value) -> Option<&Value> {
    service.list_at("status.conditions").iter().find(|condition| condition.str_at("type") == AVAILABLE)
}

fn available(service: &Value) -> String {
    let Some(condition) = available_condition(service) else { return "Unknown".to_owned() };
    match (condition.str_at("status"), condition.str_at("reason")) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

/// Group and version priority of what this server itself answers for, which are upstream's; the group of APIServices comes
/// before all others, and what definitions bring after all that upstream has.
pub fn local_priorities(group: &str, version: &str) -> (i64, i64) {
    let of_group = match group {
        GROUP => return (MOST_GROUP_PRIORITY + 1, 0),
        "" => return (18000, 1),
        "apps" => 17800,
        "events.k8s.io" => 17750,
        "authentication.k8s.io" => 17700,
        "authorization.k8s.io" => 17600,
        "autoscaling" => 17500,
        "batch" => 17400,
        "certificates.k8s.io" => 17300,
        "networking.k8s.io" => 17200,
        "policy" => 17100,
        "rbac.authorization.k8s.io" => 17000,
        "storage.k8s.io" => 16800,
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => 16700,
        "scheduling.k8s.io" => 16600,
        "coordination.k8s.io" => 16500,
        "node.k8s.io" => 16300,
        "discovery.k8s.io" | "resource.k8s.io" => 16200,
        "flowcontrol.apiserver.k8s.io" => 16100,
        "internal.apiserver.k8s.io" => 16000,
        "storagemigration.k8s.io" => 15800,
        _ => return CUSTOM,
    };
    let of_version = match (group, version) {
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        ("flowcontrol.apiserver.k8s.io", "v1beta3") => 18,
        ("resource.k8s.io", "v1beta2") | (_, "v1") => 15,
        ("coordination.k8s.io", "v1beta1") => 13,
        ("coordination.k8s.io", "v1alpha2") | ("admissionregistration.k8s.io", "v1beta1") => 12,
        ("admissionregistration.k8s.io", "v1alpha1") => 9,
        (_, version) if version.contains("alpha") => 1,
        _ => 9,
    };
    (of_group, of_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "v1beta1.metrics.k8s.io", "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec})
    }

    fn remote() -> Value {
        json!({
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "kube-system", "name": "metrics-server"}, "insecureSkipTLSVerify": true,
        })
    }

    fn mistakes(spec: Value) -> Vec<String> {
        ApiService.validate(&service(spec)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        assert_eq!(mistakes(remote()), [] as [&str; 0]);
        let wrong = json!({
            "group": "", "version": "1x", "groupPriorityMinimum": 20001, "caBundle": "AAAA", "insecureSkipTLSVerify": true,
            "service": {"port": 70000},
        });
        assert_eq!(
            mistakes(wrong),
            [
                r#"metadata.name: Invalid value: "v1beta1.metrics.k8s.io": must be `spec.version+"."+spec.group`: "1x.""#,
                "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
                r#"spec.version: Invalid value: "1x": must start with a letter, such as 'v1'"#,
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ]
        );
        let mut local = remote();
        local["service"] = Value::Null;
        local["caBundle"] = "AAAA".into();
        assert_eq!(
            mistakes(local),
            [
                r#"spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle"#,
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
    }

    #[test]
    fn a_local_one_is_available_from_the_first_moment_and_another_one_is_not() {
        let now = "2026-01-02T03:05:05Z".parse().unwrap();
        let (mut here, mut there) =
            (service(json!({"group": "metrics.k8s.io", "version": "v1beta1"})), service(remote()));
        for object in [&mut here, &mut there] {
            ApiService.default(object);
            ApiService.prepare_create(object);
        }
        assert_eq!(ApiService.cells(&here, now), ["v1beta1.metrics.k8s.io", "Local", "True", "60s"]);
        assert_eq!(
            ApiService.cells(&there, now),
            ["v1beta1.metrics.k8s.io", "kube-system/metrics-server", "Unknown", "60s"]
        );
        assert_eq!(there.int_at("spec.service.port"), Some(443));
        there.set("status.conditions", json!([{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]));
        assert_eq!(ApiService.cells(&there, now)[2], "False (MissingEndpoints)");
    }

    #[test]
    fn every_row_of_the_table_has_upstreams_priority() {
        for resource in super::super::table() {
            let found = local_priorities(&resource.group, &resource.version);
            assert_ne!(found, CUSTOM, "{}", resource.group);
        }
        assert_eq!(local_priorities("autoscaling", "v2"), (17500, 30));
        assert_eq!(local_priorities("autoscaling", "v1"), (17500, 15));
        assert_eq!(local_priorities("flowcontrol.apiserver.k8s.io", "v1"), (16100, 21));
        assert_eq!(local_priorities("example.com", "v1"), CUSTOM);
    }
}
