//! MutatingAdmissionPolicies: changes in CEL to what is written, bound to resources and parameters.
//!
//! Asked before the webhooks, one after the other; each sees what the one before has made.

use super::{Binding, Bound, Set, UNKNOWN_KIND, params};
use crate::{
    admission::{attempt::Attempt, matching::Seen, patched, rounds::Rounds, webhook},
    call::Call,
    request::query::FieldValidation,
};
use api::{error::ApiError, object::Fields};
use schema::policy::{MutatingPolicy, Mutation};
use serde_json::{Value, json};

const SET: Set = Set { policies: "mutatingadmissionpolicies/", bindings: "mutatingadmissionpolicybindings/" };

/// Whether any policy is bound to anything.
pub(crate) async fn are_bound(call: &Call) -> Result<bool, ApiError> {
    Ok(!SET.bound(&call.server, &call.server.policies.mutating, MutatingPolicy::compile).await?.is_empty())
}

/// Why a policy did not do what it should.
enum Failure {
    /// The failure policy decides.
    Policy(String),
    /// Nobody can go on.
    Request(ApiError),
}

/// One policy at work: its binding, a parameter, and what the request is for it.
struct Invocation<'p> {
    policy: &'p Bound<MutatingPolicy>,
    binding: &'p Binding,
    param: Value,
    seen: Seen,
}

/// Has all policies that are bound to a write change its object.
pub(crate) async fn mutate(attempt: &mut Attempt<'_>, rounds: &mut Rounds) -> Result<(), ApiError> {
    let server = std::sync::Arc::clone(&attempt.call.server);
    if !server.config.admission.mutating_policies || webhook::is_exempt(attempt) || attempt.object.is_none() {
        return Ok(());
    }
    let policies = SET.bound(&server, &server.policies.mutating, MutatingPolicy::compile).await?;
    let mut refusals = Vec::new();
    let mut invocations = Vec::new();
    for policy in policies.iter() {
        for binding in &policy.bindings {
            match invocation(policy, binding, attempt).await {
                Ok(found) => invocations.extend(found),
                Err(why) => refusals.extend(misconfigured(policy, binding, &why)),
            }
        }
    }
    rounds.policies.begin(rounds.round, attempt.object.as_ref());
    for invocation in &invocations {
        let Invocation { policy, binding, param, .. } = invocation;
        let place = |path: &str| param.str_at(path).to_owned();
        let id = vec![policy.name.clone(), binding.name.clone(), place("metadata.namespace"), place("metadata.name")];
        match invocation.applies(attempt).await {
            Ok(true) if rounds.policies.is_due(rounds.round, &id) => {}
            Ok(_) => continue,
            Err(why) => {
                refusals.extend(refusal(policy, binding, &why));
                continue;
            }
        }
        let before = attempt.object.clone();
        for index in 0..policy.policy.mutations() {
            match invocation.change(attempt, index).await {
                Ok(()) => {}
                Err(Failure::Request(error)) => return Err(error),
                Err(Failure::Policy(why)) => refusals.extend(refusal(policy, binding, &why)),
            }
        }
        if before != attempt.object {
            rounds.policies.change();
            rounds.changed = true;
        }
        if policy.reinvoked {
            rounds.policies.wants_again(id);
        }
    }
    rounds.policies.end(attempt.object.as_ref());
    refuse(attempt, &refusals)
}

async fn invocation<'p>(
    policy: &'p Bound<MutatingPolicy>,
    binding: &'p Binding,
    attempt: &Attempt<'_>,
) -> Result<Vec<Invocation<'p>>, String> {
    if policy.seen(binding, attempt).map_err(|error| error.message)?.is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for param in params(policy.param_kind.as_ref(), binding, attempt).await? {
        if let Some(seen) = policy.seen(binding, attempt).map_err(|error| error.message)? {
            found.push(Invocation { policy, binding, param, seen });
        }
    }
    Ok(found)
}

