//! Checks service account tokens: issuer, signature, time, audience, and that the account and the object the token is bound
//! to still live. Called by `Authenticator`.

use super::{
    ObjectKind, Objects, Settings,
    claims::{Claims, Issuer, Private, Ref, seconds},
    jws::Unverified,
    keys::PublicKey,
    signatures::Signatures,
};
use crate::authn::user::{CREDENTIAL_ID, User, service_account_name};
use api::object::Fields;
use jiff::Timestamp;

/// Clocks may differ by this much; upstream's library allows the same minute.
const LEEWAY: i64 = 60;

/// Why a token of ours is refused. The client sees 401 and nothing more; a TokenReview shows this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No key of that name.
    #[error("invalid signature, no keys found")]
    UnknownKey,
    /// No key signed it, or the algorithm is not the key's.
    #[error("invalid signature")]
    Signature,
    /// Signed, but without the claims every token has.
    #[error("service account token lacks claims")]
    Claims,
    /// `exp` has passed.
    #[error("service account token has expired")]
    Expired,
    /// `nbf` has not come.
    #[error("service account token is not valid yet")]
    NotYet,
    /// `iat` has not come.
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    /// Made for somebody else.
    #[error("token audiences {has:?} is invalid for the target audiences {wanted:?}")]
    Audience {
        /// Whom it is for.
        has: Vec<String>,
        /// Who reads it.
        wanted: Vec<String>,
    },
    /// The account is gone or has been made anew.
    #[error("service account {0} has been deleted")]
    AccountGone(String),
    /// The object it was bound to is gone or has been made anew.
    #[error("service account token has been invalidated")]
    BoundObjectGone,
}

/// Who a token is and for which of the wanted audiences it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The service account, with pod, node and credential in `extra`.
    pub user: User,
    /// The audiences in common.
    pub audiences: Vec<String>,
}

/// Checks tokens against any of several keys and issuers.
#[derive(Debug)]
pub struct Verifier {
    issuers: Vec<String>,
    audiences: Vec<String>,
    keys: Vec<PublicKey>,
    signatures: Signatures,
}

impl Verifier {
    /// A verifier for tokens of these issuers, signed by any of these keys.
    pub fn new(settings: &Settings, keys: Vec<PublicKey>) -> Self {
        let issuers = settings.issuers().map(str::to_owned).collect();
        Self { issuers, audiences: settings.audiences.clone(), keys, signatures: Signatures::default() }
    }

    /// The keys, for the JWKS document.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Checks a token. None when it is no token of our issuers, so that others may know it. `wanted` are the audiences of
    /// the reader; empty means the API server's own.
    pub fn verify(
        &self,
        token: &str,
        wanted: &[String],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Option<Verified>, TokenError> {
        let Some(claims) = self.signatures.claims(token, || self.signed_claims(token))? else { return Ok(None) };
        let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
        let audiences: Vec<String> = claims.aud.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience { has: claims.aud.clone(), wanted: wanted.to_vec() });
        }
        in_time(&claims, now.as_second())?;
        Ok(Some(Verified { user: live_user(&claims, objects, now)?, audiences }))
    }

    /// The claims of a token that one of our keys has signed for one of our issuers; none when the issuer is not ours.
    fn signed_claims(&self, token: &str) -> Result<Option<Claims>, TokenError> {
        let Some(unverified) = Unverified::parse(token) else { return Ok(None) };
        match serde_json::from_slice::<Issuer>(unverified.payload()) {
            Ok(Issuer { iss }) if self.issuers.contains(&iss) => {}
            _ => return Ok(None),
        }
        let candidates = unverified.candidates(&self.keys);
        if candidates.is_empty() {
            return Err(TokenError::UnknownKey);
        }
        if !candidates.into_iter().any(|key| unverified.verified_by(key)) {
            return Err(TokenError::Signature);
        }
        let claims: Claims = serde_json::from_slice(unverified.payload()).map_err(|_| TokenError::Claims)?;
        let Private { namespace, serviceaccount, .. } = &claims.kubernetes;
        match claims.sub == service_account_name(namespace, &serviceaccount.name) {
            true => Ok(Some(claims)),
            false => Err(TokenError::Claims),
        }
    }
}

fn in_time(claims: &Claims, now: i64) -> Result<(), TokenError> {
    if now.saturating_sub(LEEWAY) > seconds(&claims.exp) {
        return Err(TokenError::Expired);
    }
    let future = |date: &Option<_>| date.as_ref().is_some_and(|date| now.saturating_add(LEEWAY) < seconds(date));
    if future(&claims.nbf) {
        return Err(TokenError::NotYet);
    }
    if future(&claims.iat) {
        return Err(TokenError::IssuedInFuture);
    }
    Ok(())
}

/// The user, provided that everything the token hangs on is still there.
fn live_user(claims: &Claims, objects: &dyn Objects, now: Timestamp) -> Result<User, TokenError> {
    let Claims { jti, kubernetes: Private { namespace, node, pod, secret, serviceaccount, warnafter }, .. } = claims;
    let lives = |kind, namespace: &str, wanted: &Ref| {
        let object = objects.get(kind, namespace, &wanted.name);
        object.is_some_and(|object| object.str_at("metadata.uid") == wanted.uid && !deleted_before(&object, now))
    };
    if !lives(ObjectKind::ServiceAccount, namespace, serviceaccount) {
        return Err(TokenError::AccountGone(format!("{namespace}/{}", serviceaccount.name)));
    }
    // The node of a pod-bound token is information; only a token bound to the node itself dies with it.
    let bound = [
        (ObjectKind::Secret, namespace.as_str(), secret),
        (ObjectKind::Pod, namespace.as_str(), pod),
        (ObjectKind::Node, "", if pod.is_some() { &None } else { node }),
    ];
    for (kind, namespace, wanted) in bound {
        if wanted.as_ref().is_some_and(|wanted| !lives(kind, namespace, wanted)) {
            return Err(TokenError::BoundObjectGone);
        }
    }
    if let Some(late) =
        warnafter.as_ref().map(|date| now.as_second().saturating_sub(seconds(date))).filter(|late| *late > 0)
    {
        tracing::debug!(account = %claims.sub, seconds = late, "token should have been renewed");
    }
    let mut user = User::service_account(namespace, &serviceaccount.name, &serviceaccount.uid);
    let mut put = |key: &str, value: String| {
        if !value.is_empty() {
            user.extra.insert(key.to_owned(), vec![value]);
        }
    };
    for (what, reference) in [("pod", pod), ("node", node)] {
        if let Some(Ref { name, uid }) = reference {
            put(&format!("authentication.kubernetes.io/{what}-name"), name.clone());
            put(&format!("authentication.kubernetes.io/{what}-uid"), uid.clone());
        }
    }
    if !jti.is_empty() {
        put(CREDENTIAL_ID, format!("JTI={jti}"));
    }
    Ok(user)
}

/// Whether an object should have been gone for longer than clocks may differ.
fn deleted_before(object: &serde_json::Value, now: Timestamp) -> bool {
    let deleted = object.str_at("metadata.deletionTimestamp").parse::<Timestamp>();
    deleted.is_ok_and(|deleted| deleted.as_second() < now.as_second().saturating_sub(LEEWAY))
}
