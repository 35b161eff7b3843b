//! Webhooks that say who may what, and the file that puts authorizers in order (`--authorization-config`).

use super::{FileMistakes, WebhookMetrics, cache::Cache, called, remote::Remote, wait};
use access::{
    Layer, Mode,
    authz::{Attributes, Authorizer, Decision},
};
use api::object::Fields;
use schema::cel::{Bound, Budget, Makes, Outcome, Program, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// What counts when a webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The next one is asked.
    NoOpinion,
    Deny,
}

/// `--authorization-webhook-*`, or an entry of the file.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// What metrics call it.
    pub name: String,
    pub config: PathBuf,
    /// Of SubjectAccessReview, `v1` or `v1beta1`.
    pub version: String,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub timeout: Duration,
    pub failure_policy: FailurePolicy,
    /// CEL on `request`; all must be true.
    pub conditions: Vec<String>,
}

pub struct Webhook {
    remote: Remote,
    settings: WebhookSettings,
    conditions: Vec<Program>,
    known: Cache<String, Decision>,
    metrics: WebhookMetrics,
}

impl Webhook {
    /// As its settings say; mistakes complete "FIELD: ".
    pub fn new(settings: WebhookSettings, metrics: WebhookMetrics) -> Result<Self, String> {
        let remote = Remote::load(&settings.config).map_err(|why| format!("{}: {why}", settings.config.display()))?;
        let scope = Scope::anything("request");
        let conditions = settings.conditions.iter().map(|text| Program::compile(text, &scope, Makes::Bool));
        let conditions = conditions.collect::<Result<_, _>>().map_err(|why| format!("matchConditions: {why}"))?;
        Ok(Self { remote, settings, conditions, known: Cache::default(), metrics })
    }

    /// Whether the webhook is asked at all; an error is for the failure policy.
    fn is_meant(&self, spec: &Value) -> Result<bool, String> {
        let mut budget = Budget::for_conditions();
        let bound = Bound::new().with("request", spec);
        let mut error = None;
        for condition in &self.conditions {
            match condition.run(&bound, &mut budget) {
                Ok(Outcome::Bool(true)) => {}
                // One that is false settles it, whatever becomes of the others.
                Ok(Outcome::Bool(false)) => return Ok(false),
                Ok(_) => error = Some(format!("{:?} is no bool", condition.text())),
                Err(why) => error = Some(format!("{:?}: {why:?}", condition.text())),
            }
        }
        error.map_or(Ok(true), Err)
    }

    async fn ask(&self, spec: &Value) -> Result<Decision, String> {
        let review = json!({
            "apiVersion": format!("authorization.k8s.io/{}", self.settings.version), "kind": "SubjectAccessReview",
            "metadata": {"creationTimestamp": null}, "spec": spec, "status": {"allowed": false},
        });
        let answer = self.remote.post(review.to_string().into(), self.settings.timeout).await?;
        let answer: Value =
            serde_json::from_slice(&answer).map_err(|error| format!("the answer is no JSON: {error}"))?;
        decision(&answer)
    }
}

/// What an answer says.
pub(super) fn decision(answer: &Value) -> Result<Decision, String> {
    let status = answer.at("status");
    let reason = || status.str_at("reason").into();
    match (status.is_true("allowed"), status.is_true("denied")) {
        (true, true) => Err("the answer both allows and denies".to_owned()),
        (true, false) => Ok(Decision::Allow(reason())),
        (false, true) => Ok(Decision::Deny(reason())),
        (false, false) => Ok(Decision::NoOpinion(reason())),
    }
}

