//! Telling Routes and Ingresses what became of them.

use super::{
    model::{Refusal, Source, route_ingress},
    settings::Settings,
    watch::Watched,
};
use api::config::RouteIngress;
use k8s_openapi::api::networking::v1::Ingress;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use runtime::{
    client::Api,
    controller::{Events, Key, Next, Reconcile, Result, reference},
    operator::Route,
};
use serde_json::json;
use std::{collections::HashMap, fmt, sync::Arc};

/// Whose status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Whose {
    pub(super) source: Source,
    pub(super) key: Key,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.source, self.key)
    }
}

/// What became of an object: one verdict for each claim, and the name it is served under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) claims: Vec<Result<(), Refusal>>,
    /// What it asks for in vain.
    pub(super) ignored: Vec<String>,
    pub(super) host: String,
}

/// The newest verdicts that are still to be written; the router's loop puts them in.
pub(super) type Verdicts = Arc<Mutex<HashMap<Whose, Option<Verdict>>>>;

pub(super) struct StatusWriter {
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    pub(super) watched: Arc<Watched>,
    pub(super) verdicts: Verdicts,
    pub(super) events: Events,
}

impl Reconcile for StatusWriter {
    type Key = Whose;

    async fn reconcile(&self, whose: &Whose) -> Result<Next> {
        let Some(verdict) = self.verdicts.lock().get(whose).cloned() else { return Ok(Next::Done) };
        match whose.source {
            Source::Route => self.route(&whose.key, verdict.as_ref()).await?,
            Source::Ingress => self.ingress(&whose.key, verdict.as_ref()).await?,
        }
        // What is written, or gone, need not be remembered; a newer verdict that came meanwhile has its own turn.
        let mut verdicts = self.verdicts.lock();
        if verdicts.get(whose) == Some(&verdict) {
            verdicts.remove(whose);
        }
        Ok(Next::Done)
    }
}

impl StatusWriter {
    /// This router's entry, beside those of others. A Route that is no longer this router's loses the entry.
    async fn route(&self, key: &Key, verdict: Option<&Verdict>) -> Result<()> {
        let Some(route) = self.watched.routes.get(key) else { return Ok(()) };
        let entries = route.status.as_ref().map(|status| status.ingress.clone()).unwrap_or_default();
        let own = |entry: &&RouteIngress| entry.router_name == self.settings.name;
        let old = entries.iter().find(own);
        let new = verdict.map(|verdict| {
            let outcome = verdict.claims.first().cloned().unwrap_or(Ok(()));
            let names = (self.settings.name.as_str(), self.settings.canonical_hostname.as_str());
            route_ingress(
                old,
                names,
                (&verdict.host, &route.spec.wildcard_policy),
                (&outcome, &verdict.ignored),
                &now(),
            )
        });
        if old == new.as_ref() {
            return Ok(());
        }
        let mut wanted: Vec<RouteIngress> = entries.iter().filter(|entry| !own(entry)).cloned().collect();
        wanted.extend(new);
        let patch =
            json!({"metadata": {"resourceVersion": route.metadata.resource_version}, "status": {"ingress": wanted}});
        let api = Api::<Route>::namespaced(self.client.clone(), &key.namespace);
        match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => self.watched.routes.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Where clients find it. What is refused is told by an event, as an Ingress has no place for it.
    async fn ingress(&self, key: &Key, verdict: Option<&Verdict>) -> Result<()> {
        let Some(ingress) = self.watched.ingresses.get(key) else { return Ok(()) };
        let Some(verdict) = verdict else { return Ok(()) };
        for refusal in verdict.claims.iter().filter_map(|claim| claim.as_ref().err()) {
            self.events.warning(&reference(&*ingress), refusal.reason, refusal.message.clone()).await;
        }
        if !verdict.ignored.is_empty() {
            self.events.warning(&reference(&*ingress), "PartlyServed", verdict.ignored.join("; ")).await;
        }
        let name = &self.settings.canonical_hostname;
        if name.is_empty() {
            return Ok(());
        }
        let served = verdict.claims.iter().any(Result::is_ok);
        let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let old: Vec<String> = balancer
            .iter()
            .flat_map(|it| it.ingress.iter().flatten())
            .filter_map(|entry| entry.hostname.clone())
            .collect();
        let mut wanted: Vec<&String> = old.iter().filter(|entry| *entry != name).collect();
        if served {
            wanted.push(name);
        }
        if old.iter().collect::<Vec<_>>() == wanted {
            return Ok(());
        }
        let entries: Vec<_> = wanted.iter().map(|name| json!({"hostname": name})).collect();
        let patch = json!({"metadata": {"resourceVersion": ingress.metadata.resource_version}, "status": {"loadBalancer": {"ingress": entries}}});
        let api = Api::<Ingress>::namespaced(self.client.clone(), &key.namespace);
        match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => self.watched.ingresses.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
