//! SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and SelfSubjectRulesReview. Mirrors upstream's
//! registry/authorization, validation included.

use crate::{
    authn::User,
    authz::{Attributes, Authorizer, Decision},
};
use api::{
    error::{ApiError, FieldError},
    object::Fields,
    path::Path,
};
use serde_json::{Map, Value, json};

const GROUP: &str = "authorization.k8s.io";

/// May the named user do this?
pub fn subject_access_review(review: Value, authorizer: &dyn Authorizer) -> Result<Value, ApiError> {
    let mut mistakes = subject_mistakes(&review);
    mistakes.extend(metadata_mistake(&review, None));
    answer(review, "SubjectAccessReview", &mistakes, None, authorizer)
}

/// May the named user do this in the namespace of the request?
pub fn local_subject_access_review(
    review: Value,
    namespace: &str,
    authorizer: &dyn Authorizer,
) -> Result<Value, ApiError> {
    let mut mistakes = subject_mistakes(&review);
    mistakes.extend(metadata_mistake(&review, Some("namespace")));
    let given = review.str_at("metadata.namespace");
    let asked = review.at("spec.resourceAttributes");
    if !asked.is_null() && asked.str_at("namespace") != given {
        let path = Path::new("spec").child("resourceAttributes").child("namespace");
        mistakes.push(FieldError::invalid(&path, asked.str_at("namespace"), "must match metadata.namespace"));
    }
    let paths = review.at("spec.nonResourceAttributes");
    if !paths.is_null() {
        let path = Path::new("spec").child("nonResourceAttributes");
        mistakes.push(FieldError::invalid(&path, paths.clone(), "disallowed on this kind of request"));
    }
    if mistakes.is_empty() && namespace != given {
        let message = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(ApiError::bad_request(message));
    }
    answer(review, "LocalSubjectAccessReview", &mistakes, None, authorizer)
}

/// May I do this?
pub fn self_subject_access_review(review: Value, user: &User, authorizer: &dyn Authorizer) -> Result<Value, ApiError> {
    let mut mistakes = union_mistakes(&review);
    mistakes.extend(selector_mistakes(&review));
    mistakes.extend(metadata_mistake(&review, None));
    answer(review, "SelfSubjectAccessReview", &mistakes, Some(user), authorizer)
}

/// What may I do in this namespace?
pub fn self_subject_rules_review(review: &Value, user: &User, authorizer: &dyn Authorizer) -> Result<Value, ApiError> {
    let namespace = review.str_at("spec.namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let found = authorizer.rules_for(user, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in &found.rules {
        if !rule.resources.is_empty() {
            let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
            if !rule.names.is_empty() {
                shown["resourceNames"] = rule.names.clone().into();
            }
            resources.push(shown);
        }
        if !rule.urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}));
        }
    }
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": found.incomplete});
    if !found.errors.is_empty() {
        status["evaluationError"] = found.errors.join(", ").into();
    }
    Ok(json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "SelfSubjectRulesReview", "metadata": {"creationTimestamp": null},
        "spec": {}, "status": status,
    }))
}

