//! The ClusterOperator `ingress`: what the cluster as a whole is told, where its API has such objects.
//!
//! Available and Degraded are those of the IngressController `default`; Progressing, Upgradeable and EvaluationConditionsDetected are gathered from
//! all. Reasons are upstream's.

use super::{
    MANAGER, OperatorOptions, names,
    objects::{ClusterOperator, ClusterOperatorStatus, IngressController, Nothing, OperandVersion},
    status::{condition, merge},
};
use api::config::OperatorCondition;
use jiff::Timestamp;
use kube::ResourceExt;
use runtime::{
    controller::{Context, Key, Next, Queue, Reconcile, Result, Store, work},
    operator::{Children, discovery},
};
use serde_json::json;
use std::sync::Arc;

/// The object's name.
const NAME: &str = "ingress";
/// What stands for a version that is not reached yet.
const UNKNOWN: &str = "unknown";

struct Operators {
    children: Children,
    controllers: Store<IngressController>,
    operators: Store<ClusterOperator>,
    image: String,
}

/// Runs the loop; while the API has no ClusterOperators there is nothing to do.
pub(super) async fn run(context: Context<OperatorOptions>) -> Result<()> {
    super::define(&context.client()).await?;
    discovery::until_served(&context.client(), discovery::CLUSTER_OPERATOR).await?;
    let controllers = context.store_in::<IngressController>(names::OPERATOR_NAMESPACE);
    let operators = context.store::<ClusterOperator>();
    let queue: Queue<Key> = context.queue("cluster-operator");
    let _controllers = controllers.on_change({
        let queue = queue.clone();
        move |_| queue.add(Key::cluster(NAME))
    });
    let _operators = operators.on_change({
        let queue = queue.clone();
        move |change| {
            if change.key().name == NAME {
                queue.add(Key::cluster(NAME));
            }
        }
    });
    context.synced(&[&controllers, &operators]).await;
    queue.add(Key::cluster(NAME));
    let image = context.options().image.clone();
    let children = Children::new(context.client(), MANAGER);
    work(&queue, 1, &Operators { children, controllers, operators, image }).await
}

impl Reconcile for Operators {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(live) = self.operators.get(key) else {
            let new = || Ok(json!(ClusterOperator::new(None, NAME, Nothing::default())));
            self.children.create_once::<ClusterOperator>(None, NAME, new).await?;
            return Ok(Next::Done);
        };
        let before = live.status.clone().unwrap_or_default();
        let controllers: Vec<_> =
            self.controllers.all().into_iter().filter(|one| one.metadata.deletion_timestamp.is_none()).collect();
        let status = status(&before, controllers, &self.image, Timestamp::now());
        self.children.status(&self.operators, &live, &status).await?;
        Ok(Next::Done)
    }
}

/// What there is to say. `image` is what routers run.
pub fn status(
    before: &ClusterOperatorStatus,
    mut controllers: Vec<Arc<IngressController>>,
    image: &str,
    now: Timestamp,
) -> ClusterOperatorStatus {
    controllers.sort_by_key(|one| one.name_any());
    let all_available = !controllers.is_empty() && controllers.iter().all(|one| is(one, "Available", "True"));
    // An older version is told until all IngressControllers have followed.
    let reached = [("operator", runtime::version::BUILD.version), ("ingress-controller", image)];
    let versions: Vec<OperandVersion> = reached
        .map(|(name, version)| {
            let known = before.versions.iter().find(|known| known.name == name).map(|known| known.version.clone());
            let version = if all_available { version.to_owned() } else { known.unwrap_or_else(|| UNKNOWN.to_owned()) };
            OperandVersion { name: name.to_owned(), version }
        })
        .into();
    let moving = reached.iter().zip(&versions).filter(|((_, wanted), known)| known.version != *wanted);
    let moving: Vec<String> =
        moving.map(|((name, wanted), _)| format!("{name} is moving to version {wanted}")).collect();
    let conditions = vec![
        of_default(&controllers, "Available", ["IngressAvailable", "IngressUnavailable"], "False"),
        progressing(&controllers, all_available, moving),
        of_default(&controllers, "Degraded", ["IngressDegraded", "IngressNotDegraded"], "True"),
        gathered(
            &controllers,
            "Upgradeable",
            "False",
            ["IngressControllersNotUpgradeable", "IngressControllersUpgradeable"],
        ),
        gathered(
            &controllers,
            "EvaluationConditionsDetected",
            "True",
            ["IngressControllersHaveEvaluationConditions", "AsExpected"],
        ),
    ];
    let others = before.conditions.iter().filter(|known| !conditions.iter().any(|own| own.kind == known.kind)).cloned();
    let others: Vec<_> = others.collect();
    let mut conditions = merge::merge(&before.conditions, conditions, now);
    conditions.extend(others);
    let namespace = names::OPERATOR_NAMESPACE;
    let related_objects = vec![
        json!({"group": "", "resource": "namespaces", "name": namespace}),
        json!({"group": "operator.openshift.io", "resource": "ingresscontrollers", "namespace": namespace, "name": ""}),
        json!({"group": "ingress.operator.openshift.io", "resource": "dnsrecords", "namespace": namespace, "name": ""}),
        json!({"group": "", "resource": "namespaces", "name": names::OPERAND_NAMESPACE}),
    ];
    ClusterOperatorStatus { conditions, versions, related_objects, rest: before.rest.clone() }
}

