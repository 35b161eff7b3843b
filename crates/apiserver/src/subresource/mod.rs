//! Paths below an object that are neither the object nor its status.

mod binding;
mod eviction;
mod finalize;
mod reviews;
mod scale;
mod token;

pub(crate) use reviews::review;
pub(crate) use scale::{scale_of, set_scale};

use crate::{
    answer::Answer,
    call::Call,
    kubelet,
    verbs::{get, patch, update, write::Part},
};
use api::{error::ApiError, resource::Subresource};
use std::sync::Arc;

/// Any verb on a subresource.
pub(crate) async fn serve(call: Arc<Call>, connection: kubelet::Connection, bytes: &[u8]) -> Result<Answer, ApiError> {
    let Some(subresource) = call.resource.subresource(&call.request.subresource).cloned() else {
        return Err(ApiError::no_such_path());
    };
    let verb = call.request.verb;
    match (&subresource, verb) {
        (Subresource::Status, "get") => get::get(&call).await,
        (Subresource::Status, "update") => update::update(&call, Part::Status, bytes).await,
        (Subresource::Status, "patch") => patch::patch(&call, Part::Status, bytes).await,
        (Subresource::Scale { .. }, _) => scale::serve(&call, &subresource, bytes).await,
        (Subresource::Named(name), _) => match (*name, verb) {
            ("finalize", "update") => finalize::finalize(&call, bytes).await,
            ("binding", "create") => binding::bind(&call, bytes).await,
            ("eviction", "create") => eviction::evict(&call, bytes).await,
            ("token", "create") => token::issue(&call, bytes).await,
            ("approval" | "ephemeralcontainers" | "resize", "get") => get::get(&call).await,
            (name @ ("approval" | "ephemeralcontainers" | "resize"), "update") => {
                update::update(&call, Part::Below(name), bytes).await
            }
            (name @ ("approval" | "ephemeralcontainers" | "resize"), "patch") => {
                patch::patch(&call, Part::Below(name), bytes).await
            }
            ("log" | "exec" | "attach" | "portforward" | "proxy", _) => kubelet::connect(&call, connection).await,
            _ => Err(call.not_allowed()),
        },
        _ => Err(call.not_allowed()),
    }
}
