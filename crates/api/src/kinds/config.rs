//! ConfigMap, Secret and ServiceAccount: keys, sizes, secret types, and what `immutable` forbids.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::{fill, items},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Bytes that the values of one object may have together.
const DATA_MAX: usize = 1024 * 1024;

/// Rules of v1 ConfigMap.
pub(super) struct ConfigMap;

impl Rules for ConfigMap {
    fn validate(&self, map: &Value) -> Errors {
        let mut errors = Errors::new();
        let mut size = 0;
        for field in ["data", "binaryData"] {
            let path = Path::new(field);
            for (key, value) in map.map_at(field).into_iter().flatten() {
                check::all_of(&mut errors, &path.key(key), key, names::data_key(key));
                if field == "data" && map.at("binaryData").get(key).is_some() {
                    errors.push(FieldError::invalid(&path.key(key), key.as_str(), "is in binaryData too; keep one"));
                }
                let text = value.as_str().unwrap_or_default();
                size += if field == "data" { text.len() } else { decoded_len(text) };
            }
        }
        if size > DATA_MAX {
            errors.push(FieldError::too_long(&Path::root(), DATA_MAX));
        }
        errors
    }

    fn validate_update(&self, map: &Value, old: &Value) -> Errors {
        let mut errors = frozen(map, old, &["data", "binaryData"]);
        errors.extend(self.validate(map));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Data", "string", 0, "How many keys it has"), AGE])
    }

    fn cells(&self, map: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let keys = ["data", "binaryData"]
            .iter()
            .filter_map(|field| map.map_at(field))
            .map(serde_json::Map::len)
            .sum::<usize>();
        vec![columns::name(map), keys.into(), columns::age(map, now)]
    }
}

/// Rules of v1 Secret.
pub(super) struct Secret;

impl Rules for Secret {
    fn default(&self, secret: &mut Value) {
        fill(secret, "type", "Opaque");
        // Plain text is a way in, never stored: each key becomes bytes and wins over one of the same name.
        if let Some(Value::Object(plain)) = secret.remove("stringData") {
            for (key, text) in plain {
                if !secret.at("data").is_object() {
                    secret.set("data", json!({}));
                }
                secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
            }
        }
    }

    fn validate(&self, secret: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("data");
        let mut size = 0;
        for (key, value) in secret.map_at("data").into_iter().flatten() {
            check::all_of(&mut errors, &path.key(key), key, names::data_key(key));
            size += decoded_len(value.as_str().unwrap_or_default());
        }
        if size > DATA_MAX {
            errors.push(FieldError::too_long(&path, DATA_MAX));
        }
        by_type(&mut errors, secret);
        errors
    }

    fn validate_update(&self, secret: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        check::immutable(&mut errors, &Path::new("type"), secret.at("type"), old.at("type"));
        errors.extend(frozen(secret, old, &["data"]));
        errors.extend(self.validate(secret));
        errors
    }

    fn warnings(&self, secret: &Value, _old: Option<&Value>) -> Vec<String> {
        if secret.str_at("type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let holds = |key: &str, block: &str| {
            let bytes = secret.at("data").get(key).and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
            bytes.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(block))
        };
        let pair = holds("tls.crt", "-----BEGIN CERTIFICATE-----") && holds("tls.key", "PRIVATE KEY-----");
        let text = "data: tls.crt and tls.key are not a certificate and a private key in PEM";
        if pair { Vec::new() } else { vec![text.to_owned()] }
    }

    fn columns(&self) -> Vec<Column> {
        let data = ("Data", "string", 0, "How many keys it has");
        columns::columns(&[NAME, ("Type", "string", 0, "What the secret is for"), data, AGE])
    }

    fn cells(&self, secret: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let keys = secret.map_at("data").map_or(0, serde_json::Map::len);
        vec![columns::name(secret), secret.at("type").clone(), keys.into(), columns::age(secret, now)]
    }
}

/// Rules of v1 ServiceAccount.
pub(super) struct ServiceAccount;

impl Rules for ServiceAccount {
    fn prepare_create(&self, account: &mut Value) {
        only_names(account);
    }

    fn prepare_update(&self, account: &mut Value, _old: &Value) {
        only_names(account);
    }
}

/// Secrets are referred to by name alone.
fn only_names(account: &mut Value) {
    for secret in items(account, "secrets") {
        *secret = match secret.str_at("name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

/// What an immutable object may not change: its content, and being immutable.
fn frozen(object: &Value, old: &Value, fields: &[&str]) -> Errors {
    const TEXT: &str = "cannot be changed: the object is immutable";
    if !old.is_true("immutable") {
        return Errors::new();
    }
    let mut changed: Vec<&str> = fields.iter().copied().filter(|f| !check::same(object.at(f), old.at(f))).collect();
    if !object.is_true("immutable") {
        changed.insert(0, "immutable");
    }
    changed.into_iter().map(|field| FieldError::forbidden(&Path::new(field), TEXT)).collect()
}

/// The keys that each well-known type must have.
fn by_type(errors: &mut Errors, secret: &Value) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let path = Path::new("data");
    let data = |key: &str| secret.at("data").get(key).and_then(Value::as_str);
    let mut need = |key: &str| errors.push(FieldError::required(&path.key(key), ""));
    match secret.str_at("type") {
        "kubernetes.io/service-account-token" => {
            let account = secret.at("metadata.annotations").get(ACCOUNT).and_then(Value::as_str).unwrap_or_default();
            if account.is_empty() {
                let path = Path::new("metadata").child("annotations").key(ACCOUNT);
                errors.push(FieldError::required(&path, "the name of the service account"));
            }
        }
        "kubernetes.io/dockercfg" => docker_config(errors, ".dockercfg", data(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => docker_config(errors, ".dockerconfigjson", data(".dockerconfigjson")),
        "kubernetes.io/basic-auth" if data("username").is_none() && data("password").is_none() => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if data("ssh-privatekey").unwrap_or_default().is_empty() => need("ssh-privatekey"),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if data(key).is_none() {
                    need(key);
                }
            }
        }
        _ => {}
    }
}

fn docker_config(errors: &mut Errors, key: &str, value: Option<&str>) {
    let path = Path::new("data").key(key);
    let Some(text) = value else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    let read = STANDARD
        .decode(text)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).ok());
    if read.is_none() {
        // The value is a secret: it is not shown.
        errors.push(FieldError::invalid(&path, "<hidden>", "must be a JSON object"));
    }
}

fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2).min(text.len() / 4 * 3)
}
