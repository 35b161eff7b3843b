//! What a LimitRange makes of new pods and claims: what they get when they say nothing, and what is too little or too much. Pure.
//!
//! Mirrors the LimitRanger plugin, its sentences included. Called by the API server's admission.

use crate::{
    kinds::{
        quantity::{self, Amount, Amounts},
        resources,
    },
    object::Fields,
};
use serde_json::{Value, json};

/// What tells which amounts a container has from here.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Gives containers that say nothing what the range has for them.
pub fn fill_in(range: &Value, pod: &mut Value) {
    let items = || range.list_at("spec.limits").iter().filter(|item| item.str_at("type") == "Container");
    let defaults = |field: &'static str| items().flat_map(move |item| item.map_at(field).into_iter().flatten());
    let mut told = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        for container in
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut).into_iter().flatten()
        {
            for (kind, field, word) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
                let mut set: Vec<&str> = Vec::new();
                for (name, amount) in defaults(field) {
                    if container.at("resources").at(kind).get(name).is_none() {
                        let amounts = container.at_mut("resources").at_mut(kind);
                        if !amounts.is_object() {
                            *amounts = json!({});
                        }
                        amounts[name] = amount.clone();
                        set.push(name);
                    }
                }
                if !set.is_empty() {
                    set.sort_unstable();
                    told.push(format!("{} {word} for {what} {}", set.join(", "), container.str_at("name")));
                }
            }
        }
    }
    if !told.is_empty() {
        let annotations = pod.at_mut("metadata.annotations");
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", told.join("; ")).into();
    }
}

/// Everything in a pod that the range does not allow.
#[must_use]
pub fn check_pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for item in range.list_at("spec.limits") {
        match item.str_at("type") {
            "Container" => {
                for container in pod.list_at("spec.containers").iter().chain(pod.list_at("spec.initContainers")) {
                    let amounts = |kind: &str| quantity::amounts(container.at("resources").at(kind));
                    constraints(&mut found, item, &amounts("requests"), &amounts("limits"));
                }
            }
            "Pod" => constraints(&mut found, item, &of_pod(pod, "requests"), &of_pod(pod, "limits")),
            _ => {}
        }
    }
    found
}

