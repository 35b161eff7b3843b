//! SelfSubjectReview (`kubectl auth whoami`) and TokenReview.

use crate::authn::{Authenticator, Token, User, service_account::Objects};
use api::{
    error::ApiError,
    object::{Fields, timestamp},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Who am I?
pub fn self_subject_review(user: &User, now: Timestamp) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": timestamp(now)},
        "status": {"userInfo": user.info()},
    })
}

/// Whose token is this? The answer repeats the token, as upstream's does: it must not be logged.
pub fn token_review(
    mut review: Value,
    authenticator: &Authenticator,
    objects: &dyn Objects,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let token = Token::new(review.str_at("spec.token"));
    if token.expose().is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.list_at("spec.audiences").iter().filter_map(Value::as_str).map(str::to_owned);
    let audiences: Vec<String> = audiences.collect();
    let status = match authenticator.token(&token, &audiences, objects, now) {
        Ok(known) => {
            let mut status = json!({"authenticated": true, "user": known.user.info()});
            if !known.audiences.is_empty() {
                status["audiences"] = known.audiences.into();
            }
            status
        }
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    };
    review.set("status", status);
    Ok(review)
}
