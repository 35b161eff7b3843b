//! A write as webhooks and policies see it: who wants to do what to which object.

use crate::{
    ApiServer,
    call::Call,
    definitions::conversion,
    request::query::DryRun,
    stored,
    verbs::delete::options::{DeleteOptions, Propagation},
};
use access::{
    authn::{User, user},
    authz::{Attributes, Decision},
};
use api::{error::ApiError, object::Fields, resource::Resource};
use schema::cel;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A resource as rules name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) kind: Kind,
}

/// Group, version and kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// One attempt to write.
pub(crate) struct Attempt<'c> {
    pub(crate) call: &'c Call,
    pub(crate) operation: Operation,
    pub(crate) target: Target,
    pub(crate) name: String,
    /// The new object; none for a deletion.
    pub(crate) object: Option<Value>,
    /// The object as it is; none when it is new.
    pub(crate) old: Option<Value>,
    pub(crate) dry_run: bool,
    options: Value,
}

impl<'c> Attempt<'c> {
    /// An object, new or changed.
    pub(crate) fn write(call: &'c Call, object: Value, old: Option<&Value>) -> Self {
        let operation = if old.is_none() { Operation::Create } else { Operation::Update };
        let name = match call.request.name.as_str() {
            "" => object.str_at("metadata.name").to_owned(),
            name => name.to_owned(),
        };
        let target = Target::of(&call.resource, kind_of(&object, &call.resource));
        let dry_run = call.query.get("dryRun") == "All";
        let options = write_options(call, operation);
        Self { call, operation, target, name, object: Some(object), old: old.cloned(), dry_run, options }
    }

    /// A deletion. What is deleted is shown in the version that was asked for.
    pub(crate) fn delete(call: &'c Call, old: Value, options: &DeleteOptions) -> Self {
        let old = stored::shown(&call.resource, old);
        let name = old.str_at("metadata.name").to_owned();
        let dry_run = options.dry_run == DryRun::All;
        let target = Target::of(&call.resource, kind_of(&old, &call.resource));
        let options = delete_options(options);
        Self { call, operation: Operation::Delete, target, name, object: None, old: Some(old), dry_run, options }
    }

    /// A connection to a Pod, Service or node, described by its options.
    pub(crate) fn connect(call: &'c Call, object: Value) -> Self {
        let target = Target::of(&call.resource, kind_of(&object, &call.resource));
        let name = call.request.name.clone();
        let operation = Operation::Connect;
        Self { call, operation, target, name, object: Some(object), old: None, dry_run: false, options: Value::Null }
    }

    /// Namespace of the request; for a Namespace itself its name, as in the path.
    pub(crate) fn namespace(&self) -> &str {
        &self.call.request.namespace
    }

    pub(crate) fn subresource(&self) -> &str {
        &self.call.request.subresource
    }

    /// The same resource by the other names that it has: other versions, or another group.
    pub(crate) fn equivalents(&self) -> Vec<(Arc<Resource>, Target)> {
        let own = &self.call.resource;
        let registry = self.call.server.registry();
        let others = registry.iter().filter(|other| other.storage == own.storage && !Arc::ptr_eq(other, own));
        let named = |other: &Arc<Resource>| {
            let kind = match self.target.kind.kind == own.kind {
                true => Kind { group: other.group.clone(), version: other.version.clone(), kind: other.kind.clone() },
                // A Scale is one, whatever it is the scale of.
                false => self.target.kind.clone(),
            };
            (Arc::clone(other), Target::of(other, kind))
        };
        others.map(named).collect()
    }

    /// Object and old object in the words of another version.
    pub(crate) async fn converted(&self, to: &Resource) -> Result<(Option<Value>, Option<Value>), ApiError> {
        let (server, own) = (&self.call.server, &self.call.resource);
        let mut converted = [None, None];
        for (made, object) in converted.iter_mut().zip([&self.object, &self.old]) {
            if let Some(object) = object {
                *made = Some(convert(server, object, own, to).await?);
            }
        }
        let [object, old] = converted;
        Ok((object, old))
    }

