//! What admission adds to Pods, in upstream's order: amounts of resources, a service account with its token, a priority,
//! tolerations for short node trouble, what a runtime class costs.

use super::{limit_ranger, priority, runtime_class};
use crate::{call::Call, stored, verbs::create::random_suffix};
use api::{error::ApiError, object::Fields};
use serde_json::{Value, json};

/// Where the service account's credentials appear in a container.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A bound token lives this long: an hour and a little, so that hourly rotation is never late.
const TOKEN_SECONDS: i64 = 3607;
/// How long a Pod stays on a node that is not ready or not reachable.
const NODE_TROUBLE_SECONDS: i64 = 300;

/// A new Pod.
pub(super) async fn create(call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    limit_ranger::fill_in(call, pod).await?;
    if call.server.config.admission.service_account {
        service_account(call, pod)?;
    }
    priority::admit(call, pod).await?;
    tolerations(pod);
    runtime_class::apply(call, pod)
}

/// A changed one: tolerations may be added again by clients that replace the list, and what `create` computed stays when a
/// client sends the pod as it wrote it.
pub(super) fn update(pod: &mut Value, old: &Value) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if !old.at(path).is_null() {
            pod.set_default(path, old.at(path).clone());
        }
    }
    if pod.at("spec.tolerations") != old.at("spec.tolerations") {
        tolerations(pod);
    }
}

fn tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = pod.list_at("spec.tolerations").iter().any(|toleration| {
            let of = |field: &str| toleration.str_at(field);
            (of("key") == key || of("key").is_empty()) && (of("effect") == "NoExecute" || of("effect").is_empty())
        });
        if !covered {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_TROUBLE_SECONDS});
            push(pod.at_mut("spec.tolerations"), toleration);
        }
    }
}

fn service_account(call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    // Mirror pods are shown, not run, by the API.
    if !pod.at("metadata.annotations").at_key("kubernetes.io/config.mirror").is_null() {
        return Ok(());
    }
    if pod.str_at("spec.serviceAccountName").is_empty() {
        pod.set("spec.serviceAccountName", "default");
        pod.set("spec.serviceAccount", "default");
    }
    let name = pod.str_at("spec.serviceAccountName").to_owned();
    let namespace = &call.request.namespace;
    let key = format!("serviceaccounts/{namespace}/{name}");
    let Some(entry) = call.server.store.get(&key) else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
        return Err(ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why));
    };
    let account = stored::parse(&entry)?;
    if pod.list_at("spec.imagePullSecrets").is_empty() && !account.list_at("imagePullSecrets").is_empty() {
        pod.set("spec.imagePullSecrets", account.at("imagePullSecrets").clone());
    }
    let mounts = match pod.at("spec.automountServiceAccountToken").as_bool() {
        Some(automount) => automount,
        None => account.at("automountServiceAccountToken").as_bool().unwrap_or(true),
    };
    if mounts {
        mount_token(pod);
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let existing = pod.list_at("spec.volumes").iter().map(|volume| volume.str_at("name"));
    let found = existing.filter(|name| name.starts_with("kube-api-access-")).map(str::to_owned).next();
    let volume = found.unwrap_or_else(|| format!("kube-api-access-{}", random_suffix()));
    let mut used = false;
    for list in ["spec.initContainers", "spec.containers"] {
        for container in pod.at_mut(list).as_array_mut().into_iter().flatten() {
            let mounted =
                container.list_at("volumeMounts").iter().any(|mount| mount.str_at("mountPath") == TOKEN_FOLDER);
            if !mounted {
                used = true;
                push(
                    container.at_mut("volumeMounts"),
                    json!({"name": volume, "readOnly": true, "mountPath": TOKEN_FOLDER}),
                );
            }
        }
        if pod.at(list).is_null() {
            pod.remove(list);
        }
    }
    let there = pod.list_at("spec.volumes").iter().any(|known| known.str_at("name") == volume);
    if used && !there {
        push(pod.at_mut("spec.volumes"), token_volume(&volume));
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// Keys with dots in them, which dotted paths cannot name.
trait Keyed {
    fn at_key(&self, key: &str) -> &Value;
}

impl Keyed for Value {
    fn at_key(&self, key: &str) -> &Value {
        static NULL: Value = Value::Null;
        self.get(key).unwrap_or(&NULL)
    }
}
