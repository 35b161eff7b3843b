//! What has to be done about a definition: decided from ours and the one that is there. Pure.

use super::{MANAGER, RELEASE};
use crate::operator::{contains, fingerprint};
use serde_json::{Value, json};

/// A fingerprint of what a definition was made from, so that what is wanted no more goes as well.
const MADE_FROM: &str = "twinstack.dev/made-from";
/// Who wrote definitions before they were marked with their release.
const EARLIER_MANAGERS: [&str; 3] = ["dns-operator", "twinstack-ingress-operator", "twinstack-init"];

/// What has to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Create(Value),
    Replace(Value),
    /// It is as it should be.
    Keep,
    /// It is not, and it is not ours.
    Foreign,
    /// It is of a newer release, which may lack a version that is needed here.
    Newer {
        found: String,
        missing: Option<String>,
    },
}

pub(super) fn step(ours: &Value, live: Option<&Value>, release: &str) -> Step {
    let Some(live) = live else { return Step::Create(marked(ours.clone(), release)) };
    let found = live["metadata"]["annotations"][RELEASE].as_str();
    if let Some(found) = found.filter(|found| numbers(found) > numbers(release)) {
        return Step::Newer { found: found.to_owned(), missing: missing(ours, live) };
    }
    let mut new = merged(ours, live);
    mark(&mut new, ours, release);
    match contains(live, &new) {
        true => Step::Keep,
        false if found.is_some() || is_of_earlier_release(live) => Step::Replace(new),
        // Marks alone are no difference.
        false if contains(live, &merged(ours, live)) => Step::Keep,
        false => Step::Foreign,
    }
}

/// A definition as a release makes it.
#[must_use]
pub fn marked(mut definition: Value, release: &str) -> Value {
    let ours = definition.clone();
    mark(&mut definition, &ours, release);
    definition
}

fn mark(definition: &mut Value, ours: &Value, release: &str) {
    let annotations = &mut definition["metadata"]["annotations"];
    annotations[RELEASE] = json!(release);
    annotations[MADE_FROM] = json!(fingerprint(ours));
}

/// The live definition with what ours says. How versions are converted, and versions that objects are stored in, stay.
fn merged(ours: &Value, live: &Value) -> Value {
    let mut new = live.clone();
    for (field, value) in ours["spec"].as_object().into_iter().flatten() {
        if field != "conversion" || new["spec"][field].is_null() {
            new["spec"][field] = value.clone();
        }
    }
    let is_ours = |version: &Value| versions(ours).any(|known| known["name"] == version["name"]);
    let stored = live["status"]["storedVersions"].as_array();
    let is_stored = |version: &Value| stored.into_iter().flatten().any(|name| *name == version["name"]);
    let kept: Vec<Value> = versions(live).filter(|version| !is_ours(version) && is_stored(version)).cloned().collect();
    if let Some(all) = new["spec"]["versions"].as_array_mut() {
        all.extend(kept.into_iter().map(|mut version| {
            version["storage"] = json!(false);
            version
        }));
    }
    new
}

/// A version that ours serves and the live one does not.
fn missing(ours: &Value, live: &Value) -> Option<String> {
    let serves = |version: &&Value| version["served"] == true;
    let is_there = |name: &Value| versions(live).filter(serves).any(|known| known["name"] == *name);
    let gone = versions(ours).filter(serves).find(|version| !is_there(&version["name"]))?;
    Some(gone["name"].as_str().unwrap_or_default().to_owned())
}

/// Releases did not mark what they made at first; who wrote its spec tells.
fn is_of_earlier_release(live: &Value) -> bool {
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.filter(|entry| !entry["fieldsV1"]["f:spec"].is_null()).any(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        EARLIER_MANAGERS.contains(&manager) || manager == MANAGER
    })
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