    /// The request without its objects, as webhooks and expressions see it; `seen` is what it is taken for.
    pub(crate) fn request(&self, seen: &Target) -> Value {
        let mut request = json!({
            "kind": seen.kind.json(), "resource": seen.json(),
            "requestKind": self.target.kind.json(), "requestResource": self.target.json(),
            "operation": self.operation.name(), "userInfo": self.call.user.info(), "dryRun": self.dry_run, "options": self.options,
        });
        let (name, namespace, below) = (self.name.as_str(), self.namespace(), self.subresource());
        for (field, text) in
            [("subResource", below), ("requestSubResource", below), ("name", name), ("namespace", namespace)]
        {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        request
    }

    /// The names that conditions and policies use. `request` is what `request` made.
    pub(crate) fn bound(&self, request: &Value, object: Option<&Value>, old: Option<&Value>) -> cel::Bound<'static> {
        let Self { call, .. } = self;
        let asked = &call.request;
        let question = cel::Question {
            group: asked.group.clone(),
            version: asked.version.clone(),
            resource: asked.resource.clone(),
            subresource: asked.subresource.clone(),
            namespace: asked.namespace.clone(),
            name: self.name.clone(),
            ..cel::Question::default()
        };
        let judge = Judge { server: Arc::clone(&call.server), user: call.user.clone() };
        // Expressions may ask for every field of a request.
        let mut request = request.clone();
        for field in ["subResource", "requestSubResource", "name", "namespace"] {
            request.set_default(field, "");
        }
        request.at_mut("userInfo").set_default("uid", "");
        cel::Bound::new()
            .with("object", object.unwrap_or(&Value::Null))
            .with("oldObject", old.unwrap_or(&Value::Null))
            .with("request", &request)
            .with("namespaceObject", &self.namespace_object().unwrap_or_default())
            .with_authorizer(Arc::new(judge), question)
    }

    pub(crate) fn namespace_object(&self) -> Option<Value> {
        if self.namespace().is_empty() || self.call.resource.plural == "namespaces" {
            return None;
        }
        self.call.server.object(&format!("namespaces/{}", self.namespace()))
    }
}

/// An object of one resource as another one with the same storage shows it.
pub(crate) async fn convert(
    server: &ApiServer,
    object: &Value,
    from: &Resource,
    to: &Resource,
) -> Result<Value, ApiError> {
    if object.str_at("kind") != from.kind {
        return Ok(object.clone());
    }
    if to.rules.conversion().is_some() {
        let converted = conversion::object(server, to, object.clone()).await?;
        return Ok(stored::shown(to, converted));
    }
    Ok(stored::shown(to, from.rules.to_stored(object).into_owned()))
}

impl Target {
    fn of(resource: &Resource, kind: Kind) -> Self {
        let Resource { group, version, plural, .. } = resource;
        Self { group: group.clone(), version: version.clone(), resource: plural.clone(), kind }
    }

    fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "resource": self.resource})
    }
}

impl Kind {
    fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// The kind of what is sent, which below an object may be another one (Scale, Eviction).
fn kind_of(object: &Value, resource: &Resource) -> Kind {
    let kind = object.str_at("kind");
    if kind.is_empty() {
        let Resource { group, version, kind, .. } = resource;
        return Kind { group: group.clone(), version: version.clone(), kind: kind.clone() };
    }
    let api_version = object.str_at("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Kind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

fn write_options(call: &Call, operation: Operation) -> Value {
    let kind = match (operation, call.request.verb) {
        (_, "patch") => "PatchOptions",
        (Operation::Create, _) => "CreateOptions",
        _ => "UpdateOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for field in ["fieldManager", "fieldValidation"] {
        if !call.query.get(field).is_empty() {
            options[field] = call.query.get(field).into();
        }
    }
    if call.query.get("dryRun") == "All" {
        options["dryRun"] = json!(["All"]);
    }
    if kind == "PatchOptions" && !call.query.get("force").is_empty() {
        options["force"] = call.query.flag("force").into();
    }
    options
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    let DeleteOptions { grace_period, propagation, uid, resource_version, dry_run } = options;
    if let Some(seconds) = grace_period {
        shown["gracePeriodSeconds"] = (*seconds).into();
    }
    if let Some(propagation) = propagation {
        shown["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    for (field, given) in [("uid", uid), ("resourceVersion", resource_version)] {
        if let Some(given) = given {
            shown["preconditions"][field] = given.as_str().into();
        }
    }
    if *dry_run == DryRun::All {
        shown["dryRun"] = json!(["All"]);
    }
    shown
}

/// Answers what expressions ask of `authorizer`, for the user who makes the request.
struct Judge {
    server: Arc<ApiServer>,
    user: User,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl cel::Authorizer for Judge {
    fn decide(&self, question: &cel::Question) -> cel::Decision {
        let account;
        let asking = match &question.account {
            None => &self.user,
            Some((namespace, name)) => {
                let groups =
                    user::service_account_groups(namespace).into_iter().chain([user::AUTHENTICATED.to_owned()]);
                account = User::new(user::service_account_name(namespace, name), groups);
                &account
            }
        };
        let asked = match &question.path {
            Some(path) => Attributes::path(asking, &question.verb, path),
            None => Attributes {
                namespace: &question.namespace,
                version: &question.version,
                subresource: &question.subresource,
                name: &question.name,
                field_selector: &question.field_selector,
                ..Attributes::resource(asking, &question.verb, &question.group, &question.resource)
            },
        };
        let decision = self.server.access.chain().authorize(&asked);
        let (Decision::Allow(reason) | Decision::Deny(reason) | Decision::NoOpinion(reason)) = &decision;
        cel::Decision { allowed: decision.allowed(), reason: reason.to_string(), error: String::new() }
    }
}
