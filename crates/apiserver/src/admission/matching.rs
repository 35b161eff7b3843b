//! Which requests a webhook, a policy or a binding is about: operations and resources, namespaces, labels.

use super::attempt::{Attempt, Operation, Target};
use api::{
    error::ApiError,
    kinds::{check::texts, selector},
    object::Fields,
    resource::Resource,
};
use serde_json::Value;
use std::sync::Arc;

/// What requests are matched with.
pub(crate) struct Matcher {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether other versions of the resource match as well.
    equivalent: bool,
    namespaces: Value,
    objects: Value,
}

impl Matcher {
    /// Of a webhook, whose rules stand at `rules`, or of the `resourceRules` of a policy.
    pub(crate) fn read(given: &Value, rules: &str) -> Self {
        Self {
            rules: given.list_at(rules).iter().map(Rule::read).collect(),
            excluded: given.list_at("excludeResourceRules").iter().map(Rule::read).collect(),
            equivalent: given.str_at("matchPolicy") != "Exact",
            namespaces: given.at("namespaceSelector").clone(),
            objects: given.at("objectSelector").clone(),
        }
    }

    /// Whether no rule is given, which means every resource for a binding and none for a webhook.
    pub(crate) fn has_no_rules(&self) -> bool {
        self.rules.is_empty()
    }

    /// What the request is taken for; none when it does not match.
    pub(crate) fn matches(&self, attempt: &Attempt<'_>) -> Result<Option<Seen>, ApiError> {
        let Some(seen) = self.seen(attempt, &self.rules) else { return Ok(None) };
        Ok(if self.selects(attempt)? { Some(seen) } else { None })
    }

    /// Whether selectors select the request and no rule excludes it.
    pub(crate) fn selects(&self, attempt: &Attempt<'_>) -> Result<bool, ApiError> {
        let objects = [&attempt.object, &attempt.old];
        let labels = |object: &Value| selector::matches(&self.objects, object.at("metadata.labels"));
        let selected = selector::is_empty(&self.objects) || objects.into_iter().flatten().any(labels);
        if !selected || self.seen(attempt, &self.excluded).is_some() {
            return Ok(false);
        }
        in_namespace(&self.namespaces, attempt)
    }

    fn seen(&self, attempt: &Attempt<'_>, rules: &[Rule]) -> Option<Seen> {
        if rules.iter().any(|rule| rule.matches(attempt, &attempt.target)) {
            return Some(Seen { target: attempt.target.clone(), by: None });
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let equivalents = attempt.equivalents();
        let found = rules.iter().find_map(|rule| equivalents.iter().find(|(_, target)| rule.matches(attempt, target)));
        found.map(|(resource, target)| Seen { target: target.clone(), by: Some(Arc::clone(resource)) })
    }
}

/// A request as a webhook or policy is told of it.
pub(crate) struct Seen {
    pub(crate) target: Target,
    /// The resource in whose words it is told, when they are not those of the request.
    pub(crate) by: Option<Arc<Resource>>,
}

impl Seen {
    /// Object and old object.
    pub(crate) async fn objects(&self, attempt: &Attempt<'_>) -> Result<(Option<Value>, Option<Value>), ApiError> {
        match &self.by {
            None => Ok((attempt.object.clone(), attempt.old.clone())),
            Some(resource) => attempt.converted(resource).await,
        }
    }
}

/// Whether a namespace selector selects the request. Cluster-wide objects but namespaces always are.
fn in_namespace(selected: &Value, attempt: &Attempt<'_>) -> Result<bool, ApiError> {
    let of_namespaces = attempt.target.resource == "namespaces" && attempt.target.group.is_empty();
    let name = attempt.namespace();
    if (name.is_empty() && !of_namespaces) || selector::is_empty(selected) {
        return Ok(true);
    }
    let own = of_namespaces && attempt.subresource().is_empty();
    if let Some(object) = attempt.object.as_ref().filter(|_| own && attempt.operation != Operation::Connect) {
        return Ok(selector::matches(selected, object.at("metadata.labels")));
    }
    let namespace = attempt.call.server.object(&format!("namespaces/{name}"));
    let namespace = namespace.ok_or_else(|| ApiError::not_found("namespaces", "", name))?;
    Ok(selector::matches(selected, namespace.at("metadata.labels")))
}

/// Operations and resources.
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Names of objects, for policies; all when there are none.
    names: Vec<String>,
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let list = |field: &str| texts(rule, field).into_iter().map(str::to_owned).collect();
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: rule.str_at("scope").to_owned(),
            names: list("resourceNames"),
        }
    }

    /// Whether the rule is about this request, taken for one of `target`.
    fn matches(&self, attempt: &Attempt<'_>, target: &Target) -> bool {
        let is = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
        let cluster = attempt.namespace().is_empty() || (target.group.is_empty() && target.resource == "namespaces");
        let scope = match self.scope.as_str() {
            "Namespaced" => !cluster,
            "Cluster" => cluster,
            _ => true,
        };
        let part = |pattern: &str, word: &str| pattern == "*" || pattern == word;
        let resource = |pattern: &String| {
            let (resource, below) = pattern.split_once('/').unwrap_or((pattern, ""));
            part(resource, &target.resource) && part(below, attempt.subresource())
        };
        scope
            && is(&self.operations, attempt.operation.name())
            && is(&self.groups, &target.group)
            && is(&self.versions, &target.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.contains(&attempt.name))
    }
}
