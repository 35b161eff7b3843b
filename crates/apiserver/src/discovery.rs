//! Discovery: which groups, versions and resources there are, in the old form and the aggregated one.

use crate::{
    ApiServer,
    aggregation::{Group, Remote, Source},
    registry::Registry,
};
use api::resource::{Resource, Scope, Verbs};
use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// `/api`.
pub(crate) fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// `/apis`.
pub(crate) fn groups(groups: &[Group]) -> Value {
    let list: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(one_group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// `/apis/GROUP`.
pub(crate) fn group(groups: &[Group], name: &str) -> Option<Value> {
    let found = groups.iter().find(|group| !name.is_empty() && group.name == name)?;
    let mut value = one_group(found);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn one_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{}/{version}", group.name), "version": version}))
        .collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1`, `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for resource in registry.group(group).filter(|resource| resource.version == version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.scope == Scope::Namespaced,
            "kind": resource.kind, "verbs": resource.verbs.names(),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = resource.short_names.clone().into();
        }
        if !resource.categories.is_empty() {
            entry["categories"] = resource.categories.clone().into();
        }
        if resource.verbs != Verbs::CreateOnly {
            entry["storageVersionHash"] = storage_hash(resource).into();
        }
        list.push(entry);
        for subresource in &resource.subresources {
            let about = resource.shown_subresource(subresource);
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name()), "singularName": "",
                "namespaced": resource.scope == Scope::Namespaced, "kind": about.kind, "verbs": about.verbs,
            });
            if let Some((group, version)) = about.group_version {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            list.push(entry);
        }
    }
    if list.is_empty() {
        return None;
    }
    list.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut value = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    if !group.is_empty() {
        value["apiVersion"] = "v1".into();
    }
    Some(value)
}

/// What clients compare to see whether two resources show the same stored objects.
fn storage_hash(resource: &Resource) -> String {
    let (group, version) = resource.rules.stored_as().unwrap_or((&resource.group, &resource.version));
    let text = format!("{group}/{version}/{}", resource.kind);
    STANDARD.encode(&digest::digest(&digest::SHA256, text.as_bytes()).as_ref()[..8])
}

/// Aggregated discovery: everything of `/api` or `/apis` in one document.
pub(crate) fn aggregated(server: &ApiServer, groups: &[Group], core: bool, form: &str) -> Value {
    let registry = server.registry();
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|Group { name, versions }| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(version, source)| match source {
                    Source::Here => aggregated_version(&registry, name, version),
                    Source::There(remote) => remote_version(server, remote),
                })
                .collect();
            let metadata = if core {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": name, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{form}"), "metadata": {}, "items": items,
    })
}

/// A version that another server answers for; what it did not say is stale.
fn remote_version(server: &ApiServer, remote: &Remote) -> Value {
    let told = server.aggregation.told(remote).and_then(|told| told.resources.clone());
    match told.filter(|_| remote.available) {
        Some(resources) => json!({"version": remote.version, "resources": resources, "freshness": "Current"}),
        None => json!({"version": remote.version, "resources": [], "freshness": "Stale"}),
    }
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let mut list: Vec<Value> = registry
        .group(group)
        .filter(|resource| resource.version == version)
        .map(|resource| {
            let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
            let mut entry = json!({
                "resource": resource.plural, "responseKind": kind(group, version, &resource.kind),
                "scope": if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular, "verbs": resource.verbs.names(),
            });
            if !resource.short_names.is_empty() {
                entry["shortNames"] = resource.short_names.clone().into();
            }
            if !resource.categories.is_empty() {
                entry["categories"] = resource.categories.clone().into();
            }
            let subresources: Vec<Value> = resource
                .subresources
                .iter()
                .map(|subresource| {
                    let about = resource.shown_subresource(subresource);
                    let (group, version) = about.group_version.unwrap_or((group, version));
                    json!({
                        "subresource": subresource.name(), "responseKind": kind(group, version, &about.kind), "verbs": about.verbs,
                    })
                })
                .collect();
            if !subresources.is_empty() {
                entry["subresources"] = subresources.into();
            }
            entry
        })
        .collect();
    list.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    json!({"version": version, "resources": list, "freshness": "Current"})
}
