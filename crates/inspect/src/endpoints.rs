//! What slices say: which Service they are of, and which of their endpoints are ready.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Namespace and name of the Service.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_LABEL)?;
    Some((slice.metadata.namespace.as_deref()?, name))
}

/// What is not known counts as ready, as the API says.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
}
