//! DeleteOptions: from the body, or from query parameters when there is none.

use crate::{
    call::Call,
    request::{
        body,
        query::{DryRun, Query},
    },
};
use api::{
    error::{ApiError, FieldError},
    object::Fields,
    path::Path,
};
use serde_json::{Value, json};

/// What happens to objects that this one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are let go.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug)]
pub struct DeleteOptions {
    /// Seconds, when the client names them.
    pub grace_period: Option<i64>,
    /// What to do with dependents, when the client says so.
    pub propagation: Option<Propagation>,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must be at this resourceVersion.
    pub resource_version: Option<String>,
    /// Whether it really happens.
    pub dry_run: DryRun,
}

impl DeleteOptions {
    /// Reads them; all mistakes at once.
    pub fn new(query: &Query, bytes: &[u8], content_type: &str) -> Result<Self, ApiError> {
        let value = if bytes.is_empty() { from_query(query)? } else { from_body(bytes, content_type)? };
        let mut errors = Vec::new();
        let grace_period = match value.at("gracePeriodSeconds") {
            Value::Null => None,
            // A negative number stands for the shortest period there is.
            other => other.as_i64().map(|seconds| if seconds < 0 { 1 } else { seconds }),
        };
        let policy = value.at("propagationPolicy");
        let orphan = value.at("orphanDependents").as_bool();
        if !policy.is_null() && orphan.is_some() {
            let detail = "orphanDependents and propagationPolicy cannot both be set";
            errors.push(FieldError::invalid(&Path::new("propagationPolicy"), policy.clone(), detail));
        }
        let propagation = match (policy.as_str(), orphan) {
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(other), _) => {
                let accepted = ["Background", "Foreground", "Orphan"];
                errors.push(FieldError::not_supported(&Path::new("propagationPolicy"), other, &accepted));
                None
            }
            (None, None) => None,
        };
        let mut dry_run = DryRun::No;
        for word in value.list_at("dryRun") {
            dry_run = DryRun::All;
            if word != "All" {
                errors.push(FieldError::not_supported(&Path::new("dryRun"), word.clone(), &["All"]));
            }
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("DeleteOptions", "meta.k8s.io", "", &errors));
        }
        let text = |path: &str| value.at(path).as_str().map(str::to_owned);
        Ok(Self {
            grace_period,
            propagation,
            uid: text("preconditions.uid"),
            resource_version: text("preconditions.resourceVersion"),
            dry_run,
        })
    }

    /// Whether the object is the one that the client means.
    pub fn check(&self, call: &Call, object: &Value) -> Result<(), ApiError> {
        let pairs = [
            ("UID", &self.uid, "metadata.uid"),
            ("ResourceVersion", &self.resource_version, "metadata.resourceVersion"),
        ];
        for (what, wanted, path) in pairs {
            let found = object.str_at(path);
            if let Some(wanted) = wanted
                && wanted != found
            {
                return Err(call.conflict(format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                )));
            }
        }
        Ok(())
    }
}

fn from_body(bytes: &[u8], content_type: &str) -> Result<Value, ApiError> {
    let mut value = body::parse(bytes, content_type)?.value;
    if value.is_null() {
        return Ok(json!({}));
    }
    let kind = value.str_at("kind");
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(ApiError::bad_request(format!(
            "decoded object cannot be converted to DeleteOptions: it is a {kind}"
        )));
    }
    let decoded = api::schema::decode(
        &api::schema::Shape::Named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        &mut value,
    );
    match decoded.errors.first() {
        Some(error) => Err(ApiError::bad_request(error.to_string())),
        None => Ok(value),
    }
}

fn from_query(query: &Query) -> Result<Value, ApiError> {
    let mut value = json!({});
    let grace = query.get("gracePeriodSeconds");
    if !grace.is_empty() {
        let seconds: i64 = grace
            .parse()
            .map_err(|_| ApiError::bad_request(format!("gracePeriodSeconds {grace:?} is not a whole number")))?;
        value["gracePeriodSeconds"] = seconds.into();
    }
    for (field, text) in [("propagationPolicy", query.get("propagationPolicy"))] {
        if !text.is_empty() {
            value[field] = text.into();
        }
    }
    if !query.get("orphanDependents").is_empty() {
        value["orphanDependents"] = query.flag("orphanDependents").into();
    }
    if !query.get("dryRun").is_empty() {
        value["dryRun"] = json!([query.get("dryRun")]);
    }
    Ok(value)
}