/// Everything in a claim that the range does not allow.
#[must_use]
pub fn check_claim(range: &Value, claim: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let requests = quantity::amounts(claim.at("spec.resources.requests"));
    for item in range.list_at("spec.limits").iter().filter(|item| item.str_at("type") == "PersistentVolumeClaim") {
        for (name, enforced) in quantity::amounts(item.at("min")) {
            found.extend(minimum("PersistentVolumeClaim", &name, enforced, &requests, &Amounts::new()));
        }
        for (name, enforced) in quantity::amounts(item.at("max")) {
            let rule = format!("maximum {name} usage per PersistentVolumeClaim is {enforced}");
            match requests.get(&name) {
                None => found.push(format!("{rule}.  No request is specified")),
                Some(request) if request.nanos > enforced.nanos => {
                    found.push(format!("{rule}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    found
}

fn of_pod(pod: &Value, kind: &str) -> Amounts {
    let spec = pod.at("spec");
    let mut total = resources::of_containers(spec, kind);
    let own = quantity::amounts(spec.at("resources").at(kind));
    total.extend(own.into_iter().filter(|(name, _)| resources::fits_pod(name)));
    total
}

fn constraints(found: &mut Vec<String>, item: &Value, requests: &Amounts, limits: &Amounts) {
    let kind = item.str_at("type");
    for (name, enforced) in quantity::amounts(item.at("min")) {
        found.extend(minimum(kind, &name, enforced, requests, limits));
    }
    for (name, enforced) in quantity::amounts(item.at("max")) {
        found.extend(maximum(kind, &name, enforced, requests, limits));
    }
    for (name, enforced) in quantity::amounts(item.at("maxLimitRequestRatio")) {
        found.extend(ratio(kind, &name, enforced, requests, limits));
    }
}

fn minimum(kind: &str, name: &str, enforced: Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {enforced}");
    let less = |amount: &&Amount| amount.nanos < enforced.nanos;
    match (requests.get(name), limits.get(name).filter(less)) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if less(&request) => Some(format!("{rule}, but request is {request}")),
        (_, Some(limit)) => Some(format!("{rule}, but limit is {limit}")),
        _ => None,
    }
}

fn maximum(kind: &str, name: &str, enforced: Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {enforced}");
    let more = |amount: &&Amount| amount.nanos > enforced.nanos;
    match (limits.get(name), requests.get(name).filter(more)) {
        (None, _) => Some(format!("{rule}.  No limit is specified")),
        (Some(limit), _) if more(&limit) => Some(format!("{rule}, but limit is {limit}")),
        (_, Some(request)) => Some(format!("{rule}, but request is {request}")),
        _ => None,
    }
}

fn ratio(kind: &str, name: &str, enforced: Amount, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {enforced}");
    let given = |amounts: &Amounts| amounts.get(name).map(|amount| amount.nanos).filter(|nanos| *nanos != 0);
    let (Some(request), limit) = (given(requests), given(limits)) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit else { return Some(format!("{rule}, but no limit is specified or limit is 0")) };
    #[allow(clippy::cast_precision_loss, reason = "a ratio is shown with six digits")]
    let shown = limit as f64 / request as f64;
    let one = Amount::count(1).nanos;
    let too_much = limit.saturating_mul(one) > enforced.nanos.saturating_mul(request);
    too_much.then(|| format!("{rule}, but provided ratio is {shown:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Value {
        json!({"spec": {"limits": [
            {"type": "Container", "min": {"cpu": "50m", "memory": "100Mi"}, "max": {"cpu": "500m", "memory": "500Mi"},
                "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m", "memory": "200Mi"},
                "maxLimitRequestRatio": {"cpu": "4"}},
            {"type": "Pod", "max": {"cpu": "800m"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}]}})
    }

    #[test]
    fn containers_get_what_they_do_not_say() {
        let mut pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1"}}}]}});
        fill_in(&range(), &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "500m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a; \
             memory request for container b; cpu limit for container b"
        );
    }

    #[test]
    fn too_little_and_too_much_are_refused_in_upstreams_words() {
        let pod = |requests: Value, limits: Value| json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}});
        for (requests, limits, expected) in [
            (json!({"cpu": "200m", "memory": "200Mi"}), json!({"cpu": "400m", "memory": "300Mi"}), vec![]),
            (
                json!({"cpu": "10m", "memory": "200Mi"}),
                json!({"cpu": "600m", "memory": "300Mi"}),
                vec![
                    "minimum cpu usage per Container is 50m, but request is 10m",
                    "maximum cpu usage per Container is 500m, but limit is 600m",
                    "cpu max limit to request ratio per Container is 4, but provided ratio is 60.000000",
                ],
            ),
            (
                json!({}),
                json!({}),
                vec![
                    "minimum cpu usage per Container is 50m.  No request is specified",
                    "minimum memory usage per Container is 100Mi.  No request is specified",
                    "maximum cpu usage per Container is 500m.  No limit is specified",
                    "maximum memory usage per Container is 500Mi.  No limit is specified",
                    "cpu max limit to request ratio per Container is 4, but no request is specified or request is 0",
                    "maximum cpu usage per Pod is 800m.  No limit is specified",
                ],
            ),
        ] {
            assert_eq!(check_pod(&range(), &pod(requests.clone(), limits)), expected, "{requests}");
        }
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        assert_eq!(
            check_claim(&range(), &claim("10Gi")),
            ["maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"]
        );
        assert_eq!(
            check_claim(&range(), &claim("1Mi")),
            ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]
        );
    }
}
