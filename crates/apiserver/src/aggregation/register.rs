//! The APIServices of what this server itself answers for: written when they are missing, taken away when their group goes.
//! Mirrors the autoregister and crdregistration controllers; what somebody else wrote is left alone.

use crate::registry::Registry;
use api::{
    kinds::api_service::{AUTOMANAGED, GROUP, local_priorities},
    object::Fields,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What has to be written.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    Create(Value),
    Update(Value),
    Delete(String),
}

/// When the server looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// What is built in is put right.
    Start,
    /// What came from definitions is.
    Later,
}

/// What has to change so that the stored objects name what is served.
pub(super) fn plan(registry: &Registry, stored: &[Value], occasion: Occasion) -> Vec<Change> {
    let wanted = wanted(registry);
    let known: BTreeMap<&str, &Value> = stored.iter().map(|object| (object.str_at("metadata.name"), object)).collect();
    let mut changes = Vec::new();
    for (name, object) in &wanted {
        let Some(known) = known.get(name.as_str()) else {
            changes.push(Change::Create(object.clone()));
            continue;
        };
        let managed = managed(known);
        let puts_right = managed == "true" || (managed == "onstart" && occasion == Occasion::Start);
        let same = known.at("spec") == object.at("spec") && managed == self::managed(object);
        if puts_right && !same {
            let mut changed = (*known).clone();
            changed.set("spec", object.at("spec").clone());
            changed["metadata"]["labels"][AUTOMANAGED] = self::managed(object).into();
            changes.push(Change::Update(changed));
        }
    }
    let gone = known.iter().filter(|(name, object)| !managed(object).is_empty() && !wanted.contains_key(**name));
    changes.extend(gone.map(|(name, _)| Change::Delete((*name).to_owned())));
    changes
}

fn managed(object: &Value) -> &str {
    object.at("metadata.labels").get(AUTOMANAGED).and_then(Value::as_str).unwrap_or_default()
}

fn wanted(registry: &Registry) -> BTreeMap<String, Value> {
    let served: BTreeSet<(&str, &str, bool)> = registry
        .iter()
        .filter(|resource| resource.group != GROUP)
        .map(|resource| (resource.group.as_str(), resource.version.as_str(), resource.custom))
        .collect();
    let mut wanted = BTreeMap::new();
    for (group, version, custom) in served {
        let (of_group, of_version) = local_priorities(group, version);
        let mut spec = json!({"version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version});
        if !group.is_empty() {
            spec["group"] = group.into();
        }
        let name = format!("{version}.{group}");
        // Built-in comes first; a definition may add to its group.
        wanted.entry(name.clone()).or_insert_with(|| {
            json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
                "metadata": {"name": name, "labels": {AUTOMANAGED: if custom { "true" } else { "onstart" }}},
                "spec": spec,
            })
        });
    }
    wanted
}
