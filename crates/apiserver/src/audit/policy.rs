//! The audit policy: which requests are recorded, at which level. The file format is upstream's `audit.k8s.io/v1` Policy;
//! the first rule that matches decides.

use access::authz::Attributes;
use api::{error::FieldError, path::Path};
use serde::Deserialize;

/// How much of a request is recorded; each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    None,
    /// Who, what, when, answer code.
    Metadata,
    /// And the object sent.
    Request,
    /// And the object answered.
    RequestResponse,
}

impl Level {
    const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// As events and policies write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// When an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before anything is done.
    RequestReceived,
    /// Headers are out, the body goes on (watches).
    ResponseStarted,
    /// All is said.
    ResponseComplete,
    /// The handler broke.
    Panic,
}

impl Stage {
    const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// As events and policies write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// Why a policy file is not accepted. Not retryable.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// Not YAML, or not of this shape.
    #[error("audit policy cannot be read: {0}")]
    Unreadable(String),
    /// Of another kind.
    #[error("audit policy is {api_version:?} {kind:?}; audit.k8s.io/v1 Policy is accepted")]
    Kind {
        /// What `apiVersion` says.
        api_version: String,
        /// What `kind` says.
        kind: String,
    },
    /// No rule: nothing would ever be recorded.
    #[error("audit policy has no rules; at least one is needed")]
    Empty,
    /// Rules that break rules.
    #[error("audit policy is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Invalid(Vec<FieldError>),
}

/// What is recorded of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How much.
    pub level: Level,
    /// When not.
    pub omit_stages: Vec<Stage>,
    /// Whether `managedFields` is cut out of recorded objects.
    pub omit_managed_fields: bool,
}

/// A checked policy.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    /// For requests that no rule matches.
    otherwise: Verdict,
}

#[derive(Clone, Debug)]
struct Rule {
    wanted: RawRule,
    verdict: Verdict,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPolicy {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<serde_json::Value>,
    #[serde(default)]
    rules: Vec<RawRule>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    level: String,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

impl Default for Policy {
    /// Without a policy file: who did what, and no content.
    fn default() -> Self {
        Self { rules: Vec::new(), otherwise: verdict(Level::Metadata, Vec::new(), false) }
    }
}

impl Policy {
    /// Reads a policy file; all broken rules are told at once.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let raw: RawPolicy =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        let RawPolicy { api_version, kind, _metadata, rules, omit_stages, omit_managed_fields } = raw;
        if (api_version.as_str(), kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(PolicyError::Kind { api_version, kind });
        }
        if rules.is_empty() {
            return Err(PolicyError::Empty);
        }
        let mut mistakes = Vec::new();
        let everywhere = stages(&omit_stages, &Path::new("omitStages"), &mut mistakes);
        let mut checked = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let path = Path::new("rules").index(index);
            let level = level(&rule.level, &path.child("level"), &mut mistakes);
            let mut omitted = stages(&rule.omit_stages, &path.child("omitStages"), &mut mistakes);
            rule.check(&path, &mut mistakes);
            omitted.extend(everywhere.iter().copied());
            let managed = rule.omit_managed_fields.unwrap_or(omit_managed_fields);
            checked.push(Rule { wanted: rule, verdict: verdict(level, omitted, managed) });
        }
        if !mistakes.is_empty() {
            return Err(PolicyError::Invalid(mistakes));
        }
        Ok(Self { rules: checked, otherwise: verdict(Level::None, everywhere, omit_managed_fields) })
    }

    /// What is recorded of a request. Bodies with secrets or tokens in them never are, whatever the policy says.
    pub fn judge(&self, asked: &Attributes<'_>) -> Verdict {
        let found = self.rules.iter().find(|rule| rule.wanted.matches(asked));
        let mut verdict = found.map_or(&self.otherwise, |rule| &rule.verdict).clone();
        if is_sensitive(asked) {
            verdict.level = verdict.level.min(Level::Metadata);
        }
        verdict
    }
}

