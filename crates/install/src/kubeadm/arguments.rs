//! Arguments that a file adds to components: a mapping in `v1beta3`, a list since `v1beta4`, with ways to merge in `v1`.

use super::Version;
use crate::{
    KnownFlags,
    cluster::{Arg, Merge},
    fields::{Fields, Unknown, scalar, shown},
    notes::Notes,
};
use api::path::Path as Field;
use runtime::suggest;
use serde_json::Value;
use std::collections::BTreeMap;

/// The arguments in the field `name`.
pub(super) fn read(fields: &mut Fields<'_>, name: &'static str, version: Version, notes: &mut Notes) -> Vec<Arg> {
    let path = fields.child(name);
    match (version, fields.value(name)) {
        (_, None) => Vec::new(),
        (Version::V1Beta3, Some(Value::Object(map))) => {
            let entries = map.iter().filter_map(|(name, value)| match scalar(value) {
                Some(value) => Some(Arg { name: name.clone(), value, merge: Merge::Replace }),
                None => {
                    notes.wrong(&path.key(name), shown(value), "is not a text");
                    None
                }
            });
            entries.collect()
        }
        (Version::V1Beta3, Some(other)) => {
            notes.wrong(&path, shown(other), "is not a mapping, which v1beta3 has here; a list needs v1beta4");
            Vec::new()
        }
        (_, Some(Value::Object(_))) => {
            notes.refused(
                &path,
                "is a mapping, as in v1beta3; since v1beta4 it is a list: - {name: NAME, value: VALUE}",
            );
            Vec::new()
        }
        (_, Some(_)) => {
            let items = fields.list(name, notes);
            items.into_iter().filter_map(|(path, item)| one(path, item, version, notes)).collect()
        }
    }
}

fn one(path: Field, item: &Value, version: Version, notes: &mut Notes) -> Option<Arg> {
    let mut fields = Fields::new(path, Some(item), Unknown::Mistake, notes);
    let name = fields.text("name", notes);
    // An argument may well be empty: `--enable-admission-plugins=`.
    let value = fields.text("value", notes).unwrap_or_default();
    let merge = match version {
        Version::V1 => fields.text("mergeMethod", notes),
        Version::V1Beta3 | Version::V1Beta4 => None,
    };
    let merge = match merge.as_deref() {
        None => Merge::Replace,
        Some("append") => Merge::Append,
        Some("prepend") => Merge::Prepend,
        Some(other) => {
            notes.wrong(&fields.child("mergeMethod"), other, "is no way to merge; accepted: append, prepend");
            Merge::Replace
        }
    };
    let problem = match name.as_deref() {
        None => Some("must be given"),
        Some(name) if name.starts_with('-') => Some("begins with a dash; give the name without dashes"),
        Some(name) if name.contains(['=', ' ', '\n']) => Some("is no name of a flag"),
        Some(_) => None,
    };
    if let Some(problem) = problem {
        match &name {
            Some(name) => notes.wrong(&fields.child("name"), name, problem),
            None if fields.given() => notes.refused(&fields.child("name"), problem),
            None => {}
        }
    }
    fields.end(notes);
    name.filter(|_| problem.is_none()).map(|name| Arg { name, value, merge })
}

/// The last value given for a flag.
pub(super) fn last<'a>(args: &'a BTreeMap<&'static str, Vec<Arg>>, component: &str, name: &str) -> Option<&'a str> {
    args.get(component)?.iter().rev().find(|arg| arg.name == name).map(|arg| arg.value.as_str())
}

/// What has a field of its own must stand there, and what a component does not have is left out, so that it starts.
pub(super) fn check(args: &mut BTreeMap<&'static str, Vec<Arg>>, known: KnownFlags<'_>, notes: &mut Notes) {
    const SERVER_FIELDS: &[(&str, &str)] = &[
        ("service-cluster-ip-range", "networking.serviceSubnet"),
        ("advertise-address", "localAPIEndpoint.advertiseAddress"),
        ("secure-port", "localAPIEndpoint.bindPort"),
    ];
    for (component, section, name, fields, known) in [
        ("apiserver", "apiServer", "API server", SERVER_FIELDS, known.api_server),
        ("controller-manager", "controllerManager", "controller manager", &[], known.controller_manager),
    ] {
        let Some(given) = args.get_mut(component) else { continue };
        let field = Field::new("ClusterConfiguration").child(section).child("extraArgs");
        given.retain(|arg| {
            let field = field.key(&arg.name);
            if let Some((_, own)) = fields.iter().find(|(name, _)| *name == arg.name) {
                notes.wrong(&field, &arg.value, format!("has a field of its own; set {own} instead"));
                return false;
            }
            let is_known = known.contains(&arg.name.as_str());
            if !is_known {
                let near = suggest::nearest(&arg.name, known.iter().copied());
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                notes.warn(&field, format!("the {name} has no such flag, so it is left out{near}"));
            }
            is_known
        });
    }
}
