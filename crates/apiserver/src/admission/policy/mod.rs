//! Policies of admission: rules in CEL about writes, bound to resources and parameters.
//!
//! Policies and bindings are read from the store at every write, so that one that was just made counts; their expressions are
//! compiled once. `mutating` changes objects, `validating` refuses them, `rights` says who may write
//! policies, `type_check` what is odd about them.

mod mutating;
mod rights;
pub(crate) mod type_check;
mod validating;

pub(super) use mutating::{are_bound as are_changing, mutate};
pub(crate) use rights::PolicyKind;
pub(super) use validating::{are_bound, validate};

use super::{
    attempt::Attempt,
    matching::{Matcher, Seen},
};
use crate::{ApiServer, call::Call, definitions::conversion, registry, stored};
use api::{
    error::ApiError,
    kinds::selector,
    object::Fields,
    resource::{Resource, Scope},
};
use parking_lot::Mutex;
use schema::policy::{MutatingPolicy, Policy};
use serde_json::Value;
use std::sync::Arc;

/// What is wrong with the policy itself, not with one of its bindings.
const UNKNOWN_KIND: &str = "failed to find resource referenced by paramKind";

/// Policies of this server.
#[derive(Default)]
pub struct Policies {
    validating: Mutex<Compiled<Policy>>,
    mutating: Mutex<Compiled<MutatingPolicy>>,
}

/// Policies, and the stored objects that they were read from.
struct Compiled<P> {
    from: Vec<(store::Key, u64)>,
    policies: Arc<Vec<Bound<P>>>,
}

impl<P> Default for Compiled<P> {
    fn default() -> Self {
        Self { from: Vec::new(), policies: Arc::default() }
    }
}

/// Where policies of one sort and their bindings are stored.
struct Set {
    policies: &'static str,
    bindings: &'static str,
}

/// A policy with its bindings.
struct Bound<P> {
    name: String,
    matcher: Matcher,
    fails_open: bool,
    /// `apiVersion` and kind of its parameters.
    param_kind: Option<(String, String)>,
    /// Whether it is asked again when others changed the object after it.
    reinvoked: bool,
    policy: P,
    bindings: Vec<Binding>,
}

struct Binding {
    name: String,
    matcher: Matcher,
    spec: Value,
}

impl Set {
    /// The policies that are bound to anything, in the order of their names.
    async fn bound<P>(
        &self,
        server: &ApiServer,
        compiled: &Mutex<Compiled<P>>,
        compile: fn(&Value) -> P,
    ) -> Result<Arc<Vec<Bound<P>>>, ApiError> {
        let failed = |error: store::ReadError| ApiError::unavailable(error.to_string());
        let bindings = server.store.list(self.bindings, None, None, None).await.map_err(failed)?.entries;
        if bindings.is_empty() {
            return Ok(Arc::default());
        }
        let policies = server.store.list(self.policies, None, None, None).await.map_err(failed)?.entries;
        let all = policies.iter().chain(&bindings);
        let from: Vec<_> = all.map(|entry| (entry.key().clone(), entry.mod_revision())).collect();
        let mut compiled = compiled.lock();
        if compiled.from != from {
            let read =
                |entries: &[store::Entry]| entries.iter().filter_map(|entry| stored::parse(entry).ok()).collect();
            let (policies, bindings): (Vec<Value>, Vec<Value>) = (read(&policies), read(&bindings));
            let bound = policies.iter().map(|policy| Bound::read(policy, &bindings, compile));
            compiled.policies = Arc::new(bound.filter(|policy| !policy.bindings.is_empty()).collect());
            compiled.from = from;
        }
        Ok(Arc::clone(&compiled.policies))
    }
}

impl<P> Bound<P> {
    fn read(policy: &Value, bindings: &[Value], compile: fn(&Value) -> P) -> Self {
        let (name, spec) = (policy.str_at("metadata.name"), policy.at("spec"));
        let kind = spec.at("paramKind");
        let own = bindings.iter().filter(|binding| binding.str_at("spec.policyName") == name);
        Self {
            name: name.to_owned(),
            matcher: Matcher::read(spec.at("matchConstraints"), "resourceRules"),
            fails_open: spec.str_at("failurePolicy") == "Ignore",
            param_kind: (!kind.is_null())
                .then(|| (kind.str_at("apiVersion").to_owned(), kind.str_at("kind").to_owned())),
            reinvoked: spec.str_at("reinvocationPolicy") == "IfNeeded",
            policy: compile(policy),
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
            spec: spec.clone(),
        }
    }
}

/// The parameters of a binding: one that is null where there are none to have.
async fn params(
    param_kind: Option<&(String, String)>,
    binding: &Binding,
    attempt: &Attempt<'_>,
) -> Result<Vec<Value>, String> {
    let given = binding.spec.at("paramRef");
    let (Some((api_version, kind)), false) = (param_kind, given.is_null()) else {
        return Ok(vec![Value::Null]);
    };
    let server = &attempt.call.server;
    let found = of_kind(attempt.call, api_version, kind);
    let resource = found.ok_or_else(|| format!("{UNKNOWN_KIND}: '{api_version}, Kind={kind}'"))?;
    let named = given.str_at("namespace");
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
    let name = given.str_at("name");
    let entries = match name.is_empty() {
        false => server.store.get(&registry::key(&resource, namespace, name)).into_iter().collect(),
        true => {
            let page = server.store.list(&registry::key(&resource, namespace, ""), None, None, None).await;
            page.map_err(|error| error.to_string())?.entries
        }
    };
    let entries = conversion::entries(server, &resource, entries).await.map_err(|error| error.message)?;
    let selected =
        |param: &Value| !name.is_empty() || selector::matches(given.at("selector"), param.at("metadata.labels"));
    let params: Vec<Value> = entries.iter().filter_map(shown).filter(selected).collect();
    if params.is_empty() && given.str_at("parameterNotFoundAction") != "Allow" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(params)
}

fn of_kind(call: &Call, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
    let registry = call.server.registry();
    let found = registry.iter().find(|resource| resource.api_version() == api_version && resource.kind == kind);
    found.cloned()
}
