//! Ownership of the number of replicas through the `scale` subresource.
//!
//! Called by the engine around reads and writes of `scale`: the Scale object shows who owns `spec.replicas` in its own
//! terms, and a write through it moves that ownership in the parent. Mirrors apimachinery's scale handler.

use super::{
    managed::{Managed, Manager, Owned},
    path::Step,
    set::FieldSet,
};
use serde_json::Value;
use std::collections::BTreeMap;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where a kind keeps its number of replicas.
pub struct Scale<'a> {
    /// The version of the parent, as `group/version`.
    pub api_version: &'a str,
    /// All versions of the parent; entries of others are dropped.
    pub versions: &'a [&'a str],
    /// Dotted path of the number in the parent, such as `spec.replicas`.
    pub replicas: &'a str,
}

impl Scale<'_> {
    fn path(&self) -> Vec<Step> {
        self.replicas.split('.').map(Step::field).collect()
    }

    /// Writes into a Scale object the entries of those who own the number in its parent.
    pub fn show(&self, parent: &Value, scale: &mut Value) {
        let path = self.path();
        let owners = Managed::of(parent)
            .0
            .into_iter()
            .filter(|(_, owned)| self.versions.contains(&owned.api_version.as_str()) && owned.fields.has(&path));
        let shown = owners.map(|(manager, owned)| {
            let fields = FieldSet::of(&["spec.replicas"]);
            (manager, Owned::new(SCALE_VERSION, fields, owned.time))
        });
        Managed(shown.collect()).write(scale, Vec::new());
    }

    /// Writes into the parent (already scaled, with its old entries) what the entries of the written Scale object mean.
    pub fn settle(&self, scale: &Value, parent: &mut Value) {
        let path = self.path();
        let number = FieldSet::of(&[self.replicas]);
        let entries = Managed::take_entries(parent);
        let before = Managed::read(&entries).unwrap_or_default().0;
        let writers = Managed::of(scale).0.into_iter();
        let mut writers: BTreeMap<Manager, Owned> =
            writers.map(|(manager, owned)| (manager.at_version(self.api_version), owned)).collect();
        let mut after: BTreeMap<Manager, Owned> = BTreeMap::new();
        for (manager, mut owned) in before {
            if !self.versions.contains(&owned.api_version.as_str()) {
                continue;
            }
            if owned.fields.has(&path) && writers.remove(&manager).is_none() {
                owned.lose(&number);
            }
            if !owned.fields.is_empty() {
                after.insert(manager, owned);
            }
        }
        for (manager, owned) in writers {
            if owned.fields.has(&[Step::field("spec"), Step::field("replicas")]) {
                // A new owner has no time, as upstream leaves it: its entry is listed first.
                after.insert(manager, Owned::new(self.api_version, number.clone(), None));
            }
        }
        Managed(after).write(parent, entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, api_version: &str, subresource: Option<&str>, fields: &Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": "Update", "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2030-01-01T00:00:00Z",
        });
        if let Some(subresource) = subresource {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    #[test]
    fn who_scales_owns_the_number_and_who_did_before_keeps_the_rest() {
        let rule = Scale { api_version: "apps/v1", versions: &["apps/v1"], replicas: "spec.replicas" };
        let number = json!({"f:spec": {"f:replicas": {}}});
        let both = json!({"f:spec": {"f:paused": {}, "f:replicas": {}}});
        let parent = json!({"metadata": {"managedFields": [
            entry("gone", "apps/v0", None, &number),
            entry("maker", "apps/v1", None, &both),
            entry("other", "apps/v1", None, &json!({"f:metadata": {"f:labels": {}}})),
        ]}});
        let mut shown = json!({});
        rule.show(&parent, &mut shown);
        assert_eq!(shown["metadata"]["managedFields"], json!([entry("maker", "autoscaling/v1", None, &number)]));

        let mut unchanged = parent.clone();
        rule.settle(&shown, &mut unchanged);
        let mut expected = parent.clone();
        expected["metadata"]["managedFields"].as_array_mut().unwrap().remove(0);
        assert_eq!(unchanged, expected, "the version that is gone is dropped, nothing else changes");

        let mut scaled = parent;
        let written =
            json!({"metadata": {"managedFields": [entry("scaler", "autoscaling/v1", Some("scale"), &number)]}});
        rule.settle(&written, &mut scaled);
        let mut first = entry("scaler", "apps/v1", Some("scale"), &number);
        first.as_object_mut().unwrap().remove("time");
        let entries = &scaled["metadata"]["managedFields"];
        assert_eq!(entries[0], first);
        assert_eq!(entries[1]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
    }
}
