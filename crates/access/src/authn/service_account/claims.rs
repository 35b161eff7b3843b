//! What a service account token says. Layout as upstream: the standard claims and, under `kubernetes.io`, the account and
//! the object the token dies with.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

/// All claims, in the order upstream writes them.
#[derive(Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(default, deserialize_with = "one_or_many")]
    pub(super) aud: Vec<String>,
    pub(super) exp: Number,
    pub(super) iat: Option<Number>,
    pub(super) iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Private,
    pub(super) nbf: Option<Number>,
    pub(super) sub: String,
}

/// The claims of Kubernetes.
#[derive(Serialize, Deserialize)]
pub(super) struct Private {
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Ref>,
    pub(super) serviceaccount: Ref,
    /// When a token that outlives what was asked for should have been renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) warnafter: Option<Number>,
}

/// One incarnation of an object.
#[derive(Serialize, Deserialize)]
pub(super) struct Ref {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

/// A claim of the issuer alone, read before the signature is checked to tell whose token it is.
#[derive(Deserialize)]
pub(super) struct Issuer {
    pub(super) iss: String,
}

/// Whole seconds; JWT allows fractions.
pub(in crate::authn) fn seconds(number: &Number) -> i64 {
    // A float cast saturates, so that an absurd date is far in the past or the future.
    #[allow(clippy::cast_possible_truncation)]
    number.as_i64().unwrap_or_else(|| number.as_f64().map_or(i64::MIN, |float| float as i64))
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}
