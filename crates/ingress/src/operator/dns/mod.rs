//! DNSRecords become records of a DNS service, and their status tells in which zones.
//!
//! The finalizer is there before the first record and goes after the last. A record whose publishing was cut off before the status said
//! so is asked for again, and on deletion taken away as well: a provider removes exactly what is there, so asking twice is safe.

pub mod lab;
pub mod plan;
pub mod recording;
#[cfg(test)]
mod tests;

use super::{
    MANAGER, OperatorOptions,
    cluster::Cluster,
    names::{OPERAND_NAMESPACE, OPERATOR_NAMESPACE, RECORD_FINALIZER, TARGET_ZONE},
    objects::{DnsConfig, DnsRecord, Infrastructure, singleton},
    status::merge,
};
use api::config::{DnsManagement, DnsRecordStatus, DnsZone, DnsZoneStatus};
use jiff::Timestamp;
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use plan::Verdict;
use runtime::{
    client::Api,
    cloud::{self, CloudError, DnsEntry},
    controller::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    operator::Children,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How long to wait after a zone has failed.
const RETRY: Duration = Duration::from_secs(30);
/// However soon a service says that it may be asked again.
const SHORTEST: Duration = Duration::from_secs(1);

struct Records {
    client: Client,
    children: Children,
    records: Store<DnsRecord>,
    dns: Store<DnsConfig>,
    infrastructure: Store<Infrastructure>,
    events: Events,
    options: OperatorOptions,
}

/// Runs the loop.
pub(super) async fn run(context: Context<OperatorOptions>) -> Result<()> {
    super::define(&context.client()).await?;
    let records = context.store::<DnsRecord>();
    let (dns, infrastructure) = (context.store::<DnsConfig>(), context.store::<Infrastructure>());
    let queue: Queue<Key> = context.queue("dns-record");
    let by_name = records.index("dns-name", |record| vec![record.spec.dns_name.clone()]);
    let _records = records.on_change({
        let (queue, records) = (queue.clone(), records.clone());
        move |change| {
            // A status is written here alone, and must not be what makes the next attempt come at once.
            if plan::asks_anew(change.old.map(|old| &**old), change.new.map(|new| &**new)) {
                queue.add(change.key());
            }
            // One that goes, or takes another name, may be what others of that name wait for.
            let freed = change.old.filter(|old| change.new.is_none_or(|new| new.spec.dns_name != old.spec.dns_name));
            for waiting in freed.into_iter().flat_map(|old| records.by(by_name, &old.spec.dns_name)) {
                queue.add(Key::of(&*waiting));
            }
        }
    });
    let everything = {
        let (queue, records) = (queue.clone(), records.clone());
        move || records.all().iter().for_each(|record| queue.add(Key::of(&**record)))
    };
    let _dns = dns.on_change({
        let all = everything.clone();
        move |_| all()
    });
    let _infrastructure = infrastructure.on_change(move |_| everything());
    context.synced(&[&records, &dns, &infrastructure]).await;
    let (client, options) = (context.client(), context.options().clone());
    let events = context.events("ingress-operator-dns");
    let children = Children::new(context.client(), MANAGER);
    work(&queue, 1, &Records { client, children, records, dns, infrastructure, events, options }).await
}

impl Reconcile for Records {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        if ![OPERATOR_NAMESPACE, OPERAND_NAMESPACE].contains(&key.namespace.as_str()) {
            return Ok(Next::Done);
        }
        let Some(record) = self.records.get(key) else { return Ok(Next::Done) };
        let cluster = self.cluster();
        if record.metadata.deletion_timestamp.is_some() {
            return self.remove(&record, &cluster).await;
        }
        if record.spec.record_ttl <= 0 {
            let note =
                format!("spec.recordTTL is {}; a record is published only with one above 0", record.spec.record_ttl);
            self.events.warning(&reference(&*record), "ZeroTTL", note).await;
            return Ok(Next::Done);
        }
        if let Some(written) = self.children.finalizer(&*record, RECORD_FINALIZER, true).await? {
            self.records.remember(written);
        }
        let Some(record) = self.records.get(key) else { return Ok(Next::Done) };
        self.publish(&record, &cluster).await
    }
}

impl Records {
    fn cluster(&self) -> Cluster {
        let (infrastructure, dns) = (singleton(&self.infrastructure), singleton(&self.dns));
        let mut cluster = Cluster::read(infrastructure.as_deref(), None, dns.as_deref(), None, None);
        if cluster.zones.is_empty() {
            cluster.zones.extend(self.options.own_zone.clone().map(|id| DnsZone { id, ..DnsZone::default() }));
        }
        cluster
    }

