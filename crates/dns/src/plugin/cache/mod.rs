//! `cache`: keeps what upstream servers answered.
//!
//! Answers made here (by `kubernetes`, `hosts`, `template`) are not kept: making them costs no more than finding them,
//! and they are never out of date.

mod parse;

use super::{Plugin, Step};
use crate::{
    cache::{Cache, Entry, Key},
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    metrics::Labels,
    query::{Query, Refresh},
    text,
    wire::{
        Message, Record, Reply, Section,
        code::{rcode, rtype},
    },
};
use futures::future::BoxFuture;
use parse::{CacheOptions, Stale};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

struct Kept {
    options: CacheOptions,
    /// Positive and negative answers.
    tables: [Cache; 2],
    metrics: Metrics,
}

struct Metrics {
    requests: Counter,
    misses: Counter,
    stale: Counter,
    prefetch: Counter,
    evictions: [Counter; 2],
    hits: [Counter; 2],
    entries: [Gauge; 2],
}

/// Which table an answer belongs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Success,
    Denial,
}

/// An answer without a TTL of its own.
const WITHOUT_TTL: u32 = 5;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let options = parse::options(super::only(lines)?, &building.zones)?;
    let counters = &building.lasting.counters;
    let base = building.observers.labels().clone();
    let with = |more: &[(&'static str, &str)]| -> Labels {
        base.iter().cloned().chain(more.iter().map(|(name, value)| (*name, (*value).to_owned()))).collect()
    };
    let sorts = ["success", "denial"];
    let metrics = Metrics {
        requests: counters.cache_requests.get_or_create(&base).clone(),
        misses: counters.cache_misses.get_or_create(&base).clone(),
        stale: counters.cache_stale.get_or_create(&base).clone(),
        prefetch: counters.cache_prefetch.get_or_create(&base).clone(),
        evictions: sorts.map(|sort| counters.cache_evictions.get_or_create(&with(&[("type", sort)])).clone()),
        hits: sorts.map(|sort| counters.cache_hits.get_or_create(&with(&[("type", sort)])).clone()),
        entries: sorts.map(|sort| counters.cache_entries.get_or_create(&with(&[("type", sort)])).clone()),
    };
    let tables = [Cache::new(options.success.capacity), Cache::new(options.denial.capacity)];
    building.plugins.push(Box::new(Kept { options, tables, metrics }));
    Ok(())
}

fn key(query: &Query) -> Key {
    Key {
        name: query.lower,
        rtype: query.request.rtype,
        class: query.request.class,
        dnssec_ok: query.request.edns.is_some_and(|edns| edns.dnssec_ok),
        cd: query.request.cd,
    }
}

impl Kept {
    fn concerns(&self, query: &Query) -> bool {
        text::longest(&self.options.zones, &query.lower).is_some()
    }

    /// The best entry: a denial first, but a failure yields to a good answer.
    fn find(&self, key: &Key, now: Instant) -> Option<(Sort, Arc<Entry>)> {
        if self.options.prefer_positive
            && let Some(entry) = self.tables[0].get(key).filter(|entry| entry.counts[0] > 0 && self.usable(entry, now))
        {
            return Some((Sort::Success, entry));
        }
        let denial = self.tables[1].get(key).filter(|entry| self.usable(entry, now));
        let failure = denial.as_ref().is_none_or(|entry| entry.rcode == rcode::SERVFAIL || entry.left(now).is_none());
        if failure && let Some(entry) = self.tables[0].get(key).filter(|entry| self.usable(entry, now)) {
            return Some((Sort::Success, entry));
        }
        denial.map(|entry| (Sort::Denial, entry))
    }

    fn recheck(&self) -> Duration {
        self.options.stale.map_or(Duration::ZERO, |stale| stale.recheck)
    }

    fn usable(&self, entry: &Entry, now: Instant) -> bool {
        let stale = self.options.stale.map_or(Duration::ZERO, |stale| stale.within);
        now.saturating_duration_since(entry.stored) < entry.ttl + stale
    }

