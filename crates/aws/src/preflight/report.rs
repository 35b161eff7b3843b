//! What the role may not do, told at the start: in the log, as an event, a metric and a line of the health checks. Nothing waits for it.

use super::ForRoutes;
use crate::{apply::Aws, report::everybody};
use kube::Client;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use runtime::{admin::Admin, controller::Events, health::Scope, task::Tasks};
use std::sync::{Arc, OnceLock};

/// Where the policy stands that has everything.
const POLICY: &str = "docs/guide/aws-iam.md";

type Missing = Family<Vec<(&'static str, String)>, Gauge>;

/// Looks once, beside everything else.
pub fn look(aws: Arc<Aws>, routes: ForRoutes, client: Client, admin: &Admin, tasks: &Tasks) {
    let gauge = admin.metrics.register(
        "twinstack_aws_missing_permissions",
        "IAM actions that the role was found to lack when the manager started",
        Missing::default(),
    );
    let found: Arc<OnceLock<Vec<String>>> = Arc::default();
    let shown = Arc::clone(&found);
    admin.health.add("aws-permissions", Scope::Advice, move || match shown.get() {
        Some(missing) if !missing.is_empty() => Err(format!("the role lacks {}", missing.join(", "))),
        _ => Ok(()),
    });
    tasks.once("aws-permissions", move |stop| async move {
        tokio::select! {
            () = stop.cancelled() => {}
            missing = aws.missing_permissions(routes) => {
                report(&missing, &gauge, &Events::new(client, "cloud-controller-manager")).await;
                // Nobody else sets it.
                let _ = found.set(missing);
            }
        }
        Ok::<_, std::convert::Infallible>(())
    });
}

async fn report(missing: &[String], gauge: &Missing, events: &Events) {
    if missing.is_empty() {
        tracing::info!("the role has every permission that can be looked at without a change");
        return;
    }
    for action in missing {
        gauge.get_or_create(&vec![("action", action.clone())]).set(1);
    }
    let missing = missing.join(", ");
    tracing::warn!(missing, policy = POLICY, "the role lacks permissions; what needs them will fail");
    let note = format!("the cloud controller manager's role lacks {missing}; {POLICY} has the whole policy");
    events.warning(&everybody(), "MissingAWSPermissions", note).await;
}