fn verdict(level: Level, omit_stages: Vec<Stage>, omit_managed_fields: bool) -> Verdict {
    Verdict { level, omit_stages, omit_managed_fields }
}

/// Whether bodies of such a request hold secrets or tokens.
pub(super) fn is_sensitive(asked: &Attributes<'_>) -> bool {
    matches!(
        (asked.group, asked.resource, asked.subresource),
        ("", "secrets", _) | ("", "serviceaccounts", "token") | ("authentication.k8s.io", "tokenreviews", _)
    )
}

fn level(name: &str, path: &Path, mistakes: &mut Vec<FieldError>) -> Level {
    let found = Level::ALL.into_iter().find(|level| level.name() == name);
    found.unwrap_or_else(|| {
        mistakes.push(match name {
            "" => FieldError::required(path, ""),
            name => FieldError::not_supported(path, name, &Level::ALL.map(Level::name)),
        });
        Level::None
    })
}

fn stages(names: &[String], path: &Path, mistakes: &mut Vec<FieldError>) -> Vec<Stage> {
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
            Some(stage) => found.push(stage),
            None => {
                let why = format!("allowed stages are {}", Stage::ALL.map(Stage::name).join(","));
                mistakes.push(FieldError::invalid(&path.index(index), name.as_str(), why));
            }
        }
    }
    found
}

impl RawRule {
    fn check(&self, path: &Path, mistakes: &mut Vec<FieldError>) {
        let urls = path.child("nonResourceURLs");
        for (index, url) in self.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut wrong = |why| mistakes.push(FieldError::invalid(&urls.index(index), url.as_str(), why));
            if !url.starts_with('/') {
                wrong("non-resource URL rules must begin with a '/' character");
            }
            if url.strip_suffix('*').unwrap_or(url).contains('*') {
                wrong("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
        let on_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if on_resources && !self.non_resource_urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            mistakes.push(FieldError::invalid(&urls, self.non_resource_urls.clone(), why));
        }
        let resources = path.child("resources");
        for GroupResources { group, resources: names, resource_names } in &self.resources {
            if group != "*"
                && group.chars().any(|c| !c.is_ascii_lowercase() && !c.is_ascii_digit() && !".-".contains(c))
            {
                let why = "must be the name of an API group without a version, such as apps or networking.k8s.io";
                mistakes.push(FieldError::invalid(&resources.child("group"), group.as_str(), why));
            }
            if !resource_names.is_empty() && names.is_empty() {
                let why = "using resourceNames requires at least one resource";
                mistakes.push(FieldError::invalid(&resources.child("resourceNames"), resource_names.clone(), why));
            }
        }
    }

    fn matches(&self, asked: &Attributes<'_>) -> bool {
        let any_or = |list: &[String], wanted: &str| list.is_empty() || list.iter().any(|text| text == wanted);
        if !any_or(&self.users, &asked.user.name) || !any_or(&self.verbs, asked.verb) {
            return false;
        }
        if !self.user_groups.is_empty() && !self.user_groups.iter().any(|group| asked.user.in_group(group)) {
            return false;
        }
        match asked.path {
            _ if self.namespaces.is_empty() && self.resources.is_empty() && self.non_resource_urls.is_empty() => true,
            None if self.namespaces.is_empty() && self.resources.is_empty() => false,
            None => {
                any_or(&self.namespaces, asked.namespace)
                    && (self.resources.is_empty() || self.resources.iter().any(|one| one.matches(asked)))
            }
            Some(path) => self
                .non_resource_urls
                .iter()
                .any(|url| url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))),
        }
    }
}

impl GroupResources {
    fn matches(&self, asked: &Attributes<'_>) -> bool {
        if self.group != "*" && self.group != asked.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named = self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == asked.name);
        named
            && self.resources.iter().any(|resource| match resource.split_once('/') {
                None => resource == "*" || (asked.subresource.is_empty() && resource == asked.resource),
                // `pods/*` is the pod and everything below it.
                Some((of, "*")) => of == asked.resource,
                Some((of, sub)) => sub == asked.subresource && (of == "*" || of == asked.resource),
            })
    }
}
