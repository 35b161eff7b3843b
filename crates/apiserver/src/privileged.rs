//! `--allow-privileged=false`: no container is privileged, in Pods and in what makes them. Mirrors the capability that
//! kube-apiserver's validation asks for.

use crate::call::Call;
use api::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

/// What of an object asks for what nobody may have.
pub(crate) fn mistakes(call: &Call, object: &Value) -> Vec<FieldError> {
    if call.server.config.allow_privileged || call.resource.custom {
        return Vec::new();
    }
    let at = match (call.resource.group.as_str(), call.resource.plural.as_str()) {
        ("", "pods") => "spec",
        ("", "podtemplates") => "template.spec",
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => "spec.template.spec",
        ("batch", "cronjobs") => "spec.jobTemplate.spec.template.spec",
        _ => return Vec::new(),
    };
    within(object.at(at), at)
}

fn within(spec: &Value, at: &str) -> Vec<FieldError> {
    let mut steps = at.split('.');
    let first = Path::new(steps.next().unwrap_or_default());
    let path = steps.fold(first, |path, step| path.child(step));
    let mut errors = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list_at(list).iter().enumerate() {
            if container.is_true("securityContext.privileged") {
                let place = path.child(list).index(index).child("securityContext").child("privileged");
                errors.push(FieldError::forbidden(&place, "disallowed by cluster policy"));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_list_of_containers_is_looked_at() {
        let privileged = json!([{"securityContext": {"privileged": true}}]);
        let spec =
            json!({"containers": [{}, {"securityContext": {"privileged": false}}], "initContainers": privileged});
        let found: Vec<String> = within(&spec, "spec.template.spec").iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "spec.template.spec.initContainers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
            ]
        );
    }
}
