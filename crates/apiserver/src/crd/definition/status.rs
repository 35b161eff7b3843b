//! Names and conditions: which definition gets which names, and when its routes appear.
//!
//! The engine calls `settle` for a definition whenever any definition of its group changes and stores what comes back. Names
//! that are taken stay taken until their definition lets go of them, so the order of calls decides a tie and nothing
//! else does.

use api::object::{Fields, timestamp};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The new status of `definition` next to all `others`, or nothing when it stays as it is.
pub fn settle(definition: &Value, others: &[&Value], now: Timestamp) -> Option<Value> {
    let taken = Taken::by(definition, others);
    let (asked, had) = (definition.at("spec.names"), definition.at("status.acceptedNames"));
    let mut accepted = if had.is_object() { had.clone() } else { json!({"plural": "", "kind": ""}) };
    let mut conflict = None;

    for (field, names, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        let name = asked.str_at(field);
        if name != had.str_at(field) && names.contains(name) {
            conflict = Some((reason, format!("\"{name}\" is already in use")));
        } else {
            accepted.set(field, name);
        }
    }
    let mine: Vec<&str> = had.list_at("shortNames").iter().filter_map(Value::as_str).collect();
    let clash = asked.list_at("shortNames").iter().filter_map(Value::as_str);
    let clash: Vec<_> = clash.filter(|name| !mine.contains(name) && taken.resources.contains(*name)).collect();
    if clash.is_empty() {
        copy(asked, &mut accepted, "shortNames");
    } else {
        let list: Vec<String> = clash.iter().map(|name| format!("\"{name}\" is already in use")).collect();
        conflict = Some(("ShortNamesConflict", list.join(", ")));
    }
    copy(asked, &mut accepted, "categories");

    let mut status = definition.at("status").clone();
    if !status.is_object() {
        status = json!({});
    }
    status.set("acceptedNames", accepted);
    match &conflict {
        None => set_condition(&mut status, "NamesAccepted", true, ("NoConflicts", "no conflicts found"), now),
        Some((reason, message)) => set_condition(&mut status, "NamesAccepted", false, (*reason, message.as_str()), now),
    }
    if !is_true(definition, "Established") {
        match conflict {
            None => {
                let told = ("InitialNamesAccepted", "the initial names have been accepted");
                set_condition(&mut status, "Established", true, told, now);
            }
            Some(_) => set_condition(&mut status, "Established", false, ("NotAccepted", "not all names are accepted"), now),
        }
    }
    (status != *definition.at("status")).then_some(status)
}

/// The status of a definition that is being deleted and waits for its objects.
pub fn terminating(definition: &Value, now: Timestamp) -> Value {
    let mut status = definition.at("status").clone();
    let told = ("InstanceDeletionInProgress", "the objects of this kind are being deleted");
    set_condition(&mut status, "Terminating", true, told, now);
    status
}

/// Whether the definition has this condition.
pub fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition.list_at("status.conditions").iter();
    conditions.filter(|one| one.str_at("type") == condition).any(|one| one.str_at("status") == "True")
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.at(field) {
        Value::Null => drop(to.remove(field)),
        list => to.set(field, list.clone()),
    }
}

/// Names in use in the group, by definitions other than this one.
struct Taken {
    /// Plurals, singulars and short names share the address space of kubectl.
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by(definition: &Value, others: &[&Value]) -> Self {
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        let name = definition.str_at("metadata.name");
        let group = definition.str_at("spec.group");
        let others = others.iter().filter(|other| other.str_at("metadata.name") != name);
        for other in others.filter(|other| other.str_at("spec.group") == group) {
            let names = other.at("status.acceptedNames");
            let mut resources = vec![names.str_at("plural"), names.str_at("singular")];
            resources.extend(names.list_at("shortNames").iter().filter_map(Value::as_str));
            taken.resources.extend(resources.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
            let kinds = [names.str_at("kind"), names.str_at("listKind")].into_iter();
            taken.kinds.extend(kinds.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        taken
    }
}

/// Sets a condition; the time of its last change moves only when its status does.
fn set_condition(status: &mut Value, kind: &str, holds: bool, told: (&str, &str), now: Timestamp) {
    let holds = if holds { "True" } else { "False" };
    let mut conditions = status.list_at("conditions").to_vec();
    let known = conditions.iter_mut().find(|one| one.str_at("type") == kind);
    let (reason, message) = told;
    match known {
        Some(known) => {
            if known.str_at("status") != holds {
                known.set("lastTransitionTime", timestamp(now));
            }
            known.set("status", holds);
            known.set("reason", reason);
            known.set("message", message);
        }
        None => conditions.push(json!({
            "type": kind, "status": holds, "reason": reason, "message": message, "lastTransitionTime": timestamp(now)
        })),
    }
    status.set("conditions", conditions);
}
