//! Looks for what Services that are gone left in AWS, at the start and then from time to time.
//!
//! Each round asks the API server itself, and not what was watched: whether it is still the same cluster's, and which Services there are. What would be removed is
//! told in an event of namespace `kube-system`, in the log and as a metric, long before it goes.

use super::{NodeOptions, identity};
use crate::{
    apply::{Alive, Leftovers, Swept, owner},
    report::everybody,
};
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::ListParams};
use prometheus_client::metrics::gauge::Gauge;
use runtime::{
    client::Api,
    controller::{Context, Events, Result},
    metrics::Metrics,
};
use std::time::Instant;

/// So many are named in an event; the log has them all.
const NAMED: usize = 10;

/// How many there are, as a metric.
pub fn leftovers_metric(metrics: &Metrics) -> Gauge {
    let help = "Things in AWS of Services that are gone, as the last look found them";
    metrics.register("twinstack_aws_leftovers", help, Gauge::default())
}

pub(super) async fn run(context: Context<NodeOptions>) -> Result<()> {
    let options = context.options();
    let services: Api<Service> = Api::all(context.client());
    let events = context.events("aws-leftovers-controller");
    let mut refused = None;
    loop {
        match round(&context, &services).await {
            Ok(swept) => {
                if swept.refused.is_none() {
                    let found = swept.suspected.len() + swept.waiting + swept.removed.len();
                    options.leftovers.set(i64::try_from(found).unwrap_or(i64::MAX));
                }
                report(&swept, options, &events, &mut refused).await;
            }
            Err(error) => tracing::warn!(error, "could not look for leftovers"),
        }
        tokio::time::sleep(options.sweep).await;
    }
}

async fn round(context: &Context<NodeOptions>, services: &Api<Service>) -> std::result::Result<Swept, String> {
    let options = context.options();
    let refused = |why: &str| Ok(Swept { refused: Some(why.to_owned()), ..Swept::default() });
    if let Some(uid) = &options.provider.settings().cluster.uid {
        let answered = identity::now(&context.client()).await.map_err(|error| error.to_string())?;
        if answered.as_ref() != Some(uid) {
            return refused("the API server is another cluster's than at the start");
        }
    }
    let all = services.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
    match alive(&all) {
        None => refused("the API server looks empty: it has no Service kubernetes in namespace default"),
        Some(alive) => {
            options.provider.sweep(&alive, &options.caution, Instant::now()).await.map_err(|error| error.to_string())
        }
    }
}

/// Services that have, or may have, a load balancer; `None` where not even the one is there that every API server has.
fn alive(services: &[Service]) -> Option<Alive> {
    let is_the_api = |service: &Service| {
        service.name_any() == "kubernetes" && service.metadata.namespace.as_deref() == Some("default")
    };
    let has_finalizer =
        |service: &Service| service.finalizers().iter().any(|one| one == "service.kubernetes.io/load-balancer-cleanup");
    let wants =
        |service: &Service| service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    services
        .iter()
        .any(is_the_api)
        .then(|| Alive::new(services.iter().filter(|service| wants(service) || has_finalizer(service)).map(owner)))
}

async fn report(swept: &Swept, options: &NodeOptions, events: &Events, before: &mut Option<String>) {
    let Swept { suspected, waiting, removed, refused } = swept;
    if let Some(why) = refused.as_ref().filter(|why| before.as_ref() != Some(*why)) {
        tracing::warn!(why, "leftovers in AWS are not looked for");
        events.warning(&everybody(), "LeftoversNotRemoved", format!("{why}; nothing is removed from AWS")).await;
    }
    before.clone_from(refused);
    if !removed.is_empty() {
        tracing::info!(?removed, waiting, "removed what was left of Services that are gone");
    }
    if suspected.is_empty() {
        return;
    }
    tracing::warn!(leftovers = ?suspected, "of Services that are gone");
    let then = match options.caution.leftovers {
        Leftovers::Remove => format!("removed when they are still found in {:?}", options.caution.age),
        Leftovers::Report => "left alone, as --leftovers=report says".to_owned(),
    };
    let mut names = suspected.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if suspected.len() > NAMED {
        names += &format!(" and {} more", suspected.len() - NAMED);
    }
    let note = format!("left in AWS by Services that are gone: {names}; {then}");
    events.warning(&everybody(), "LeftoversFound", note).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::testing::service;
    use serde_json::json;

    #[test]
    fn an_api_server_without_its_own_service_looks_empty() {
        let web = service("web", &json!({}));
        let own = service("kubernetes", &json!({"metadata": {"namespace": "default"}, "spec": {"type": "ClusterIP"}}));
        let other = service("kubernetes", &json!({"spec": {"type": "ClusterIP"}}));
        assert!(alive(&[]).is_none());
        assert!(alive(&[web.clone(), other]).is_none());
        assert!(alive(&[web, own]).is_some());
    }
}
