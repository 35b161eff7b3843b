//! ValidatingAdmissionPolicies: rules in CEL about writes, bound to resources and parameters.
//!
//! Policies and bindings are read from the store at every write, so that one that was just made counts; their expressions are
//! compiled once.

use super::{
    attempt::Attempt,
    matching::{Matcher, Seen},
};
use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
    registry, stored,
};
use access::authz::Attributes;
use api::{
    error::ApiError,
    kinds::{check::texts, selector},
    object::Fields,
    resource::{Resource, Scope},
};
use parking_lot::Mutex;
use schema::policy::{Denial, Policy};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const POLICIES: &str = "validatingadmissionpolicies/";
const BINDINGS: &str = "validatingadmissionpolicybindings/";
/// Longest value of an audit annotation.
const LONGEST_ANNOTATION: usize = 10 * 1024;
/// Most failures that the audit log is told of.
const MOST_FAILURES: usize = 50;

/// Policies of this server.
#[derive(Default)]
pub struct Policies(Mutex<Compiled>);

/// Policies, and the stored objects that they were read from.
#[derive(Default)]
struct Compiled {
    from: Vec<(store::Key, u64)>,
    policies: Arc<Vec<Bound>>,
}

/// A policy with its bindings.
struct Bound {
    name: String,
    matcher: Matcher,
    fails_open: bool,
    /// `apiVersion` and kind of its parameters.
    param_kind: Option<(String, String)>,
    policy: Policy,
    bindings: Vec<Binding>,
}

struct Binding {
    name: String,
    matcher: Matcher,
    params: Value,
    actions: Vec<String>,
}

impl Policies {
    async fn of(call: &Call) -> Result<Arc<Vec<Bound>>, ApiError> {
        let server = &call.server;
        let failed = |error: store::ReadError| ApiError::unavailable(error.to_string());
        let bindings = server.store.list(BINDINGS, None, None, None).await.map_err(failed)?.entries;
        if bindings.is_empty() {
            return Ok(Arc::default());
        }
        let policies = server.store.list(POLICIES, None, None, None).await.map_err(failed)?.entries;
        let all = policies.iter().chain(&bindings);
        let from: Vec<_> = all.map(|entry| (entry.key().clone(), entry.mod_revision())).collect();
        let mut compiled = server.policies.0.lock();
        if compiled.from != from {
            let read =
                |entries: &[store::Entry]| entries.iter().filter_map(|entry| stored::parse(entry).ok()).collect();
            let (policies, bindings): (Vec<Value>, Vec<Value>) = (read(&policies), read(&bindings));
            compiled.policies = Arc::new(policies.iter().map(|policy| Bound::read(policy, &bindings)).collect());
            compiled.from = from;
        }
        Ok(Arc::clone(&compiled.policies))
    }
}

impl Bound {
    fn read(policy: &Value, bindings: &[Value]) -> Self {
        let (name, spec) = (policy.str_at("metadata.name"), policy.at("spec"));
        let kind = spec.at("paramKind");
        let own = bindings.iter().filter(|binding| binding.str_at("spec.policyName") == name);
        Self {
            name: name.to_owned(),
            matcher: Matcher::read(spec.at("matchConstraints"), "resourceRules"),
            fails_open: spec.str_at("failurePolicy") == "Ignore",
            param_kind: (!kind.is_null())
                .then(|| (kind.str_at("apiVersion").to_owned(), kind.str_at("kind").to_owned())),
            policy: Policy::compile(policy),
            bindings: own.map(Binding::read).collect(),
        }
    }

    /// What the request is for this binding; none when it is not about it.
    fn seen(&self, binding: &Binding, attempt: &Attempt<'_>) -> Result<Option<Seen>, ApiError> {
        let Some(seen) = self.matcher.matches(attempt)? else { return Ok(None) };
        let meant = match binding.matcher.has_no_rules() {
            true => binding.matcher.selects(attempt)?,
            false => binding.matcher.matches(attempt)?.is_some(),
        };
        Ok(meant.then_some(seen))
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = binding.at("spec");
        Self {
            name: binding.str_at("metadata.name").to_owned(),
            matcher: Matcher::read(spec.at("matchResources"), "resourceRules"),
            params: spec.at("paramRef").clone(),
            actions: texts(spec, "validationActions").into_iter().map(str::to_owned).collect(),
        }
    }
}

