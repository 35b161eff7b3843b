//! Which signatures `cluster-info` should carry, and when tokens end. Pure.

use api::bootstrap_token::{BootstrapToken, Expiration, expiration};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use runtime::pki::detached_signature;
use std::{collections::BTreeMap, time::Duration};

/// Signatures stand beside the text that they sign.
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";
const SIGNED: &str = "kubeconfig";

/// What has to change in the map: a signature for each token that signs, none for others. Nothing when all is well.
#[must_use]
pub fn signatures(map: &ConfigMap, tokens: &[&Secret], now: Timestamp) -> BTreeMap<String, Option<String>> {
    let mut changes = BTreeMap::new();
    let data = map.data.clone().unwrap_or_default();
    let Some(content) = data.get(SIGNED) else { return changes };
    for secret in tokens {
        let token = BootstrapToken::read(secret.metadata.name.as_deref().unwrap_or_default(), |key| text(secret, key));
        let Some(token) = token.filter(|token| token.signs && !token.has_expired(now)) else { continue };
        let signature = detached_signature(content, &token.id, &token.secret);
        changes.insert(format!("{SIGNATURE_PREFIX}{}", token.id), Some(signature));
    }
    for key in data.keys().filter(|key| key.starts_with(SIGNATURE_PREFIX)) {
        changes.entry(key.clone()).or_insert(None);
    }
    changes.retain(|key, signature| data.get(key) != signature.as_ref());
    changes
}

/// How long until the first token ends that has not.
#[must_use]
pub fn next_end(tokens: &[&Secret], now: Timestamp) -> Option<Duration> {
    tokens.iter().filter_map(|secret| left(secret, now)).filter(|left| *left > Duration::ZERO).min()
}

/// How long a token has; none for one that does not end.
#[must_use]
pub fn left(secret: &Secret, now: Timestamp) -> Option<Duration> {
    match expiration(&text(secret, "expiration").unwrap_or_default()) {
        Expiration::Never => None,
        Expiration::Unreadable => Some(Duration::ZERO),
        Expiration::At(end) => Some(Duration::try_from(end.duration_since(now)).unwrap_or_default()),
    }
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}