/// `0.10.2` is newer than `0.9`.
fn numbers(release: &str) -> Vec<u64> {
    release.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.b"}, "spec": {
            "group": "b", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"properties": {"new": {}}}}}]}})
    }

    /// As an earlier release left it, and as the API and others have added to it.
    fn older(manager: &str, marks: Value) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.b", "resourceVersion": "7", "annotations": marks, "labels": {"theirs": "1"},
                "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:group": {}}}}]},
            "spec": {"group": "b", "scope": "Cluster", "names": {"plural": "as", "kind": "A", "singular": "a", "listKind": "AList"},
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "Q0E="}}},
                "versions": [
                    {"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"properties": {"old": {}}}}},
                    {"name": "v1alpha1", "served": true, "storage": true, "schema": {}}, {"name": "v0", "served": false, "storage": false}]},
            "status": {"storedVersions": ["v1alpha1"]}})
    }

    #[test]
    fn what_is_missing_is_made_with_its_release() {
        let Step::Create(new) = step(&ours(), None, "0.2.0") else { panic!("it is made") };
        assert_eq!(new["metadata"]["annotations"][RELEASE], "0.2.0");
        assert_eq!(step(&ours(), Some(&new), "0.2.0"), Step::Keep);
    }

    #[test]
    fn an_older_one_is_brought_up_to_date_and_what_others_own_stays() {
        let marked = older("kubectl", json!({RELEASE: "0.1.9"}));
        for live in [older("dns-operator", json!(null)), older("twinstack-init", json!({"a": "b"})), marked] {
            let Step::Replace(new) = step(&ours(), Some(&live), "0.2.0") else { panic!("{live}") };
            let names: Vec<&Value> = versions(&new).map(|version| &version["name"]).collect();
            assert_eq!(names, ["v1", "v1alpha1"], "objects are stored in the second, in the third they are not");
            assert_eq!(new["spec"]["versions"][0], ours()["spec"]["versions"][0]);
            assert_eq!(new["spec"]["versions"][1]["storage"], false);
            for kept in ["/spec/conversion", "/metadata/labels", "/metadata/resourceVersion", "/status"] {
                assert_eq!(new.pointer(kept), live.pointer(kept), "{kept}");
            }
            assert_eq!(step(&ours(), Some(&new), "0.2.0"), Step::Keep);
            assert!(matches!(step(&ours(), Some(&new), "0.2.1"), Step::Replace(_)), "the mark follows the release");
        }
    }

    #[test]
    fn what_is_wanted_no_more_goes() {
        let Step::Create(mut live) = step(&ours(), None, "0.2.0") else { panic!("it is made") };
        live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = json!({});
        assert_eq!(step(&ours(), Some(&live), "0.2.0"), Step::Keep, "an addition of somebody else's stays");
        let mut wider = ours();
        wider["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = json!({});
        let Step::Create(live) = step(&wider, None, "0.2.0") else { panic!("it is made") };
        let Step::Replace(new) = step(&ours(), Some(&live), "0.2.0") else { panic!("it is narrowed") };
        assert_eq!(new["spec"]["versions"], ours()["spec"]["versions"]);
    }

    #[test]
    fn a_newer_one_and_a_foreign_one_stay() {
        let mut newer = older("kubectl", json!({RELEASE: "0.10.0"}));
        assert_eq!(step(&ours(), Some(&newer), "0.9.0"), Step::Newer { found: "0.10.0".to_owned(), missing: None });
        newer["spec"]["versions"][0]["served"] = json!(false);
        let missing = Some("v1".to_owned());
        assert_eq!(step(&ours(), Some(&newer), "0.9.0"), Step::Newer { found: "0.10.0".to_owned(), missing });
        assert_eq!(step(&ours(), Some(&older("cluster-version-operator", json!(null))), "0.9.0"), Step::Foreign);
        let mut same = ours();
        same["metadata"]["managedFields"] = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
        assert_eq!(step(&ours(), Some(&same), "0.9.0"), Step::Keep);
    }
}
