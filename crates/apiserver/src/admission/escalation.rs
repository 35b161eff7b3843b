//! Nobody grants rights that they do not have.

use crate::call::Call;
use access::authz::{
    escalation::{self, Write},
    rbac::RbacKind,
};
use api::error::ApiError;
use serde_json::Value;

/// Refuses roles and bindings that would give away more than the writer has.
pub(super) fn check(call: &Call, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let Some(kind) = RbacKind::from_plural(&call.resource.plural) else { return Ok(()) };
    let write =
        Write { user: &call.user, kind, namespace: &call.request.namespace, name: &call.request.name, new, old };
    let access = &call.server.access;
    escalation::check(write, access.chain(), &access.rbac().snapshot())
}