/// What comes of all policies.
#[derive(Default)]
struct Outcome {
    refused: Option<ApiError>,
    failures: Vec<Value>,
    annotations: BTreeMap<String, Vec<String>>,
}

/// Whether any policy is bound to anything.
pub(crate) async fn are_bound(call: &Call) -> Result<bool, ApiError> {
    Ok(!Policies::of(call).await?.is_empty())
}

/// Holds a write against all policies that are bound to it.
pub(crate) async fn validate(attempt: &Attempt<'_>) -> Result<(), ApiError> {
    if !attempt.call.server.config.admission.validating_policies || super::webhook::is_exempt(attempt) {
        return Ok(());
    }
    let policies = Policies::of(attempt.call).await?;
    let mut outcome = Outcome::default();
    for policy in policies.iter() {
        for binding in &policy.bindings {
            let judged = judge(policy, binding, attempt, &mut outcome).await;
            if let Err(problem) = judged
                && !policy.fails_open
            {
                let message = format!("failed to configure binding: {problem}");
                outcome.deny(attempt, policy, binding, &message, "Invalid");
            }
        }
    }
    let call = attempt.call;
    for (key, values) in outcome.annotations {
        call.annotate(key, values.join(", "));
    }
    if !outcome.failures.is_empty() {
        outcome.failures.truncate(MOST_FAILURES);
        let text = Value::from(outcome.failures).to_string();
        call.annotate("validation.policy.admission.k8s.io/validation_failure".to_owned(), text);
    }
    outcome.refused.map_or(Ok(()), Err)
}

async fn judge(policy: &Bound, binding: &Binding, attempt: &Attempt<'_>, outcome: &mut Outcome) -> Result<(), String> {
    let seen = policy.seen(binding, attempt).map_err(|error| error.message)?;
    let Some(seen) = seen else { return Ok(()) };
    let (object, old) = seen.objects(attempt);
    let request = attempt.request(&seen.target);
    for param in params(policy, binding, attempt).await? {
        let bound = attempt.bound(&request, object.as_ref(), old.as_ref());
        let bound = if policy.param_kind.is_some() { bound.with("params", &param) } else { bound };
        let judgement = policy.policy.judge(bound);
        for denial in judgement.failures {
            if !(denial.is_error && policy.fails_open) {
                outcome.note(attempt, policy, binding, &denial);
            }
        }
        for (key, value) in judgement.annotations {
            let values = outcome.annotations.entry(format!("{}/{key}", policy.name)).or_default();
            let value: String = value.chars().take(LONGEST_ANNOTATION).collect();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(())
}

impl Outcome {
    /// Does what the binding says about a validation that does not hold.
    fn note(&mut self, attempt: &Attempt<'_>, policy: &Bound, binding: &Binding, denial: &Denial) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(attempt, policy, binding, &denial.message, &denial.reason),
                "Audit" => self.failures.push(json!({
                    "message": denial.message, "policy": policy.name, "binding": binding.name,
                    "expressionIndex": denial.index, "validationActions": binding.actions,
                })),
                _ => attempt.call.warn([format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, denial.message
                )]),
            }
        }
    }

    /// The first refusal is told.
    fn deny(&mut self, attempt: &Attempt<'_>, policy: &Bound, binding: &Binding, message: &str, reason: &str) {
        if self.refused.is_some() {
            return;
        }
        let text = format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
            policy.name, binding.name
        );
        let mut error = ApiError::forbidden(&attempt.target.resource, &attempt.target.group, &attempt.name, &text);
        (error.code, error.reason) = match reason {
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        error.details["causes"] = json!([{"message": text}]);
        self.refused = Some(error);
    }
}

