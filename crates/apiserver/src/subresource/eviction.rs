//! `pods/NAME/eviction`: a deletion that respects disruption budgets.

use crate::{
    admission,
    answer::{self, Answer},
    call::Call,
    request::{body, query::DryRun},
    services::Reserved,
    stored,
    verbs::{
        create,
        delete::{self, options::DeleteOptions},
        write,
    },
};
use api::{
    error::ApiError,
    kinds::selector,
    object::{Fields, timestamp},
};
use serde_json::{Value, json};
use store::{Compare, Entry, Op, Txn};

/// How often a budget that changes under us is tried again.
const TRIES: usize = 10;

/// POST of an Eviction.
pub(super) async fn evict(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let mut eviction = body::parse(bytes, &call.content_type)?.value;
    // Evictions outlived the rest of their first version: kubectl before 1.22 sends it.
    let version = if eviction.str_at("apiVersion") == "policy/v1beta1" { "policy/v1beta1" } else { "policy/v1" };
    body::expect_kind(&mut eviction, version, "Eviction")?;
    if eviction.str_at("metadata.name") != call.request.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    create::match_namespace(call, &mut eviction)?;
    let eviction = admission::evict(call, eviction).await?;
    let options = eviction.at("deleteOptions").clone();
    let text = if options.is_null() { String::new() } else { options.to_string() };
    let mut options = DeleteOptions::new(&call.query, text.as_bytes(), "application/json")?;
    let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
    let pod = stored::parse(&entry)?;
    if needs_budget(&pod) {
        spend(call, &pod, &options).await?;
    }
    if options.dry_run == DryRun::No {
        mark(call, &mut options).await?;
    }
    delete::delete_object(call, &call.key(), &options).await?;
    answer::value(
        call,
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// Pods that do not run any more, or never did, disturb nobody.
fn needs_budget(pod: &Value) -> bool {
    pod.at("metadata.deletionTimestamp").is_null()
        && !matches!(pod.str_at("status.phase"), "Succeeded" | "Failed" | "Pending")
}

/// Says on the Pod that it was evicted, so that a Job can tell that from a failure of its own.
async fn mark(call: &Call, options: &mut DeleteOptions) -> Result<(), ApiError> {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": timestamp(call.server.now())});
    for _ in 0..TRIES {
        let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
        let mut pod = stored::parse(&entry)?;
        options.check(call, &pod)?;
        let others = pod.list_at("status.conditions").iter().filter(|other| other["type"] != condition["type"]);
        let conditions: Vec<Value> = others.chain([&condition]).cloned().collect();
        pod.set("status.conditions", conditions);
        if let write::Put::Done(written) = write::put_changed(call, &entry, &pod, Reserved::none(), DryRun::No).await? {
            // Whoever named a resourceVersion means the Pod of which it was looked at just now.
            options.resource_version = options.resource_version.take().map(|_| written.revision.to_string());
            return Ok(());
        }
    }
    Err(ApiError::too_many_requests("the pod keeps changing; please try again", 10))
}

/// Takes one disruption from the Pod's budget, or answers 429.
async fn spend(call: &Call, pod: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    for _ in 0..TRIES {
        let prefix = format!("poddisruptionbudgets/{}/", call.request.namespace);
        let page = call.server.store.list(&prefix, None, None, None).await.map_err(ApiError::internal)?;
        let covers = |entry: &&Entry| {
            stored::parse(entry)
                .is_ok_and(|budget| selector::matches(budget.at("spec.selector"), pod.at("metadata.labels")))
        };
        let budgets: Vec<&Entry> = page.entries.iter().filter(covers).collect();
        let entry = match budgets.as_slice() {
            [] => return Ok(()),
            [one] => *one,
            _ => {
                return Err(ApiError::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let mut budget = stored::parse(entry)?;
        let name = pod.str_at("metadata.name");
        let ready = pod
            .list_at("status.conditions")
            .iter()
            .any(|c| c.str_at("type") == "Ready" && c.str_at("status") == "True");
        let unhealthy_freely = budget.str_at("spec.unhealthyPodEvictionPolicy") == "AlwaysAllow";
        let healthy_enough = budget.int_at("status.currentHealthy") >= budget.int_at("status.desiredHealthy");
        if !ready && (unhealthy_freely || (healthy_enough && budget.int_at("status.desiredHealthy") > Some(0))) {
            return Ok(());
        }
        let stale =
            budget.int_at("status.observedGeneration").unwrap_or(0) < budget.int_at("metadata.generation").unwrap_or(0);
        let allowed = budget.int_at("status.disruptionsAllowed").unwrap_or(0);
        if stale || allowed <= 0 {
            return Err(refused(&budget, stale));
        }
        budget.set("status.disruptionsAllowed", allowed - 1);
        let disrupted = budget.at_mut("status.disruptedPods");
        if !disrupted.is_object() {
            *disrupted = json!({});
        }
        disrupted[name] = timestamp(call.server.now()).into();
        if options.dry_run == DryRun::All {
            return Ok(());
        }
        let txn = Txn::of([Op::Put(entry.key().clone(), stored::encode(&budget)?)])
            .when(entry.key().clone(), Compare::ModRevision(entry.mod_revision()));
        match call.server.store.txn(txn).await {
            Ok(_) => return Ok(()),
            Err(store::TxnError::Conflict(_)) => {}
            Err(error) => return Err(write::store_error(&error)),
        }
    }
    Err(ApiError::too_many_requests("the disruption budget keeps changing; please try again", 10))
}

fn refused(budget: &Value, stale: bool) -> ApiError {
    let name = budget.str_at("metadata.name");
    let why = if stale {
        format!("The disruption budget {name} is still being processed by the server.")
    } else {
        format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            budget.int_at("status.desiredHealthy").unwrap_or(0),
            budget.int_at("status.currentHealthy").unwrap_or(0)
        )
    };
    ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
        .with_details(json!({"retryAfterSeconds": if stale { 10 } else { 0 }, "causes": [{"reason": "DisruptionBudget", "message": why}]}))
}