    async fn publish(&self, record: &Arc<DnsRecord>, cluster: &Cluster) -> Result<Next> {
        let mut before = record.status.clone().unwrap_or_default();
        before.zones = before.zones.iter().map(plan::migrated).collect();
        let current = before.observed_generation.is_some() && before.observed_generation == record.metadata.generation;
        let peers: Vec<Arc<DnsRecord>> =
            self.records.all().into_iter().filter(|peer| peer.spec.dns_name == record.spec.dns_name).collect();
        let oldest = plan::is_oldest(record, &peers);
        let (mut zones, mut again) = (Vec::new(), None::<Duration>);
        let mut target_zone = record.annotations().get(TARGET_ZONE).cloned();
        for zone in &cluster.zones {
            let known = before.zones.iter().find(|known| known.dns_zone == *zone);
            let managed = record.spec.dns_management_policy == DnsManagement::Managed;
            let condition = match plan::verdict(known, managed, current, oldest) {
                Verdict::Leave => known.and_then(plan::published).cloned().unwrap_or_default(),
                Verdict::Unmanaged => plan::unmanaged(),
                Verdict::InUse => plan::in_use(&record.spec.dns_name),
                Verdict::Publish => match self.ensure(&cloud_zone(zone, cluster), &entry(record, cluster)).await {
                    Ok(found) => {
                        target_zone = found.or(target_zone);
                        plan::success()
                    }
                    Err((message, after)) => {
                        again = Some(again.map_or(after, |known: Duration| known.min(after)));
                        self.tell_failure(record, zone, known, &message).await;
                        plan::failure(&message)
                    }
                },
            };
            let old = known.map(|known| known.conditions.as_slice()).unwrap_or_default();
            let conditions = merge::merge(old, vec![condition], Timestamp::now());
            zones.push(DnsZoneStatus { dns_zone: zone.clone(), conditions });
        }
        // Where the target was found is needed when the load balancer is gone, so it is kept before success is told.
        if target_zone != record.annotations().get(TARGET_ZONE).cloned() {
            let api: Api<DnsRecord> = Api::namespaced(self.client.clone(), &record.namespace().unwrap_or_default());
            let patch = json!({"metadata": {"annotations": {TARGET_ZONE: target_zone}}});
            let written = api.patch(&record.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
            self.records.remember(written);
        }
        // Zones that are configured no more are still to be cleaned up one day.
        let gone = before.zones.iter().filter(|known| !cluster.zones.contains(&known.dns_zone));
        zones.extend(gone.cloned());
        let status = DnsRecordStatus { zones, observed_generation: record.metadata.generation, rest: before.rest };
        let Some(record) = self.records.get(&Key::of(&**record)) else { return Ok(Next::Done) };
        self.children.status(&self.records, &record, &status).await?;
        Ok(again.map_or(Next::Done, Next::After))
    }

    async fn remove(&self, record: &Arc<DnsRecord>, cluster: &Cluster) -> Result<Next> {
        if !record.finalizers().iter().any(|finalizer| finalizer == RECORD_FINALIZER) {
            return Ok(Next::Done);
        }
        let entry = entry(record, cluster);
        for zone in plan::zones_to_clean(record, &cluster.zones) {
            let Some(provider) = &self.options.dns else {
                let zone = super::status::dns::name(&zone);
                return Err(format!("zone {zone} has the record, and there is no DNS provider to take it away").into());
            };
            if let Err(error) = provider.delete(&cloud_zone(&zone, cluster), &entry).await {
                let zone = super::status::dns::name(&zone);
                let note = format!("the record was not deleted from zone {zone}: {}", describe(&error));
                self.events.warning(&reference(&**record), "FailedDelete", note).await;
                tracing::warn!(record = %Key::of(&**record), %error, "a DNS record was not deleted; tried again");
                return Ok(Next::After(wait(&error)));
            }
        }
        match self.children.finalizer(&**record, RECORD_FINALIZER, false).await? {
            Some(written) if !written.finalizers().is_empty() => self.records.remember(written),
            _ => self.records.forget(record),
        }
        Ok(Next::Done)
    }

    /// An event for the first of several failures; the condition has the last.
    async fn tell_failure(&self, record: &DnsRecord, zone: &DnsZone, known: Option<&DnsZoneStatus>, message: &str) {
        let before = known.and_then(plan::published);
        if before.is_none_or(|before| before.status != "False" || before.reason != "ProviderError") {
            let note = format!("the record was not published in zone {}: {message}", super::status::dns::name(zone));
            self.events.warning(&reference(record), "FailedPublish", note).await;
        }
        tracing::warn!(record = %Key::of(record), message, "a DNS record was not published; tried again");
    }

    async fn ensure(&self, zone: &cloud::DnsZone, entry: &DnsEntry) -> Result<Option<String>, (String, Duration)> {
        let Some(provider) = &self.options.dns else {
            return Err(("there is no DNS provider; see --dns-provider".to_owned(), RETRY));
        };
        let outcome = provider.ensure(zone, entry).await;
        outcome.map_err(|error| (format!("{}: {}", provider.name(), describe(&error)), wait(&error)))
    }
}

/// An error with what it came from.
fn describe(error: &CloudError) -> String {
    let mut text = match error {
        // When it is asked again changes with every attempt, and a condition is to change only with what it says.
        CloudError::Later { reason, .. } | CloudError::Exhausted { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

fn wait(error: &CloudError) -> Duration {
    match error {
        CloudError::Later { after, .. } | CloudError::Exhausted { after, .. } => (*after).max(SHORTEST),
        CloudError::Refused(_) | CloudError::Failed(_) => RETRY,
    }
}

fn cloud_zone(zone: &DnsZone, cluster: &Cluster) -> cloud::DnsZone {
    cloud::DnsZone {
        id: Some(zone.id.clone()).filter(|id| !id.is_empty()),
        tags: zone.tags.clone(),
        role: cluster.role_for(zone).map(str::to_owned),
    }
}

fn entry(record: &DnsRecord, cluster: &Cluster) -> DnsEntry {
    DnsEntry {
        name: record.spec.dns_name.clone(),
        targets: record.spec.targets.clone(),
        ttl: u32::try_from(record.spec.record_ttl).unwrap_or(u32::MAX),
        dual_stack: cluster.is_dual_stack_aws(),
        target_zone: record.annotations().get(TARGET_ZONE).cloned(),
    }
}
