//! `dnsrecords`: names that DNSRecord objects of the cluster ask for.

mod api;
mod table;

use super::{Plugin, Step, kubernetes::Source, only};
use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    text,
    wire::{
        Name, Record, Reply, Section,
        code::{class, rtype},
    },
};
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use table::Table;
use tokio_util::sync::CancellationToken;

struct DnsRecords {
    zones: Vec<Name>,
    watched: Arc<Watched>,
}

/// What is known of the objects.
struct Watched {
    table: ArcSwap<Table>,
    listed: AtomicBool,
    /// Told when the plugin is gone: a new Corefile has a plugin of its own, which has listed before this one goes.
    stop: CancellationToken,
}

impl Watched {
    fn new() -> Self {
        Self { table: ArcSwap::default(), listed: AtomicBool::new(false), stop: CancellationToken::new() }
    }

    fn set(&self, table: Table) {
        self.table.store(Arc::new(table));
        self.listed.store(true, Ordering::Release);
    }
}

impl Drop for DnsRecords {
    fn drop(&mut self) {
        self.watched.stop.cancel();
    }
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let mut source = Source::default();
    for line in line.lines() {
        if !source.property(line, &building.folder)? {
            return Err(line.unknown(&["endpoint", "kubeconfig"]));
        }
    }
    let zones = text::zones_or(&line.args, &building.zones)?;
    let watched = Arc::new(Watched::new());
    building.whole.jobs.push(api::job(source, &watched));
    let ready = Arc::clone(&watched);
    building.whole.checks.push(("dnsrecords", Arc::new(move || ready.listed.load(Ordering::Acquire))));
    building.plugins.push(Box::new(DnsRecords { zones, watched }));
    Ok(())
}

impl Plugin for DnsRecords {
    fn name(&self) -> &'static str {
        "dnsrecords"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let request = &query.request;
        if request.class != class::IN || text::longest(&self.zones, &query.lower).is_none() {
            return Step::Next;
        }
        let table = self.watched.table.load();
        let Some(entry) = table.get(&query.lower) else { return Step::Next };
        reply.aa = true;
        let address = request.rtype == rtype::A || request.rtype == rtype::AAAA;
        match entry.target {
            Some(target) if entry.addresses.is_empty() => {
                reply.add(Section::Answer, &Record::pointer(request.name, rtype::CNAME, entry.ttl, &target));
                if address { Step::Later } else { Step::Done }
            }
            _ => {
                let v6 = request.rtype == rtype::AAAA;
                for own in entry.addresses.iter().filter(|own| address && own.is_ipv6() == v6) {
                    reply.add_address(Section::Answer, &request.name, entry.ttl, *own);
                }
                Step::Done
            }
        }
    }

    /// What a host name leads to.
    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let target = reply.message().and_then(|message| message.answer().first().and_then(Record::target));
            if let Some(target) = target.filter(|target| *target != query.request.name)
                && let Some(found) = rest.lookup(query, target, query.request.rtype).await
            {
                found.answer().iter().for_each(|record| reply.add(Section::Answer, record));
                reply.tc |= found.tc;
            }
            Step::Done
        })
    }
}

#[cfg(test)]
mod tests;