impl Authorizer for Webhook {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let spec = spec(attributes);
        let name = &self.settings.name;
        let failed = |why: String| {
            tracing::warn!(webhook = name, why, "an authorization webhook did not answer");
            match self.settings.failure_policy {
                FailurePolicy::NoOpinion => Decision::none(),
                FailurePolicy::Deny => Decision::Deny("the authorization webhook did not answer".into()),
            }
        };
        let begun = Instant::now();
        let meant = self.is_meant(&spec);
        if !self.conditions.is_empty() {
            self.metrics.matched(name, &meant, begun.elapsed());
        }
        match meant {
            Ok(true) => {}
            Ok(false) => return Decision::none(),
            Err(why) => return failed(why),
        }
        let key = spec.to_string();
        if let Some(known) = self.known.get(&key, Instant::now()) {
            return known;
        }
        let begun = Instant::now();
        let answer = wait(self.ask(&spec));
        let took = begun.elapsed();
        let result = match &answer {
            Ok(_) => "success",
            Err(_) if took >= self.settings.timeout => "timeout",
            Err(_) => "error",
        };
        self.metrics.asked(name, result, took);
        match answer {
            Ok(decision) => {
                let holds = match decision.allowed() {
                    true => self.settings.authorized_ttl,
                    false => self.settings.unauthorized_ttl,
                };
                self.known.put(key, decision.clone(), Instant::now(), holds);
                decision
            }
            Err(why) => {
                if self.settings.failure_policy == FailurePolicy::NoOpinion {
                    self.metrics.passed_on(name, result);
                }
                failed(why)
            }
        }
    }

    fn rules_for(&self, _user: &access::authn::User, _namespace: &str) -> access::authz::Rules {
        let errors = vec!["webhook authorizer does not support user rule resolution".to_owned()];
        access::authz::Rules { incomplete: true, errors, ..Default::default() }
    }
}

