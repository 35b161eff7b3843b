//! The compact JSON Web Signature of a token: three base64url parts. Nothing in here is trusted before `verified_by`.

use super::keys::{KeyError, PublicKey, SigningKey};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use serde::Deserialize;
use serde_json::{Value, json};

/// Longer text is no token of ours; upstream's are below 2 kB, headers end at 16 kB or so anyway.
const LONGEST: usize = 64 * 1024;

/// A token taken apart, its signature not yet checked.
pub(super) struct Unverified<'a> {
    header: Header,
    signed: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions a reader must understand; we understand none.
    crit: Option<Value>,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart; none if it is no compact JWS.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: serde_json::from_slice(&decode(header)?).ok()?,
            signed,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }

    /// The claims as text. Untrusted until `verified_by` says so.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The keys that may have signed it: the one it names, or all when it names none.
    pub(super) fn candidates<'k>(&self, keys: &'k [PublicKey]) -> Vec<&'k PublicKey> {
        keys.iter().filter(|key| self.header.kid.is_empty() || key.id() == self.header.kid).collect()
    }

    /// Whether `key` signed it. The algorithm is the key's; a header that says otherwise (`none`, `HS256`) never passes.
    pub(super) fn verified_by(&self, key: &PublicKey) -> bool {
        self.header.crit.is_none()
            && self.header.alg == key.algorithm().name()
            && key.verifies(self.signed.as_bytes(), &self.signature)
    }
}

pub(super) fn sign(key: &SigningKey, claims: &impl serde::Serialize) -> Result<String, KeyError> {
    let header = json!({"alg": key.public().algorithm().name(), "kid": key.public().id()});
    let payload = serde_json::to_vec(claims).map_err(|_| KeyError::Sign)?;
    let signed =
        format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()), BASE64_URL_SAFE_NO_PAD.encode(payload));
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}
