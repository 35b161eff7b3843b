//! A webhook as its configuration describes it, read once, and the requests that it is called for.

use crate::admission::{
    attempt::{Attempt, Target},
    matching::{Matcher, Seen},
};
use api::{
    error::ApiError,
    kinds::{check::texts, webhook::REVIEW_VERSIONS},
    object::Fields,
};
use schema::cel::{Budget, Failure, Makes, Outcome, Program, Scope};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// One webhook.
pub(super) struct Hook {
    pub(super) configuration: String,
    pub(super) name: String,
    matcher: Matcher,
    conditions: Vec<Result<Program, String>>,
    /// Whether the request goes on when the webhook cannot be asked.
    pub(super) fails_open: bool,
    /// Whether it may be asked in a dry run.
    pub(super) without_side_effects: bool,
    pub(super) timeout: Duration,
    /// Whether it is asked again when others changed the object after it.
    pub(super) reinvoked: bool,
    /// The first version of AdmissionReview that both sides know.
    pub(super) review_version: Option<&'static str>,
    pub(super) client: Value,
}

impl Hook {
    /// The webhooks of a configuration, in their order.
    pub(super) fn all(configuration: &Value) -> Vec<Arc<Self>> {
        let name = configuration.str_at("metadata.name");
        configuration.list_at("webhooks").iter().map(|hook| Arc::new(Self::read(name, hook))).collect()
    }

    fn read(configuration: &str, hook: &Value) -> Self {
        let scope = Scope::request().with_authorizer();
        let conditions = hook.list_at("matchConditions").iter();
        let spoken = texts(hook, "admissionReviewVersions");
        let seconds = hook.int_at("timeoutSeconds").and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            configuration: configuration.to_owned(),
            name: hook.str_at("name").to_owned(),
            matcher: Matcher::read(hook, "rules"),
            conditions: conditions
                .map(|condition| Program::compile(condition.str_at("expression").trim(), &scope, Makes::Bool))
                .collect(),
            fails_open: hook.str_at("failurePolicy") == "Ignore",
            without_side_effects: matches!(hook.str_at("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.unwrap_or(10).clamp(1, 30)),
            reinvoked: hook.str_at("reinvocationPolicy") == "IfNeeded",
            review_version: spoken.iter().find_map(|one| REVIEW_VERSIONS.into_iter().find(|known| known == one)),
            client: hook.at("clientConfig").clone(),
        }
    }

    /// What the request is for this webhook; none when it is not called.
    pub(super) async fn matches(&self, attempt: &Attempt<'_>) -> Result<Option<Seen>, ApiError> {
        let Some(seen) = self.matcher.matches(attempt)? else { return Ok(None) };
        Ok(if self.agrees(attempt, &seen).await? { Some(seen) } else { None })
    }

    /// Whether all conditions hold. One that fails decides with the failure policy, unless another one says no.
    async fn agrees(&self, attempt: &Attempt<'_>, seen: &Seen) -> Result<bool, ApiError> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let (object, old) = seen.objects(attempt).await?;
        let bound = attempt.bound(&attempt.request(&seen.target), object.as_ref(), old.as_ref());
        let mut budget = Budget::for_conditions();
        let mut failed = Vec::new();
        for condition in &self.conditions {
            let outcome = match condition {
                Ok(program) => program.run(&bound, &mut budget),
                Err(why) => Err(Failure::Error(why.clone())),
            };
            match outcome {
                Ok(Outcome::Bool(true)) => {}
                Ok(Outcome::Bool(false)) => return Ok(false),
                Ok(_) => failed.push("no such overload: the condition is not a bool".to_owned()),
                Err(Failure::Error(why) | Failure::Misshapen(why)) => failed.push(why),
                Err(Failure::Spent) => {
                    failed.push(
                        "validation failed due to running out of cost budget, no further validation rules will be run"
                            .to_owned(),
                    );
                    break;
                }
            }
        }
        match failed.as_slice() {
            [] => Ok(true),
            _ if self.fails_open => Ok(false),
            failed => {
                let why = if let [one] = failed { one.clone() } else { format!("[{}]", failed.join(", ")) };
                let Target { group, resource, .. } = &attempt.target;
                Err(ApiError::forbidden(resource, group, &attempt.name, why))
            }
        }
    }
}