impl Invocation<'_> {
    fn bound(&self, attempt: &Attempt<'_>, object: Option<&Value>, old: Option<&Value>) -> schema::cel::Bound<'static> {
        let bound = attempt.bound(&attempt.request(&self.seen.target), object, old);
        if self.policy.param_kind.is_some() { bound.with("params", &self.param) } else { bound }
    }

    async fn applies(&self, attempt: &Attempt<'_>) -> Result<bool, String> {
        let (object, old) = self.seen.objects(attempt).await.map_err(|error| error.message)?;
        self.policy.policy.applies(self.bound(attempt, object.as_ref(), old.as_ref()))
    }

    async fn change(&self, attempt: &mut Attempt<'_>, index: usize) -> Result<(), Failure> {
        let (object, old) = self.seen.objects(attempt).await.map_err(Failure::Request)?;
        let bound = self.bound(attempt, object.as_ref(), old.as_ref());
        let mutation = self.policy.policy.mutation(index, bound).map_err(Failure::Policy)?;
        let Some(object) = object else { return Ok(()) };
        let (patched, validation) = match mutation {
            Mutation::Configuration(mut fields) => {
                for field in ["apiVersion", "kind"] {
                    fields.set(field, object.at(field).clone());
                }
                let shape = self.shape(attempt, &object);
                let laid = patch::apply::lay_over(shape, &object, &fields);
                let laid = laid.map_err(|why| Failure::Policy(format!("error applying patch: {why}")))?;
                (laid, FieldValidation::Ignore)
            }
            Mutation::Operations(operations) => match patch::json::apply_if_tests_hold(object, &operations) {
                Ok(Some(patched)) if attempt.call.resource.custom => (patched, FieldValidation::Ignore),
                Ok(Some(patched)) => (patched, FieldValidation::Strict),
                Ok(None) => return Ok(()),
                Err(error) => return Err(Failure::Policy(format!("JSON Patch: {}", error.message))),
            },
        };
        patched::take(attempt, &self.seen, patched, validation).await.map_err(Failure::Request)
    }

    /// The type of the object, which may be a Scale or another thing below the resource.
    fn shape<'a>(&'a self, attempt: &'a Attempt<'_>, object: &Value) -> &'a api::schema::Shape {
        let resource = self.seen.by.as_deref().unwrap_or(&attempt.call.resource);
        if object.str_at("kind") == resource.kind { &resource.shape } else { &api::schema::Shape::Any }
    }
}

/// What a failure comes to; nothing where the policy says that it is to be ignored.
fn refusal(policy: &Bound<MutatingPolicy>, binding: &Binding, why: &str) -> Option<String> {
    let Bound { name, fails_open, .. } = policy;
    (!fails_open).then(|| format!("policy '{name}' with binding '{}' denied request: {why}", binding.name))
}

/// The same for what cannot be asked at all.
fn misconfigured(policy: &Bound<MutatingPolicy>, binding: &Binding, why: &str) -> Option<String> {
    if !why.starts_with(UNKNOWN_KIND) {
        return refusal(policy, binding, &format!("failed to configure binding: {why}"));
    }
    let Bound { name, fails_open, .. } = policy;
    (!fails_open).then(|| format!("policy {name:?} denied request: failed to configure policy: {why}"))
}

/// The first refusal is told, all are causes.
fn refuse(attempt: &Attempt<'_>, refusals: &[String]) -> Result<(), ApiError> {
    let Some(first) = refusals.first() else { return Ok(()) };
    let mut error = ApiError::forbidden(&attempt.target.resource, &attempt.target.group, &attempt.name, "");
    error.message.clone_from(first);
    error.reason = if first.contains("denied request: failed to configure") { "Forbidden" } else { "Invalid" };
    error.details["causes"] = refusals.iter().map(|message| json!({"message": message})).collect();
    Err(error)
}
