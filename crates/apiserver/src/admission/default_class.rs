//! The class that an object gets which names none, and Ingresses, which get one. Mirrors upstream's plugin DefaultIngressClass.

use crate::{
    call::Call,
    kinds::{Later, ServerRules},
};
use api::{
    error::ApiError,
    kinds::ingress::{CLASS_ANNOTATION, is_default},
    object::Fields,
};
use futures::future::FutureExt;
use serde_json::Value;
use std::cmp::Reverse;

/// Ingresses.
pub(crate) struct IngressKind;

impl ServerRules for IngressKind {
    fn admit_new<'a>(&self, call: &'a Call, ingress: &'a mut Value) -> Later<'a, ()> {
        async move {
            let named = !ingress.at("spec.ingressClassName").is_null()
                || ingress.at("metadata.annotations").get(CLASS_ANNOTATION).is_some();
            if !named && let Some(class) = newest(call, "ingressclasses", is_default).await? {
                ingress.set("spec.ingressClassName", class);
            }
            Ok(())
        }
        .boxed()
    }
}

/// The newest default class; the first by name of those that were made in the same second.
pub(super) async fn newest(
    call: &Call,
    storage: &str,
    is_default: impl Fn(&Value) -> bool,
) -> Result<Option<String>, ApiError> {
    let classes = call.server.objects(storage).await?;
    let of = |class: &Value, field: &str| class.str_at(&format!("metadata.{field}")).to_owned();
    let newest = classes
        .iter()
        .filter(|class| is_default(class))
        .max_by_key(|class| (of(class, "creationTimestamp"), Reverse(of(class, "name"))));
    Ok(newest.map(|class| of(class, "name")))
}
