//! Kinds that are posted, answered and not kept.

use crate::{
    answer::{self, Answer},
    call::Call,
    subresource::binding,
};
use access::authz::reviews;
use api::error::ApiError;
use serde_json::Value;

/// POST of a review, or of a Binding to its collection.
pub(crate) async fn review(call: &Call, object: Value) -> Result<Answer, ApiError> {
    let server = &call.server;
    let chain = server.access.chain();
    let answered = match call.resource.kind.as_str() {
        "Binding" => return binding::bind_named(call, object).await,
        "TokenReview" => reviews::token_review(object, &server.authenticator, &**server, server.now())?,
        "SelfSubjectReview" => reviews::self_subject_review(&call.user, server.now()),
        "SubjectAccessReview" => reviews::subject_access_review(object, chain)?,
        "LocalSubjectAccessReview" => reviews::local_subject_access_review(object, &call.request.namespace, chain)?,
        "SelfSubjectAccessReview" => reviews::self_subject_access_review(object, &call.user, chain)?,
        "SelfSubjectRulesReview" => reviews::self_subject_rules_review(&object, &call.user, chain)?,
        _ => return Err(call.not_allowed()),
    };
    answer::value(call, 201, &answered)
}