    fn write(&self, entry: &Entry, left: Option<Duration>, query: &Query, reply: &mut Reply) {
        let outlived = self.options.stale.map_or(0, |stale| stale.ttl);
        let seconds = left.map_or(outlived, |left| left.as_secs_f64().ceil() as u32);
        let keep = self.options.keep_ttl && left.is_some();
        reply.add_written(entry.counts, &entry.records, &entry.lifetimes, |ttl| if keep { ttl } else { seconds });
        reply.rcode = entry.rcode;
        // What is kept is as authoritative as it was when it came.
        reply.aa = entry.aa;
        reply.ra = entry.ra;
        reply.ad = entry.ad && (query.request.ad || query.request.edns.is_some_and(|edns| edns.dnssec_ok));
    }

    fn keep(&self, query: &Query, reply: &mut Reply) {
        let Some(message) = reply.message() else { return };
        let Some((sort, ttl)) = judge(&message, query.request.rtype) else {
            return self.bound(&message, reply);
        };
        let limits = if sort == Sort::Success { &self.options.success } else { &self.options.denial };
        if text::longest(&limits.disabled, &query.lower).is_some() {
            return;
        }
        let ttl = match reply.rcode {
            rcode::SERVFAIL | rcode::NOTIMP => self.options.servfail,
            _ => Duration::from_secs(ttl.clamp(limits.least, limits.most.max(limits.least)).into()),
        };
        if ttl.is_zero() {
            return;
        }
        let (key, now) = (key(query), Instant::now());
        let mut entry = Entry::new(&key, now, ttl);
        (entry.rcode, entry.aa, entry.ra, entry.ad) = (reply.rcode, reply.aa, reply.ra, reply.ad);
        entry.counts = reply.counts();
        entry.records = reply.records().into();
        entry.lifetimes = reply.lifetimes().into();
        let table = &self.tables[sort as usize];
        let (records, counts, lifetimes) = (entry.records.clone(), entry.counts, entry.lifetimes.clone());
        if table.put(&key, entry, now) {
            self.metrics.evictions[sort as usize].inc();
        }
        self.metrics.entries[sort as usize].set(table.len());
        // A good answer ends a denial, and the other way round; a failure ends nothing, and no denial ends a good answer
        // that goes before it.
        let stays = sort == Sort::Denial && self.options.prefer_positive;
        if reply.rcode != rcode::SERVFAIL && !stays {
            self.tables[1 - sort as usize].remove(&key);
        }
        // Everybody gets the same: the first answer as well as those from the cache.
        if !self.options.keep_ttl {
            reply.add_written(counts, &records, &lifetimes, |_| ttl.as_secs() as u32);
        }
    }

    /// What is not kept lives no longer than what is.
    fn bound(&self, message: &Message, reply: &mut Reply) {
        let limits = &self.options.success;
        let ttl = least(message).clamp(limits.least, limits.most.max(limits.least));
        if !self.options.keep_ttl {
            let (counts, records, lifetimes) = (reply.counts(), reply.records().to_vec(), reply.lifetimes());
            reply.add_written(counts, &records, &lifetimes, |_| ttl);
        }
    }
}

/// The shortest time that a record of a message has.
fn least(message: &Message) -> u32 {
    message.sections.iter().flatten().map(|record| record.ttl).min().unwrap_or(WITHOUT_TTL)
}

/// Whether the answer has a record of the type asked for, at the end of the chain of CNAMEs that begins with the question.
fn reaches(message: &Message, asked: u16) -> bool {
    let mut name = message.question.0;
    if matches!(asked, rtype::ANY | rtype::CNAME) {
        return message
            .answer()
            .iter()
            .any(|record| record.name == name && [record.rtype, rtype::ANY].contains(&asked));
    }
    // A chain that is longer than the answer goes round.
    for _ in 0..=message.answer().len() {
        let mut targets = message.answer().iter().filter(|record| record.rtype == rtype::CNAME && record.name == name);
        let Some(target) = targets.next().and_then(Record::target) else {
            return message.answer().iter().any(|record| record.rtype == asked && record.name == name);
        };
        if targets.any(|other| other.target() != Some(target)) {
            return false;
        }
        name = target;
    }
    false
}

