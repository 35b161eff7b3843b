//! Service account tokens: issued, bound, expiring, checked, and the documents others need to check them.
//!
//! `issue` answers TokenRequests, `verify` checks bearer tokens, `keys` reads PEM. JWTs are written by hand: one header, two
//! algorithms, no options to get wrong.

mod claims;
mod issue;
mod jws;
mod keys;
mod signatures;
#[cfg(test)]
mod tests;
mod verify;

pub use issue::{Asked, Issued, Issuer};
pub use keys::{Algorithm, KeyError, PublicKey, SigningKey};
pub use verify::{TokenError, Verified, Verifier};

pub(super) use claims::seconds;

use serde_json::{Value, json};
use std::sync::Arc;

/// Kinds that tokens hang on and that node rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// core/v1 ServiceAccount.
    ServiceAccount,
    /// core/v1 Pod.
    Pod,
    /// core/v1 Secret.
    Secret,
    /// core/v1 Node; its namespace is empty.
    Node,
}

/// Looks objects up; the engine answers from its cache.
pub trait Objects: Send + Sync {
    /// The object as it is now.
    fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>>;
}

/// Flags of the API server about tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--service-account-issuer`, the first: new tokens carry it.
    pub issuer: String,
    /// Further values of the flag: their tokens are still accepted.
    pub other_issuers: Vec<String>,
    /// `--api-audiences`; not empty. The issuer when the flag is not given.
    pub audiences: Vec<String>,
    /// `--service-account-max-token-expiration` in seconds.
    pub max_expiration: Option<i64>,
    /// `--service-account-extend-token-expiration`: tokens that admission puts into pods live for a year, so that programs
    /// which read theirs only once go on working. Such a token still dies with its pod.
    pub extend_expiration: bool,
}

impl Settings {
    /// One issuer that is its own audience.
    pub fn new(issuer: impl Into<String>) -> Self {
        let issuer = issuer.into();
        Self {
            audiences: vec![issuer.clone()],
            issuer,
            other_issuers: Vec::new(),
            max_expiration: None,
            extend_expiration: true,
        }
    }

    /// Every issuer whose tokens are accepted.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.issuer.as_str()).chain(self.other_issuers.iter().map(String::as_str))
    }
}

/// The key set.
pub fn jwks(keys: &[PublicKey]) -> Value {
    json!({"keys": keys.iter().map(PublicKey::jwk).collect::<Vec<_>>()})
}

/// The OpenID configuration; `jwks_uri` is where clients outside find the key set.
pub fn openid_configuration(settings: &Settings, jwks_uri: &str, keys: &[PublicKey]) -> Value {
    let algorithms: std::collections::BTreeSet<_> = keys.iter().map(|key| key.algorithm().name()).collect();
    json!({
        "issuer": settings.issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}
