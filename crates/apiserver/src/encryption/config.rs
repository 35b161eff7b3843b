//! The file of `--encryption-provider-config`: `apiserver.config.k8s.io/v1` EncryptionConfiguration, with upstream's rules.

use super::{
    GroupResource, Rule,
    provider::{Key, Provider},
};
use api::{error::FieldError, path::Path};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;

/// Why the file is not accepted. Not retryable. Never shows a secret.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not YAML, or not of this shape.
    #[error("{0}")]
    Unreadable(String),
    /// Fields that break rules.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    resources: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProvider {
    aesgcm: Option<RawKeys>,
    aescbc: Option<RawKeys>,
    secretbox: Option<RawKeys>,
    identity: Option<Value>,
    kms: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKeys {
    #[serde(default)]
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    name: Option<String>,
    secret: Option<String>,
}

/// Reads the file; every mistake is told.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, ConfigError> {
    // The reader's own message would quote the line, and with it a secret.
    let raw: RawFile = serde_saphyr::from_str(text).map_err(|error| ConfigError::Unreadable(without_source(&error)))?;
    let RawFile { api_version, kind, resources } = raw;
    let mut errors = Vec::new();
    if api_version != "apiserver.config.k8s.io/v1" {
        let accepted = ["apiserver.config.k8s.io/v1"];
        errors.push(FieldError::not_supported(&Path::new("apiVersion"), api_version, &accepted));
    }
    // The second name is that of files from before 1.13.
    if kind != "EncryptionConfiguration" && kind != "EncryptionConfig" {
        errors.push(FieldError::not_supported(&Path::new("kind"), kind, &["EncryptionConfiguration"]));
    }
    let root = Path::new("resources");
    if resources.is_empty() {
        errors.push(FieldError::required(&root, "at least one entry"));
    }
    let rules = resources.into_iter().enumerate().map(|(index, rule)| read_rule(rule, &root.index(index), &mut errors));
    let rules: Vec<Rule> = rules.collect();
    if errors.is_empty() { Ok(rules) } else { Err(ConfigError::Invalid(errors)) }
}

fn without_source(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn read_rule(rule: RawRule, path: &Path, errors: &mut Vec<FieldError>) -> Rule {
    let RawRule { resources, providers } = rule;
    let at = path.child("resources");
    if resources.is_empty() {
        errors.push(FieldError::required(&at, "at least one resource"));
    }
    let parsed: Vec<GroupResource> = resources.iter().map(|text| GroupResource::new(text)).collect();
    overlaps(&at, &resources, &parsed, errors);
    for (index, (text, of)) in resources.iter().zip(&parsed).enumerate() {
        if let Some(problem) = name_problem(text, of) {
            errors.push(FieldError::invalid(&at.index(index), text.as_str(), problem));
        }
    }
    let at = path.child("providers");
    if providers.is_empty() {
        errors.push(FieldError::required(&at, "at least one provider"));
    }
    let providers = providers.into_iter().enumerate();
    let providers = providers.filter_map(|(index, provider)| read_provider(provider, &at.index(index), errors));
    Rule { resources: parsed, providers: providers.collect() }
}

fn overlaps(path: &Path, texts: &[String], parsed: &[GroupResource], errors: &mut Vec<FieldError>) {
    let pairs =
        || parsed.iter().enumerate().flat_map(|(at, one)| parsed[at + 1..].iter().map(move |other| (one, other)));
    if pairs().any(|(one, other)| one == other) {
        errors.push(FieldError::invalid(path, texts, "the same resource stands here twice"));
    }
    let is_all = |of: &GroupResource| of.group == "*" && of.resource == "*";
    let masks = |one: &GroupResource, other: &GroupResource| {
        one != other && (is_all(one) || (one.resource == "*" && one.group == other.group))
    };
    if pairs().any(|(one, other)| masks(one, other) || masks(other, one)) {
        let text = "a resource and a wildcard that contains it cannot stand in one list, such as secrets and *.";
        errors.push(FieldError::invalid(path, texts, text));
    }
}

fn name_problem(text: &str, of: &GroupResource) -> Option<&'static str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some("names of resources have no capital letters");
    }
    if text == "*" {
        return Some("write *. for all resources of the core group, or *.* for all");
    }
    if ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"].contains(&text) {
        return Some("what is no API object cannot be encrypted");
    }
    match of.group.as_str() {
        "events.k8s.io" => Some("events are stored in the core group; write events"),
        "extensions" => Some("the group extensions is gone"),
        "*" if of.resource != "*" => Some("one resource of all groups cannot be named; write RESOURCE.GROUP or *.*"),
        _ => None,
    }
}

fn read_provider(provider: RawProvider, path: &Path, errors: &mut Vec<FieldError>) -> Option<Provider> {
    const KINDS: &str = "one of identity, aescbc, aesgcm, secretbox";
    let RawProvider { aesgcm, aescbc, secretbox, identity, kms } = provider;
    if kms.is_some() {
        let text = "key management services are not built here; aescbc, aesgcm and secretbox are";
        errors.push(FieldError::forbidden(&path.child("kms"), text));
    }
    let ciphers = [("aesgcm", aesgcm), ("aescbc", aescbc), ("secretbox", secretbox)];
    let given = ciphers.iter().filter(|(_, keys)| keys.is_some()).count();
    match given + usize::from(identity.is_some()) + usize::from(kms.is_some()) {
        0 => errors.push(FieldError::required(path, KINDS)),
        1 => {}
        _ => errors.push(FieldError::forbidden(path, format!("more than one provider in one entry; {KINDS}"))),
    }
    if identity.is_some() {
        return Some(Provider::Identity);
    }
    let (kind, keys) = ciphers.into_iter().find_map(|(kind, keys)| Some((kind, keys?)))?;
    let at = path.child(kind).child("keys");
    if keys.keys.is_empty() {
        errors.push(FieldError::required(&at, "at least one key"));
    }
    let keys = keys.keys.iter().enumerate();
    let keys: Vec<Key> = keys.filter_map(|(index, key)| read_key(kind, key, &at.index(index), errors)).collect();
    Some(Provider::Keys { kind, keys })
}

fn read_key(kind: &str, key: &RawKey, path: &Path, errors: &mut Vec<FieldError>) -> Option<Key> {
    let (name, secret) = (key.name.as_deref().unwrap_or_default(), key.secret.as_deref().unwrap_or_default());
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "it tells later which key encrypted a value"));
    }
    let at = path.child("secret");
    let lengths = if kind == "secretbox" { "32" } else { "16, 24 or 32" };
    if secret.is_empty() {
        errors.push(FieldError::required(&at, format!("{lengths} bytes in base64")));
        return None;
    }
    let Ok(secret) = STANDARD.decode(secret) else {
        errors.push(FieldError::invalid(&at, "REDACTED", "must be base64"));
        return None;
    };
    let made = Key::new(kind, name, &secret);
    if made.is_none() {
        let text = format!("must be {lengths} bytes long, is {}", secret.len());
        errors.push(FieldError::invalid(&at, "REDACTED", text));
    }
    made
}
