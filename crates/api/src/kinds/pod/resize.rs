//! `pods/NAME/resize`: cpu and memory of a running pod and of its containers, and nothing else of it.

use super::{defaults, head, is_mirror, quality, validate};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        edit::items,
    },
    object::Fields,
    path::Path,
    resource::{change_only, take_over},
};
use serde_json::{Value, json};

const LISTS: [&str; 2] = ["containers", "initContainers"];
/// What a write may say about a container.
const OF_A_CONTAINER: [&str; 2] = ["resources", "resizePolicy"];
const KINDS: [&str; 2] = ["requests", "limits"];
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Carries over everything else. Containers that are not those of the pod are left for `validate` to refuse.
pub(super) fn prepare(pod: &mut Value, old: &Value) {
    let sent = pod.clone();
    change_only(pod, old, &[]);
    for list in LISTS {
        let path = format!("spec.{list}");
        let (wanted, was) = (sent.list_at(&path), old.list_at(&path));
        if !names(wanted).eq(names(was)) {
            take_over(pod, &sent, &path);
            continue;
        }
        for (container, wanted) in items(pod, &path).zip(wanted) {
            for field in OF_A_CONTAINER {
                take_over(container, wanted, field);
            }
        }
    }
    // A client that does not know resources of whole pods leaves them out.
    if !sent.at("spec.resources").is_null() {
        take_over(pod, &sent, "spec.resources");
    }
    defaults::pod_resources(pod);
}

fn names(containers: &[Value]) -> impl Iterator<Item = &str> {
    containers.iter().map(|container| container.str_at("name"))
}

/// What counts of an applied pod.
pub(super) fn applied(config: &Value) -> Value {
    let mut kept = head(config);
    if !config.at("spec.resources").is_null() {
        kept.set("spec.resources", config.at("spec.resources").clone());
    }
    for list in LISTS {
        let sets_resources = |container: &&Value| OF_A_CONTAINER.iter().any(|field| !container.at(field).is_null());
        let containers = config.list_at(&format!("spec.{list}")).iter().filter(sets_resources).map(|container| {
            let mut only = json!({"name": container.at("name")});
            for field in OF_A_CONTAINER {
                take_over(&mut only, container, field);
            }
            only
        });
        let containers: Vec<Value> = containers.collect();
        if !containers.is_empty() {
            kept.set(&format!("spec.{list}"), containers);
        }
    }
    kept
}

/// Mistakes in a resize.
pub(super) fn validate(pod: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    if is_mirror(old) || old.str_at("spec.os.name") == "windows" {
        let what = if is_mirror(old) { "static" } else { "windows" };
        return vec![FieldError::forbidden(&Path::root(), format!("{what} pods cannot be resized"))];
    }
    let mut errors = validate::pod(pod, Some(old));
    let class = old.str_at("status.qosClass");
    let class = if class.is_empty() { quality(old) } else { class };
    if quality(pod) != class {
        let text = format!("the pod is {class} and must stay so: its QoS class cannot change by a resize");
        errors.push(FieldError::invalid(&path, class, text));
    }
    if !can_be_resized(old) {
        errors.push(FieldError::forbidden(&path, "the node that runs the pod cannot resize it"));
    }
    of_whole_pod(&mut errors, &path, pod.at("spec.resources"), old.at("spec.resources"));
    if !same_containers(&mut errors, &path, pod, old) {
        return errors;
    }
    for list in LISTS {
        let at = |list: &str| format!("spec.{list}");
        for (i, (container, was)) in pod.list_at(&at(list)).iter().zip(old.list_at(&at(list))).enumerate() {
            of_container(&mut errors, &path.child(list).index(i), container, was, list == "initContainers");
        }
    }
    errors
}

/// Kubelets that can resize show the resources of what they run; without anything running nobody can tell.
fn can_be_resized(old: &Value) -> bool {
    let running = old.list_at("status.containerStatuses").iter().find(|status| status.at("state.running").is_object());
    running.is_none_or(|status| status.at("resources").is_object())
}

fn of_whole_pod(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    removed(errors, &path.child("resources"), new, old);
    if !check::same(&masked(new, old), old) {
        errors.push(FieldError::forbidden(path, "of a pod's resources only cpu and memory can change"));
    }
}

fn same_containers(errors: &mut Errors, path: &Path, pod: &Value, old: &Value) -> bool {
    let known = errors.len();
    for list in LISTS {
        let field = format!("spec.{list}");
        let (now, was) = (pod.list_at(&field), old.list_at(&field));
        if now.len() != was.len() {
            errors.push(FieldError::forbidden(&path.child(list), "a resize neither adds nor removes containers"));
            continue;
        }
        for (i, _) in names(now).zip(names(was)).enumerate().filter(|(_, (now, was))| now != was) {
            let at = path.child(list).index(i).child("name");
            errors.push(FieldError::forbidden(&at, "a resize neither renames nor reorders containers"));
        }
    }
    errors.len() == known
}

fn of_container(errors: &mut Errors, path: &Path, container: &Value, was: &Value, init: bool) {
    removed(errors, &path.child("resources"), container.at("resources"), was.at("resources"));
    let mut rest = container.clone();
    rest.set("resources", masked(container.at("resources"), was.at("resources")));
    if !check::same(&rest, was) {
        errors.push(FieldError::forbidden(path, "of a container only cpu and memory can change"));
    }
    let restarts = |policy: &Value| policy.str_at("restartPolicy") == "RestartContainer";
    let once = init && container.str_at("restartPolicy") != "Always";
    if once && !check::same(container, was) && container.list_at("resizePolicy").iter().any(restarts) {
        let text = "an init container that runs once and has the resize policy RestartContainer cannot be resized";
        errors.push(FieldError::forbidden(path, text));
    }
}

/// What is asked for or limited once stays so, by another number at most.
fn removed(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    for kind in KINDS {
        let lost = |name: &&String| new.at(kind).get(name.as_str()).is_none();
        if let Some(name) = old.map_at(kind).into_iter().flatten().map(|(name, _)| name).find(lost) {
            errors.push(FieldError::forbidden(&path.child(kind), format!("{name} cannot be removed")));
        }
    }
}

/// The new resources with cpu and memory as they were, so that what still differs must not.
fn masked(new: &Value, old: &Value) -> Value {
    let mut masked = new.clone();
    for kind in KINDS {
        for name in MUTABLE {
            let path = format!("{kind}.{name}");
            if !old.at(&path).is_null() || !masked.at(&path).is_null() {
                take_over(&mut masked, old, &path);
            }
        }
    }
    masked
}
