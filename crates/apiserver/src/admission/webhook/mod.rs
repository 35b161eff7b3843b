//! Webhooks: other servers that are asked about writes before they are stored.
//!
//! `mutate` asks those that may change the object, one after the other; `validate` asks the others, all at once. Which there are
//! is read from the store at every write, so that one that was just configured is asked; what their configurations say is
//! compiled once.

mod hook;
mod review;

use super::{attempt::Attempt, matching::Seen, patched, rounds::Rounds};
use crate::{
    ApiServer,
    request::query::FieldValidation,
    stored,
    webhook::{CallError, Caller, Clients},
};
use api::error::ApiError;
use futures::{StreamExt, stream::FuturesUnordered};
use hook::Hook;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use review::Verdict;
use runtime::metrics::Metrics;
use serde_json::{Value, json};
use std::sync::Arc;

const MUTATING: &str = "mutatingwebhookconfigurations/";
const VALIDATING: &str = "validatingwebhookconfigurations/";

/// What admission itself is configured by, and what decides who may do anything: nobody is asked about these, so that no
/// webhook can lock everybody out.
const EXEMPT: [&str; 3] = ["admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"];

/// Webhooks of this server.
#[derive(Default)]
pub struct Webhooks {
    mutating: Mutex<Compiled>,
    validating: Mutex<Compiled>,
    pub(crate) clients: Clients,
    calls: Family<Call, Counter>,
    opened: Family<Opened, Counter>,
}

/// Webhooks, and the stored configurations that they were read from.
#[derive(Default)]
struct Compiled {
    from: Vec<(store::Key, u64)>,
    hooks: Arc<Hooks>,
}

type Hooks = Vec<Arc<Hook>>;

/// Labels of a call.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: String,
}

/// Labels of a failure that was let pass.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Opened {
    name: String,
    r#type: &'static str,
}

impl Webhooks {
    /// With metrics under upstream's names.
    pub fn new(metrics: &Metrics) -> Self {
        let calls = metrics.register(
            "apiserver_admission_webhook_request",
            "calls of webhooks by name, type, operation and whether they refused",
            Family::default(),
        );
        let opened = metrics.register(
            "apiserver_admission_webhook_fail_open_count",
            "requests that went on although a webhook could not be asked",
            Family::default(),
        );
        Self { calls, opened, ..Self::default() }
    }

    /// Of the configurations below a prefix, in the order of their names.
    async fn hooks(server: &ApiServer, compiled: &Mutex<Compiled>, prefix: &str) -> Result<Arc<Hooks>, ApiError> {
        let page = server.store.list(prefix, None, None, None).await;
        let entries = page.map_err(|error| ApiError::unavailable(error.to_string()))?.entries;
        let from: Vec<_> = entries.iter().map(|entry| (entry.key().clone(), entry.mod_revision())).collect();
        let mut compiled = compiled.lock();
        if compiled.from != from {
            let readable = entries.iter().filter_map(|entry| stored::parse(entry).ok());
            compiled.hooks = Arc::new(readable.flat_map(|configuration| Hook::all(&configuration)).collect());
            compiled.from = from;
        }
        Ok(Arc::clone(&compiled.hooks))
    }
}

/// Whether there are webhooks that may change objects.
pub(crate) async fn change(call: &crate::call::Call) -> Result<bool, ApiError> {
    let server = &call.server;
    Ok(!Webhooks::hooks(server, &server.webhooks.mutating, MUTATING).await?.is_empty())
}

/// Whether there are webhooks that only refuse.
pub(crate) async fn refuse(call: &crate::call::Call) -> Result<bool, ApiError> {
    let server = &call.server;
    Ok(!Webhooks::hooks(server, &server.webhooks.validating, VALIDATING).await?.is_empty())
}

pub(crate) fn is_exempt(attempt: &Attempt<'_>) -> bool {
    EXEMPT.contains(&attempt.target.group.as_str())
}

/// Asks the mutating webhooks.
pub(crate) async fn mutate(attempt: &mut Attempt<'_>, rounds: &mut Rounds) -> Result<(), ApiError> {
    let server = Arc::clone(&attempt.call.server);
    let hooks = Webhooks::hooks(&server, &server.webhooks.mutating, MUTATING).await?;
    if hooks.is_empty() || is_exempt(attempt) || !server.config.admission.mutating_webhooks {
        return Ok(());
    }
    rounds.webhooks.begin(rounds.round, attempt.object.as_ref());
    for (index, hook) in hooks.iter().enumerate() {
        let Some(seen) = hook.matches(attempt).await? else { continue };
        let id = vec![hook.configuration.clone(), hook.name.clone()];
        if !rounds.webhooks.is_due(rounds.round, &id) {
            continue;
        }
        let place = format!("round_{}_index_{index}", rounds.round);
        let changed = match ask(attempt, hook, &seen, Kind::Admit).await {
            Ok(patch) => {
                let before = attempt.object.clone();
                if let Some(patch) = patch {
                    apply(attempt, hook, &seen, &patch).await?;
                    let text = json!({"configuration": hook.configuration, "webhook": hook.name,
                                      "patch": patch, "patchType": "JSONPatch"});
                    attempt.call.annotate(format!("patch.webhook.admission.k8s.io/{place}"), text.to_string());
                }
                before != attempt.object
            }
            Err(failure) => {
                pass_or_refuse(attempt, hook, failure, "mutation", &place)?;
                false
            }
        };
        let text = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": changed});
        attempt.call.annotate(format!("mutation.webhook.admission.k8s.io/{place}"), text.to_string());
        if changed {
            rounds.webhooks.change();
            rounds.changed = true;
        }
        if hook.reinvoked {
            rounds.webhooks.wants_again(id);
        }
    }
    rounds.webhooks.end(attempt.object.as_ref());
    Ok(())
}