fn find<'a>(controller: &'a IngressController, kind: &str) -> Option<&'a OperatorCondition> {
    controller.status.as_ref()?.conditions.iter().find(|condition| condition.kind == kind)
}

fn is(controller: &IngressController, kind: &str, status: &str) -> bool {
    find(controller, kind).is_some_and(|condition| condition.status == status)
}

/// A condition of the default IngressController; `reasons` are for True and False, `missing` is the status without one.
fn of_default(all: &[Arc<IngressController>], kind: &str, reasons: [&str; 2], missing: &str) -> OperatorCondition {
    let Some(default) = all.iter().find(|one| one.name_any() == names::DEFAULT) else {
        return condition(kind, missing, "IngressDoesNotExist", "There is no IngressController \"default\".");
    };
    let Some(known) = find(default, kind) else {
        let reason = format!("IngressDoesNotHave{kind}Condition");
        return condition(
            kind,
            "Unknown",
            &reason,
            format!("The IngressController \"default\" does not say {kind} yet."),
        );
    };
    let message = format!("The IngressController \"default\" says {kind}={}: {}", known.status, known.message);
    match known.status.as_str() {
        "True" => condition(kind, "True", reasons[0], message),
        "False" => condition(kind, "False", reasons[1], message),
        _ => condition(kind, "Unknown", &format!("Ingress{kind}StatusUnknown"), message),
    }
}

fn progressing(all: &[Arc<IngressController>], all_available: bool, moving: Vec<String>) -> OperatorCondition {
    let mut messages = messages_of(all, "Progressing", "True");
    if !all_available {
        messages.push("not all IngressControllers are available".to_owned());
    }
    messages.extend(moving);
    match messages.is_empty() {
        true => condition("Progressing", "False", "AsExpected", "All IngressControllers are as they should be."),
        false => condition("Progressing", "True", "Reconciling", messages.join("; ")),
    }
}

/// A condition that one IngressController is enough for: `status` with the first reason, else the other way round.
fn gathered(all: &[Arc<IngressController>], kind: &str, status: &str, reasons: [&str; 2]) -> OperatorCondition {
    let messages = messages_of(all, kind, status);
    let otherwise = if status == "True" { "False" } else { "True" };
    match messages.is_empty() {
        true => condition(kind, otherwise, reasons[1], ""),
        false => condition(kind, status, reasons[0], messages.join("; ")),
    }
}

fn messages_of(all: &[Arc<IngressController>], kind: &str, status: &str) -> Vec<String> {
    let found = all.iter().filter_map(|one| Some((one.name_any(), find(one, kind)?)));
    let found = found.filter(|(_, condition)| condition.status == status);
    found.map(|(name, condition)| format!("{name}: {} ({})", condition.reason, condition.message)).collect()
}

#[cfg(test)]
mod tests;