/// Into which table an answer belongs, and for how many seconds; `None` when it must not be kept.
fn judge(message: &Message, asked: u16) -> Option<(Sort, u32)> {
    if message.tc || matches!(asked, rtype::AXFR | rtype::IXFR | rtype::OPT) {
        return None;
    }
    let soa = message.authority().iter().find(|record| record.rtype == rtype::SOA);
    let least = least(message);
    // RFC 2308: a denial lives no longer than the SOA's last number says.
    let denied = soa.map(|soa| {
        let minimum = soa.data.last_chunk::<4>().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
        least.min(minimum)
    });
    match message.rcode {
        rcode::NOERROR if reaches(message, asked) => Some((Sort::Success, least)),
        // A chain to a name without such records: a denial, if it says for how long (RFC 2308, section 2.2).
        rcode::NOERROR if !message.answer().is_empty() => denied.map(|ttl| (Sort::Denial, ttl)),
        rcode::NOERROR => match denied {
            Some(ttl) => Some((Sort::Denial, ttl)),
            None => Some((Sort::Success, least.min(WITHOUT_TTL))),
        },
        // Also at the end of a chain (RFC 2308, section 2.1); CoreDNS keeps only those without one.
        rcode::NXDOMAIN if message.answer().iter().all(|record| record.rtype == rtype::CNAME) => {
            denied.map(|ttl| (Sort::Denial, ttl))
        }
        rcode::SERVFAIL | rcode::NOTIMP => Some((Sort::Denial, WITHOUT_TTL)),
        _ => None,
    }
}

impl Plugin for Kept {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        if query.refresh == Refresh::Now || !self.concerns(query) {
            return Step::Next;
        }
        self.metrics.requests.inc();
        let now = query.started;
        let Some((sort, entry)) = self.find(&key(query), now) else {
            self.metrics.misses.inc();
            return Step::Next;
        };
        let left = entry.left(now);
        match (left, self.options.stale) {
            (None, Some(Stale { verify: true, .. })) if !entry.is_resting(now) => return Step::Later,
            (None, _) => {
                self.metrics.stale.inc();
                if !entry.is_resting(now) && entry.claim_refresh() {
                    query.refresh = Refresh::Wanted;
                }
            }
            (Some(left), _) => {
                let hits = entry.hit(now, self.options.prefetch.gap);
                let soon = left.as_secs_f64() <= entry.ttl.as_secs_f64() * self.options.prefetch.share;
                let wanted = self.options.prefetch.hits > 0 && hits >= self.options.prefetch.hits && soon;
                if wanted && entry.claim_refresh() {
                    self.metrics.prefetch.inc();
                    query.refresh = Refresh::Wanted;
                }
            }
        }
        self.metrics.hits[sort as usize].inc();
        self.write(&entry, left, query, reply);
        Step::Done
    }

    /// An outlived answer is given only if there is no better one.
    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let kept = self.find(&key(query), query.started);
            let fresh = rest.below(query, reply);
            let within = self.options.stale.and_then(|stale| stale.patience);
            let answered = match within {
                Some(patience) => tokio::time::timeout(patience, fresh).await.is_ok(),
                None => {
                    fresh.await;
                    true
                }
            };
            match kept {
                Some((_, entry)) if !answered || reply.rcode == rcode::SERVFAIL => {
                    self.metrics.stale.inc();
                    if answered {
                        entry.rest(query.started, self.recheck());
                    }
                    reply.reset(&query.request.name, query.request.rtype, query.request.class);
                    self.write(&entry, None, query, reply);
                    if !answered {
                        query.refresh = Refresh::Wanted;
                    }
                }
                _ => self.after(query, reply),
            }
            Step::Done
        })
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        if query.refresh == Refresh::Now && reply.rcode == rcode::SERVFAIL {
            let key = key(query);
            for entry in self.tables.iter().filter_map(|table| table.get(&key)) {
                entry.rest(Instant::now(), self.recheck());
                entry.release_refresh();
            }
            return;
        }
        // What upstream compressed may be longer here than any message, and than places of TTLs are counted.
        let fits = reply.count(Section::Answer) < 1000 && reply.records().len() <= usize::from(u16::MAX);
        if reply.cacheable && self.concerns(query) && fits {
            self.keep(query, reply);
        }
    }
}

#[cfg(test)]
mod tests;