/// The parameters of a binding: one that is null where there are none to have.
async fn params(policy: &Bound, binding: &Binding, attempt: &Attempt<'_>) -> Result<Vec<Value>, String> {
    let (Some((api_version, kind)), false) = (&policy.param_kind, binding.params.is_null()) else {
        return Ok(vec![Value::Null]);
    };
    let server = &attempt.call.server;
    let found = of_kind(attempt.call, api_version, kind);
    let resource = found.ok_or_else(|| format!("paramKind kind `{api_version}, Kind={kind}` not known"))?;
    let named = binding.params.str_at("namespace");
    let namespace = match (resource.scope, named, attempt.namespace()) {
        (Scope::Cluster, "", _) => "",
        (Scope::Cluster, ..) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (Scope::Namespaced, "", "") => {
            let text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(text.to_owned());
        }
        (Scope::Namespaced, "", own) => own,
        (Scope::Namespaced, named, _) => named,
    };
    let shown = |entry: &store::Entry| stored::parse(entry).ok().map(|object| stored::shown(&resource, object));
    let name = binding.params.str_at("name");
    let params: Vec<Value> = match name.is_empty() {
        false => {
            let entry = server.store.get(&registry::key(&resource, namespace, name));
            entry.iter().filter_map(shown).collect()
        }
        true => {
            let page = server.store.list(&registry::key(&resource, namespace, ""), None, None, None).await;
            let objects = page.map_err(|error| error.to_string())?.entries;
            let selected =
                |param: &Value| selector::matches(binding.params.at("selector"), param.at("metadata.labels"));
            objects.iter().filter_map(shown).filter(selected).collect()
        }
    };
    if params.is_empty() && binding.params.str_at("parameterNotFoundAction") != "Allow" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(params)
}

fn of_kind(call: &Call, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
    let registry = call.server.registry();
    let found = registry.iter().find(|resource| resource.api_version() == api_version && resource.kind == kind);
    found.cloned()
}

/// Policies and bindings: whoever writes one must be able to read the parameters that it names, for a policy tells of them.
pub(crate) struct PolicyKind;

impl ServerRules for PolicyKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(may_read(call, object, old))
    }
}

fn may_read(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let same = |path: &str| old.is_some_and(|old| old.at(path) == object.at(path));
    let binding = object.at("spec.paramRef");
    let (kind, name, namespace, verb) = match call.resource.kind.as_str() {
        "ValidatingAdmissionPolicy" if !same("spec.paramKind") => {
            (object.at("spec.paramKind").clone(), "*", "*", "get")
        }
        "ValidatingAdmissionPolicyBinding"
            if !(binding.is_null() || same("spec.paramRef") && same("spec.policyName")) =>
        {
            let policy = call.server.object(&format!("{POLICIES}{}", object.str_at("spec.policyName")));
            let kind = policy.map(|policy| policy.at("spec.paramKind").clone()).unwrap_or_default();
            let verb = if binding.str_at("name").is_empty() { "list" } else { "get" };
            let unknown = json!({"apiVersion": "*/*", "kind": "*"});
            let kind = if kind.is_null() { unknown } else { kind };
            (kind, binding.str_at("name"), binding.str_at("namespace"), verb)
        }
        _ => return Ok(()),
    };
    if kind.is_null() {
        return Ok(());
    }
    let api_version = kind.str_at("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = of_kind(call, api_version, kind.str_at("kind"));
    let resource = found.as_ref().map_or("*", |resource| resource.plural.as_str());
    let asked = Attributes { namespace, version, name, ..Attributes::resource(&call.user, verb, group, resource) };
    if call.server.access.chain().authorize(&asked).allowed() {
        return Ok(());
    }
    let user = &call.user.name;
    let why = match call.resource.kind.as_str() {
        "ValidatingAdmissionPolicy" => format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={api_version})",
            kind.str_at("kind")
        ),
        _ => format!("user {user} does not have {verb:?} permission on the object referenced by paramRef"),
    };
    Err(ApiError::forbidden(&call.resource.plural, &call.resource.group, object.str_at("metadata.name"), why))
}