/// The review with its status; `asker` is the user when the review does not name one.
fn answer(
    mut review: Value,
    kind: &str,
    mistakes: &[FieldError],
    asker: Option<&User>,
    authorizer: &dyn Authorizer,
) -> Result<Value, ApiError> {
    if !mistakes.is_empty() {
        return Err(ApiError::invalid(kind, GROUP, "", mistakes));
    }
    let named = named_user(&review);
    let user = asker.unwrap_or(&named);
    let asked = review.at("spec.resourceAttributes");
    let selector = field_selector(asked);
    let version = if asked.str_at("version").is_empty() { "*" } else { asked.str_at("version") };
    let attributes = match review.at("spec.nonResourceAttributes") {
        Value::Null => Attributes {
            namespace: asked.str_at("namespace"),
            version,
            subresource: asked.str_at("subresource"),
            name: asked.str_at("name"),
            field_selector: &selector,
            ..Attributes::resource(user, asked.str_at("verb"), asked.str_at("group"), asked.str_at("resource"))
        },
        path => Attributes::path(user, path.str_at("verb"), path.str_at("path")),
    };
    let decision = authorizer.authorize(&attributes);
    let mut status = json!({"allowed": decision.allowed()});
    if matches!(decision, Decision::Deny(_)) {
        status["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    review.set("status", status);
    Ok(review)
}

fn named_user(review: &Value) -> User {
    let texts = |list: &[Value]| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let extra = review.map_at("spec.extra").into_iter().flatten();
    User {
        name: review.str_at("spec.user").to_owned(),
        uid: review.str_at("spec.uid").to_owned(),
        groups: texts(review.list_at("spec.groups")),
        extra: extra.map(|(key, values)| (key.clone(), texts(values.as_array().map_or(&[], Vec::as_slice)))).collect(),
    }
}

/// The field selector of a review in the form a request has it. What cannot be put so is left out: that only widens the
/// question.
fn field_selector(asked: &Value) -> String {
    let raw = asked.str_at("fieldSelector.rawSelector");
    if !raw.is_empty() {
        return raw.to_owned();
    }
    let terms = asked.list_at("fieldSelector.requirements").iter().filter_map(|requirement| {
        let [value] = requirement.list_at("values") else { return None };
        let (key, value) = (requirement.str_at("key"), value.as_str()?);
        let plain = |text: &str| !text.contains([',', '=', '\\']);
        (requirement.str_at("operator") == "In" && plain(key) && plain(value)).then(|| format!("{key}={value}"))
    });
    terms.collect::<Vec<_>>().join(",")
}

fn subject_mistakes(review: &Value) -> Vec<FieldError> {
    let mut mistakes = union_mistakes(review);
    if review.str_at("spec.user").is_empty() && review.list_at("spec.groups").is_empty() {
        let path = Path::new("spec").child("user");
        mistakes.push(FieldError::invalid(&path, "", "at least one of user or group must be specified"));
    }
    mistakes.extend(selector_mistakes(review));
    mistakes
}

fn union_mistakes(review: &Value) -> Vec<FieldError> {
    let (resource, path) = (review.at("spec.resourceAttributes"), review.at("spec.nonResourceAttributes"));
    if resource.is_null() != path.is_null() {
        return Vec::new();
    }
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![FieldError::invalid(&Path::new("spec"), path.clone(), why)]
}

fn selector_mistakes(review: &Value) -> Vec<FieldError> {
    let mut mistakes = Vec::new();
    for field in ["fieldSelector", "labelSelector"] {
        let path = Path::new("spec").child("resourceAttributes").child(field);
        let selector = review.at(path.as_str());
        let (raw, requirements) = (selector.str_at("rawSelector"), selector.list_at("requirements"));
        match (selector.is_null(), raw.is_empty(), requirements.is_empty()) {
            (false, false, false) => {
                let why = "may not specified at the same time as requirements";
                mistakes.push(FieldError::invalid(&path.child("rawSelector"), raw, why));
            }
            (false, true, true) => {
                let why = format!("when {path} is specified, requirements or rawSelector is required");
                mistakes.push(FieldError::required(&path.child("requirements"), why));
            }
            _ => {}
        }
    }
    mistakes
}

/// A review has no metadata but what `except` names.
fn metadata_mistake(review: &Value, except: Option<&str>) -> Option<FieldError> {
    let ignored = |key: &str| key == "managedFields" || Some(key) == except;
    let given: Map<String, Value> = review.map_at("metadata").cloned().unwrap_or_default();
    let empty =
        |value: &Value| matches!(value, Value::Null) || value == "" || value == &json!({}) || value == &json!([]);
    let rest = given.iter().any(|(key, value)| !ignored(key) && !empty(value));
    let why = if except.is_some() { "must be empty except for namespace" } else { "must be empty" };
    rest.then(|| FieldError::invalid(&Path::new("metadata"), Value::Object(given), why))
}
