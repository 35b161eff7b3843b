//! `serviceaccounts/NAME/token`: a token for a service account.

use crate::{
    answer::{self, Answer},
    call::Call,
    request::body,
};
use access::authn::service_account::Asked;
use api::{
    error::{ApiError, FieldError},
    object::Fields,
    path::Path,
    schema::{self, Shape},
};

/// POST of a TokenRequest.
pub(super) async fn issue(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let mut request = body::parse(bytes, &call.content_type)?.value;
    body::expect_kind(&mut request, "authentication.k8s.io/v1", "TokenRequest")?;
    let decoded = schema::decode(&Shape::Named("io.k8s.api.authentication.v1.TokenRequest"), &mut request);
    if let Some(error) = decoded.errors.first() {
        return Err(ApiError::bad_request(error.to_string()));
    }
    for (field, want) in [("name", &call.request.name), ("namespace", &call.request.namespace)] {
        let given = request.at("metadata").str_at(field);
        if !given.is_empty() && given != want {
            let path = Path::new("metadata").child(field);
            let error = FieldError::invalid(&path, given, format!("must match the service account's, {want:?}"));
            return Err(ApiError::invalid("TokenRequest", "authentication.k8s.io", &call.request.name, &[error]));
        }
    }
    let request = crate::admission::token(call, request).await?;
    let issuer = call.server.issuer.as_ref().ok_or_else(|| call.not_allowed())?;
    let asked = Asked { namespace: &call.request.namespace, name: &call.request.name, request: &request };
    let issued = issuer.issue(asked, &*call.server, call.server.now(), &uuid::Uuid::new_v4().to_string())?;
    call.warn(issued.warnings);
    answer::value(call, 201, &issued.answer)
}
