//! Names and conditions: which definition gets which names, and when its routes appear.
//!
//! The engine calls `settle` for a definition whenever it changes or a name may have become free, and stores what comes back.
//! A name stays with the definition that has it until that lets go of it.

use super::approval;
use api::object::{Fields, timestamp};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The new status of `definition` next to all `others`, or nothing when it stays as it is.
///
/// Names come first and `Established` in a second call, so that the server can open the routes in between: whoever reads
/// `Established` finds them open.
pub fn settle(definition: &Value, others: &[&Value], now: Timestamp) -> Option<Value> {
    let (names, conflict) = accept(definition, others);
    let mut status = definition.at("status").clone();
    if !status.is_object() {
        status = json!({});
    }
    let settled =
        conflict.is_none() && is_true(definition, "NamesAccepted") && names == *definition.at("status.acceptedNames");
    status.set("acceptedNames", names);
    match &conflict {
        None => set_condition(&mut status, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now),
        Some((reason, message)) => {
            set_condition(&mut status, "NamesAccepted", "False", (*reason, message.as_str()), now)
        }
    }
    if !is_true(definition, "Established") {
        let (holds, explanation) = match conflict {
            None if settled => ("True", ("InitialNamesAccepted", "the initial names have been accepted")),
            None => ("False", ("Installing", "the initial names have been accepted")),
            Some(_) => ("False", ("NotAccepted", "not all names are accepted")),
        };
        set_condition(&mut status, "Established", holds, explanation, now);
    }
    if let Some((holds, reason, message)) = approval::condition(definition) {
        set_condition(&mut status, "KubernetesAPIApprovalPolicyConformant", holds, (reason, &message), now);
    }
    (status != *definition.at("status")).then_some(status)
}

/// The names that a definition gets, and why not all that it asks for.
///
/// A name that it has stays its own, with one exception: two servers may have given the same name to two definitions at the
/// same time. Until it is established, the one that was written later gives way.
fn accept(definition: &Value, others: &[&Value]) -> (Value, Option<(&'static str, String)>) {
    let group = definition.str_at("spec.group");
    let is_other = |other: &&&Value| other.str_at("metadata.name") != definition.str_at("metadata.name");
    let others = || others.iter().filter(is_other).filter(|other| other.str_at("spec.group") == group);
    let taken = Taken::by(others());
    let firm = match is_true(definition, "Established") {
        true => Taken::default(),
        false => {
            Taken::by(others().filter(|other| is_true(other, "Established") || revision(other) < revision(definition)))
        }
    };
    let (asked, had) = (definition.at("spec.names"), definition.at("status.acceptedNames"));
    let mut accepted = if had.is_object() { had.clone() } else { json!({"plural": "", "kind": ""}) };
    let mut conflict = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let texts = |value: &Value| match value.at(field) {
            Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            one => one.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
        };
        let (wanted, mine) = (texts(asked), texts(had));
        let is_free = |name: &&String| match mine.contains(name) {
            true => !firm.has(field, name),
            false => !taken.has(field, name),
        };
        let clash: Vec<_> = wanted.iter().filter(|name| !is_free(name)).collect();
        if clash.is_empty() {
            copy(asked, &mut accepted, field);
        } else {
            if mine.iter().any(|name| firm.has(field, name)) {
                copy(&json!({"plural": "", "kind": ""}), &mut accepted, field);
            }
            let messages: Vec<String> = clash.iter().map(|name| format!("\"{name}\" is already in use")).collect();
            let message = if messages.len() > 1 { format!("[{}]", messages.join(", ")) } else { messages.concat() };
            conflict = Some((reason, message));
        }
    }
    copy(asked, &mut accepted, "categories");
    (accepted, conflict)
}

/// How far the deletion of a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its objects are being deleted.
    InProgress,
    /// They are gone.
    Completed,
    /// There never were any.
    NeverEstablished,
    /// They are objects of a built-in kind, which stay.
    BuiltIn,
}

/// The status of a definition that is being deleted.
pub fn terminating(definition: &Value, ending: Ending, now: Timestamp) -> Value {
    let (holds, reason, message) = match ending {
        Ending::InProgress => ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"),
        Ending::Completed => ("False", "InstanceDeletionCompleted", "removed all instances"),
        Ending::NeverEstablished => ("False", "NeverEstablished", "resource was never established"),
        Ending::BuiltIn => {
            ("False", "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
        }
    };
    let mut status = definition.at("status").clone();
    set_condition(&mut status, "Terminating", holds, (reason, message), now);
    status
}

/// Whether a definition has routes: upstream opens them with the names, a moment before `Established`.
pub fn is_served(definition: &Value) -> bool {
    is_true(definition, "Established") || is_true(definition, "NamesAccepted")
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

fn revision(definition: &Value) -> u64 {
    definition.str_at("metadata.resourceVersion").parse().unwrap_or_default()
}

/// Names in use.
#[derive(Default)]
struct Taken {
    /// Plurals, singulars and short names share the address space of kubectl.
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by<'a>(definitions: impl Iterator<Item = &'a &'a Value>) -> Self {
        let mut taken = Self::default();
        for definition in definitions {
            let names = definition.at("status.acceptedNames");
            let mut resources = vec![names.str_at("plural"), names.str_at("singular")];
            resources.extend(names.list_at("shortNames").iter().filter_map(Value::as_str));
            taken.resources.extend(resources.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
            let kinds = [names.str_at("kind"), names.str_at("listKind")].into_iter();
            taken.kinds.extend(kinds.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        taken
    }

    fn has(&self, field: &str, name: &str) -> bool {
        match field {
            "kind" | "listKind" => self.kinds.contains(name),
            _ => self.resources.contains(name),
        }
    }
}

/// Sets a condition; the time of its last change moves only when its status does.
fn set_condition(status: &mut Value, kind: &str, holds: &str, explanation: (&str, &str), now: Timestamp) {
    let mut conditions = status.list_at("conditions").to_vec();
    let known = conditions.iter_mut().find(|one| one.str_at("type") == kind);
    let (reason, message) = explanation;
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
