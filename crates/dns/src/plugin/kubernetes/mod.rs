//! `kubernetes`: names of Services, endpoints and Pods of a cluster, in both families.

mod answer;
mod api;
mod external;
mod index;
mod names;
mod parse;
mod read;
mod records;

pub(crate) use answer::srv_record;
pub(crate) use external::{FoundOutside, Outside};
pub use index::{Change, Details, Index};
pub(crate) use parse::Source;
pub use records::Records;
pub(crate) use records::Target;

use super::{Plugin, Step, only};
use crate::{
    chain::Rest,
    compile::{Building, Job, JobError},
    corefile::{Directive, Problem},
    query::Query,
    server::addresses,
    text::{self, Fallthrough},
    wire::{Name, Reply, Section, code::rcode},
};
use answer::Found;
use futures::future::BoxFuture;
use parse::KubernetesOptions;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How answers for Pods are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// There are none.
    Disabled,
    /// Any address is echoed, if the namespace exists.
    Insecure,
    /// Only a Pod's.
    Verified,
}

/// A cluster that is being watched. It outlives reloads that do not change the stanza.
pub struct Cluster {
    /// What is known of it.
    pub records: Arc<Records>,
    /// Ends the watch with the last user.
    _watched: DropGuard,
}

/// The plugin of one block.
pub struct Kubernetes {
    zones: Vec<Name>,
    /// The first that is not a reverse zone.
    primary: Name,
    pods: Pods,
    ttl: u32,
    fall: Fallthrough,
    ignore_empty: bool,
    zonal: bool,
    /// Nothing but these, unless there are none.
    namespaces: Vec<Box<[u8]>>,
    /// The machine's own addresses, for the name servers of the zone.
    local: Vec<IpAddr>,
    cluster: Arc<Cluster>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let mut options = parse::options(line, &building.zones, &building.folder)?;
    options.watch.details.externals = building.externals;
    let cluster = watched(&options, building);
    let plugin = Arc::new(Kubernetes::new(&options, addresses::local(), cluster));
    let ready = Arc::clone(&plugin);
    building.whole.checks.push(("kubernetes", Arc::new(move || ready.cluster.records.synced())));
    building.cluster = Some(Arc::clone(&plugin));
    building.plugins.push(Box::new(SharedKubernetes(plugin)));
    Ok(())
}

/// The cluster of a stanza: the one that is watched already, or a new one with its job.
fn watched(options: &KubernetesOptions, building: &mut Building<'_>) -> Arc<Cluster> {
    let key = options.source();
    let mut clusters = building.lasting.clusters.lock();
    if let Some(cluster) = clusters.get(&key).and_then(std::sync::Weak::upgrade) {
        return cluster;
    }
    let stop = CancellationToken::new();
    let records = Arc::new(Records::new(options.ttl));
    let cluster = Arc::new(Cluster { records: Arc::clone(&records), _watched: stop.clone().drop_guard() });
    clusters.insert(key, Arc::downgrade(&cluster));
    let (watch, counters) = (options.watch.clone(), Arc::clone(&building.lasting.counters));
    let run = move |ended: CancellationToken| {
        let (records, watch, stop) = (Arc::clone(&records), watch.clone(), stop.clone());
        let counters = Arc::clone(&counters);
        let work = async move {
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                result = api::follow(&watch, records, counters, ended) => result,
            }
        };
        Box::pin(work) as BoxFuture<'static, Result<(), JobError>>
    };
    building.whole.lasting_jobs.push(Job { name: "dns-kubernetes".to_owned(), run: Box::new(run) });
    cluster
}

impl Kubernetes {
    pub(crate) fn new(options: &KubernetesOptions, local: Vec<IpAddr>, cluster: Arc<Cluster>) -> Self {
        Self {
            zones: options.zones.clone(),
            primary: options.primary,
            pods: options.pods,
            ttl: options.ttl,
            fall: options.fall.clone(),
            ignore_empty: options.ignore_empty,
            zonal: options.watch.details.zones,
            namespaces: options.namespaces.clone(),
            local,
            cluster,
        }
    }

    /// The namespace of the Pod that has this address; needs `pods verified`.
    pub(crate) fn namespace_of(&self, address: IpAddr) -> Option<Arc<[u8]>> {
        self.cluster.records.namespace_of_pod(address)
    }

    /// Whether `autopath` can work with it.
    pub(crate) fn knows_pods(&self) -> bool {
        self.pods == Pods::Verified
    }

    pub(crate) fn ttl(&self) -> u32 {
        self.ttl
    }

    /// The zone under which Services are.
    pub(crate) fn primary(&self) -> &Name {
        &self.primary
    }

    fn serve(&self, query: &Query, reply: &mut Reply) -> Step {
        let Some(zone) = text::longest(&self.zones, &query.lower) else { return Step::Next };
        let rcode = match self.find(zone, query, reply) {
            Found::Records => {
                reply.aa = true;
                return Step::Done;
            }
            Found::External(_) => return Step::Later,
            Found::NoData => rcode::NOERROR,
            Found::Refused => {
                reply.fail(rcode::REFUSED, None);
                return Step::Done;
            }
            Found::NoName if self.fall.covers(&query.lower) => return Step::Next,
            Found::NoName if !self.cluster.records.synced() => rcode::SERVFAIL,
            Found::NoName => rcode::NXDOMAIN,
        };
        reply.clear();
        reply.rcode = rcode;
        reply.aa = true;
        self.soa(Section::Authority, zone, query, reply);
        Step::Done
    }

    /// An ExternalName that leads out of the cluster.
    async fn follow(&self, query: &Query, reply: &mut Reply, rest: Rest<'_>) -> Step {
        let Some(zone) = text::longest(&self.zones, &query.lower) else { return Step::Next };
        if let Found::External(target) = self.find(zone, query, reply)
            && let Some(found) = rest.lookup(query, *target, query.request.rtype).await
        {
            found.answer().iter().for_each(|record| reply.add(Section::Answer, record));
            reply.tc |= found.tc;
        }
        reply.aa = true;
        Step::Done
    }
}

/// Shared with `autopath` and `k8s_external`.
struct SharedKubernetes(Arc<Kubernetes>);

impl Plugin for SharedKubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        self.0.serve(query, reply)
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            reply.clear();
            self.0.follow(query, reply, rest).await
        })
    }
}

/// How long a start waits for the first list of a cluster.
pub(crate) const STARTUP: Duration = Duration::from_secs(5);

#[cfg(test)]
pub(crate) mod tests;