/// Asks the validating webhooks.
pub(crate) async fn validate(attempt: &Attempt<'_>) -> Result<(), ApiError> {
    let server = &attempt.call.server;
    let hooks = Webhooks::hooks(server, &server.webhooks.validating, VALIDATING).await?;
    if hooks.is_empty() || is_exempt(attempt) || !server.config.admission.validating_webhooks {
        return Ok(());
    }
    let mut relevant = Vec::new();
    for hook in hooks.iter() {
        if let Some(seen) = hook.matches(attempt).await? {
            relevant.push((hook, seen));
        }
    }
    let mut asked: FuturesUnordered<_> = relevant
        .iter()
        .enumerate()
        .map(|(index, (hook, seen))| async move { (index, *hook, ask(attempt, hook, seen, Kind::Validate).await) })
        .collect();
    let mut refused = None;
    while let Some((index, hook, answered)) = asked.next().await {
        if let Err(failure) = answered {
            let ended = pass_or_refuse(attempt, hook, failure, "validating", &format!("round_0_index_{index}"));
            // All are heard, the first in order is told.
            if let Err(error) = ended
                && refused.as_ref().is_none_or(|(first, _)| index < *first)
            {
                refused = Some((index, error));
            }
        }
    }
    refused.map_or(Ok(()), |(_, error)| Err(error))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Admit,
    Validate,
}

/// Why a webhook did not say yes.
enum Failure {
    /// It said no.
    Refused(ApiError),
    /// It could not be asked, or gave no answer.
    NoAnswer(String),
}

/// The patch that a webhook wants, if any.
async fn ask(attempt: &Attempt<'_>, hook: &Hook, seen: &Seen, kind: Kind) -> Result<Option<Value>, Failure> {
    let call = attempt.call;
    if attempt.dry_run && !hook.without_side_effects {
        let text = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Refused(ApiError::bad_request(text)));
    }
    let version = hook.review_version.ok_or_else(|| {
        Failure::NoAnswer(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        )
    })?;
    let uid = uuid::Uuid::new_v4().to_string();
    let sent = review::request(attempt, seen, version, &uid).await.map_err(Failure::Refused)?;
    let webhooks = &call.server.webhooks;
    let caller = if kind == Kind::Admit { Caller::Mutating } else { Caller::Validating };
    let answer = webhooks.clients.post(&call.server, caller, &hook.client, &sent, hook.timeout).await;
    let answer = answer.map_err(|error| match error {
        CallError::Client(why) => format!("could not get REST client: {why}"),
        CallError::Call(why) => format!("failed to call webhook: {why}"),
    });
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let verdict =
        answer.and_then(|answer| review::answer(hook, kind == Kind::Admit, version, &uid, &answer).map_err(invalid));
    let rejected = !matches!(&verdict, Ok(Verdict { refused: None, .. }));
    let labels = Call {
        name: hook.name.clone(),
        r#type: if kind == Kind::Admit { "admit" } else { "validating" },
        operation: attempt.operation.name(),
        rejected: (rejected && !(verdict.is_err() && hook.fails_open)).to_string(),
    };
    webhooks.calls.get_or_create(&labels).inc();
    let Verdict { refused, patch, warnings, annotations } = verdict.map_err(Failure::NoAnswer)?;
    call.warn(warnings);
    annotations.into_iter().for_each(|(key, value)| call.annotate(key, value));
    refused.map_or(Ok(patch), |error| Err(Failure::Refused(error)))
}

/// A refusal stands; a webhook that could not be asked is passed over where its configuration says so.
fn pass_or_refuse(
    attempt: &Attempt<'_>,
    hook: &Hook,
    failure: Failure,
    kind: &'static str,
    place: &str,
) -> Result<(), ApiError> {
    let why = match failure {
        Failure::Refused(error) => return Err(error),
        Failure::NoAnswer(why) => why,
    };
    let text = format!("failed calling webhook {:?}: {why}", hook.name);
    if !hook.fails_open {
        tracing::warn!(
            configuration = hook.configuration,
            problem = text,
            "a webhook cannot be asked, the request is refused"
        );
        return Err(ApiError::internal(text));
    }
    tracing::warn!(
        configuration = hook.configuration,
        problem = text,
        "a webhook cannot be asked, the request goes on"
    );
    let labels = Opened { name: hook.name.clone(), r#type: if kind == "mutation" { "admit" } else { "validating" } };
    attempt.call.server.webhooks.opened.get_or_create(&labels).inc();
    attempt.call.annotate(format!("failed-open.{kind}.webhook.admission.k8s.io/{place}"), hook.name.clone());
    Ok(())
}

/// Changes the object as the webhook wants it, in the words in which it was told of it.
async fn apply(attempt: &mut Attempt<'_>, hook: &Hook, seen: &Seen, patch: &Value) -> Result<(), ApiError> {
    let (Some(object), _) = seen.objects(attempt).await? else {
        let text = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        );
        return Err(ApiError::internal(text));
    };
    let patched = patch::json::apply(object, patch).map_err(|error| ApiError::internal(error.message))?;
    patched::take(attempt, seen, patched, FieldValidation::Ignore).await
}