/// The question as a SubjectAccessReview puts it.
pub(super) fn spec(attributes: &Attributes<'_>) -> Value {
    let Attributes { user, verb, namespace, group, version, resource, subresource, name, field_selector: _, path } =
        attributes;
    let mut spec = json!({"user": user.name});
    for (field, given) in [("uid", user.uid.as_str())] {
        if !given.is_empty() {
            spec[field] = given.into();
        }
    }
    if !user.groups.is_empty() {
        spec["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    match path {
        Some(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": verb}),
        None => {
            let mut asked = json!({});
            for (field, given) in [
                ("namespace", namespace),
                ("verb", verb),
                ("group", group),
                ("version", version),
                ("resource", resource),
                ("subresource", subresource),
                ("name", name),
            ] {
                if !given.is_empty() {
                    asked[field] = (*given).into();
                }
            }
            spec["resourceAttributes"] = asked;
        }
    }
    spec
}

/// What the file says: authorizers in their order.
pub struct AuthorizationConfiguration(pub Vec<Layer>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    authorizers: Vec<RawAuthorizer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawAuthorizer {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<RawWebhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawWebhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    #[serde(default)]
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    #[serde(default)]
    cache_unauthorized_requests: Option<bool>,
    timeout: Option<String>,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    connection_info: Option<RawConnection>,
    #[serde(default)]
    match_conditions: Vec<RawCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawConnection {
    #[serde(rename = "type", default)]
    kind: String,
    kube_config_file: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCondition {
    expression: String,
}

impl AuthorizationConfiguration {
    /// Reads the text; kubeconfigs that it names are read as well.
    pub fn parse(text: &str, metrics: &WebhookMetrics) -> Result<Self, FileMistakes> {
        let Raw { api_version, kind, authorizers } = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let mut mistakes = Vec::new();
        called(&api_version, &kind, "AuthorizationConfiguration", &mut mistakes);
        if authorizers.is_empty() {
            mistakes.push("authorizers: at least one is needed".to_owned());
        }
        let (mut names, mut modes) = (BTreeSet::new(), Vec::new());
        let mut layers = Vec::new();
        for (index, RawAuthorizer { kind, name, webhook }) in authorizers.into_iter().enumerate() {
            let at = format!("authorizers[{index}]");
            if name.is_empty() {
                mistakes.push(format!("{at}.name: is needed"));
            } else if !names.insert(name.clone()) {
                mistakes.push(format!("{at}.name: {name:?} stands twice"));
            }
            let mode = match (kind.as_str(), webhook) {
                ("Webhook", Some(webhook)) => {
                    let settings = settings(&at, name, webhook, &mut mistakes);
                    match settings.map(|settings| Webhook::new(settings, metrics.clone())) {
                        Some(Ok(webhook)) => layers.push(Layer::Other(Arc::new(webhook))),
                        Some(Err(why)) => mistakes.push(format!("{at}.webhook: {why}")),
                        None => {}
                    }
                    continue;
                }
                ("Webhook", None) => {
                    mistakes.push(format!("{at}.webhook: is needed"));
                    continue;
                }
                (_, Some(_)) => {
                    mistakes.push(format!("{at}.webhook: only type Webhook has one"));
                    continue;
                }
                ("Node", None) => Mode::Node,
                ("RBAC", None) => Mode::Rbac,
                ("AlwaysAllow", None) => Mode::AlwaysAllow,
                ("AlwaysDeny", None) => Mode::AlwaysDeny,
                (other, None) => {
                    let accepted = "Webhook, Node, RBAC, AlwaysAllow, AlwaysDeny";
                    mistakes.push(format!("{at}.type: {other:?} is not accepted; accepted: {accepted}"));
                    continue;
                }
            };
            if modes.contains(&mode) {
                mistakes.push(format!("{at}.type: {kind:?} stands twice; accepted more than once: Webhook"));
            }
            modes.push(mode);
            layers.push(Layer::Mode(mode));
        }
        if mistakes.is_empty() { Ok(Self(layers)) } else { Err(FileMistakes(mistakes)) }
    }

    /// Refuses to do without one of the server's own authorizers that stood in the file when the server began, as upstream does: a
    /// file that was cut off must not leave the door open or shut.
    pub fn keeps(self, begun: &[Mode]) -> Result<Self, FileMistakes> {
        let missing: Vec<Mode> = begun.iter().filter(|mode| !self.modes().contains(mode)).copied().collect();
        if missing.is_empty() {
            return Ok(self);
        }
        Err(format!("authorizers: missing required types: {missing:?}").into())
    }

    /// The server's own authorizers among them.
    pub fn modes(&self) -> Vec<Mode> {
        let mode = |layer: &Layer| match layer {
            Layer::Mode(mode) => Some(*mode),
            Layer::Other(_) => None,
        };
        self.0.iter().filter_map(mode).collect()
    }
}

fn settings(at: &str, name: String, webhook: RawWebhook, mistakes: &mut Vec<String>) -> Option<WebhookSettings> {
    let before = mistakes.len();
    let mut duration = |field: &str, given: Option<String>, otherwise: &str| {
        let text = given.unwrap_or_else(|| otherwise.to_owned());
        let nanos = api::go_duration::nanoseconds(&text).and_then(|nanos| u64::try_from(nanos).ok());
        if nanos.is_none() {
            mistakes.push(format!("{at}.webhook.{field}: {text:?} is no duration such as 30s"));
        }
        Duration::from_nanos(nanos.unwrap_or_default())
    };
    let authorized_ttl = duration("authorizedTTL", webhook.authorized_ttl, "5m");
    let unauthorized_ttl = duration("unauthorizedTTL", webhook.unauthorized_ttl, "30s");
    let timeout = duration("timeout", webhook.timeout, "");
    if timeout.is_zero() || timeout > Duration::from_secs(30) {
        mistakes.push(format!("{at}.webhook.timeout: must be more than 0 and at most 30s"));
    }
    let mut one_of = |field: &str, given: &str, accepted: &[&str]| {
        if !accepted.contains(&given) {
            mistakes
                .push(format!("{at}.webhook.{field}: {given:?} is not accepted; accepted: {}", accepted.join(", ")));
        }
    };
    one_of("subjectAccessReviewVersion", &webhook.subject_access_review_version, &["v1", "v1beta1"]);
    if !webhook.match_conditions.is_empty() {
        let version = &webhook.match_condition_subject_access_review_version;
        one_of("matchConditionSubjectAccessReviewVersion", version, &["v1"]);
    }
    one_of("failurePolicy", &webhook.failure_policy, &["NoOpinion", "Deny"]);
    let connection = webhook.connection_info.unwrap_or(RawConnection { kind: String::new(), kube_config_file: None });
    one_of("connectionInfo.type", &connection.kind, &["KubeConfigFile"]);
    let Some(config) = connection.kube_config_file else {
        mistakes.push(format!("{at}.webhook.connectionInfo.kubeConfigFile: is needed"));
        return None;
    };
    let kept = |holds: Duration, wanted: Option<bool>| if wanted == Some(false) { Duration::ZERO } else { holds };
    (mistakes.len() == before).then(|| WebhookSettings {
        name,
        config: config.into(),
        version: webhook.subject_access_review_version,
        authorized_ttl: kept(authorized_ttl, webhook.cache_authorized_requests),
        unauthorized_ttl: kept(unauthorized_ttl, webhook.cache_unauthorized_requests),
        timeout,
        failure_policy: if webhook.failure_policy == "Deny" { FailurePolicy::Deny } else { FailurePolicy::NoOpinion },
        conditions: webhook.match_conditions.into_iter().map(|condition| condition.expression).collect(),
    })
}
