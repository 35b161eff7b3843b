//! `forward`: asks other servers.

mod exchange;
mod host;
mod https;
mod parse;
mod secure;
mod servers;
mod upstream;

use super::{Plugin, Step};
use crate::{
    chain::Rest,
    compile::{Building, Job},
    corefile::{Directive, Problem},
    metrics::Counters,
    query::{Query, Transport},
    random,
    wire::{Message, Name, Reply, code::rcode},
};
use futures::future::BoxFuture;
use parse::{ForwardOptions, Policy};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use upstream::Upstream;

/// For one query, all attempts together.
const BUDGET: Duration = Duration::from_secs(5);

struct Forward {
    options: ForwardOptions,
    /// Whether there is another stanza after this one.
    has_next: bool,
    upstreams: Vec<Arc<Upstream>>,
    turn: AtomicUsize,
    running: AtomicUsize,
    counters: Arc<Counters>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    building.other_classes = true;
    for (index, line) in lines.iter().enumerate() {
        let has_next = index + 1 < lines.len();
        let options = parse::options(line, &building.folder)?;
        let counters = Arc::clone(&building.lasting.counters);
        let upstreams: Vec<Arc<Upstream>> =
            options.servers.iter().map(|server| Arc::new(Upstream::new(server.clone(), &options, &counters))).collect();
        if options.max_fails > 0 {
            building.whole.jobs.extend(upstreams.iter().map(watch));
        }
        let (turn, running) = (AtomicUsize::new(0), AtomicUsize::new(0));
        building.plugins.push(Box::new(Forward { options, has_next, upstreams, turn, running, counters }));
    }
    Ok(())
}

/// Probes an upstream after it has failed, until it answers again.
fn watch(upstream: &Arc<Upstream>) -> Job {
    let name = format!("dns-forward-{}", upstream.place());
    let upstream = Arc::clone(upstream);
    let run = move |stop: tokio_util::sync::CancellationToken| {
        let upstream = Arc::clone(&upstream);
        let work = async move {
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                () = upstream.watch() => Ok(()),
            }
        };
        Box::pin(work) as BoxFuture<'static, _>
    };
    Job { name, run: Box::new(run) }
}

impl Forward {
    fn concerns(&self, lower: &Name) -> bool {
        lower.is_within(&self.options.from) && !self.options.except.iter().any(|zone| lower.is_within(zone))
    }

    /// The upstreams in the order in which they are asked.
    fn order(&self) -> Vec<usize> {
        let count = self.upstreams.len();
        let mut order: Vec<usize> = (0..count).collect();
        match self.options.policy {
            Policy::Sequential => {}
            Policy::RoundRobin => order.rotate_left((self.turn.fetch_add(1, Ordering::Relaxed) + 1) % count),
            Policy::Random => {
                for last in (1..count).rev() {
                    order.swap(last, random::below(last + 1));
                }
            }
        }
        // Who was silent a moment ago comes last, until a check hears it again.
        order.sort_by_key(|index| self.upstreams[*index].is_suspect());
        order
    }

    async fn ask(&self, query: &Query) -> Result<Message, String> {
        let deadline = Instant::now() + BUDGET;
        let order = self.order();
        let mut last = "no upstream".to_owned();
        let mut down = 0;
        let mut failed_over = None;
        // Each upstream gets two chances, unless the line says otherwise, as long as there is time.
        for attempt in 0..self.options.max_attempts.unwrap_or(order.len() * 2) {
            let upstream = &self.upstreams[order[attempt % order.len()]];
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if upstream.is_down() {
                down += 1;
                if down < order.len() {
                    continue;
                }
                // All are down: the checks may be wrong, and a query is the better one.
                self.counters.upstream_broken.inc();
                if self.options.failfast {
                    return Err("no healthy upstream".to_owned());
                }
                down = 0;
            }
            match self.attempt(upstream, query, left.min(self.options.read_timeout)).await {
                Ok(message) if self.options.failover.contains(&message.rcode) && attempt + 1 < order.len() => {
                    failed_over = Some(message);
                }
                Ok(message) => return Ok(message),
                Err(error) => {
                    upstream.failed();
                    last = format!("{}: {error}", upstream.place());
                }
            }
        }
        failed_over.ok_or(last)
    }

    /// Whether the next stanza is to be asked after this answer.
    fn passes_on(&self, message: &Message) -> bool {
        let nodata = message.rcode == rcode::NOERROR && message.answer().is_empty();
        let wanted = self.options.next.contains(&message.rcode) || (nodata && self.options.next_on_nodata);
        wanted && self.has_next
    }

    async fn attempt(&self, upstream: &Upstream, query: &Query, patience: Duration) -> std::io::Result<Message> {
        let begun = Instant::now();
        let over_tcp = self.options.force_tcp || (query.transport == Transport::Tcp && !self.options.prefer_udp);
        let mut answer = upstream.exchange(&query.request, &query.options, over_tcp, patience).await?;
        if answer.tc && self.options.prefer_udp && !over_tcp {
            answer = upstream.exchange(&query.request, &query.options, true, patience).await?;
        }
        upstream.note(answer.rcode, begun.elapsed());
        Ok(answer)
    }
}

/// Counts a query while it runs.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Plugin for Forward {
    fn name(&self) -> &'static str {
        "forward"
    }

    fn before(&self, query: &mut Query, _: &mut Reply) -> Step {
        if self.concerns(&query.lower) { Step::Later } else { Step::Next }
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, _: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::Relaxed);
            let _until_done = Running(&self.running);
            if self.options.max_concurrent > 0 && running >= self.options.max_concurrent {
                self.counters.upstream_rejects.inc();
                reply.fail(
                    rcode::REFUSED,
                    Some(format!(
                        "plugin/forward: concurrent queries exceeded maximum {}",
                        self.options.max_concurrent
                    )),
                );
                return Step::Done;
            }
            match self.ask(query).await {
                Ok(message) if self.passes_on(&message) => return Step::Next,
                Ok(mut message) => {
                    let request = &query.request;
                    message.question = (request.name, request.rtype, request.class);
                    let secure = request.ad || request.edns.is_some_and(|edns| edns.dnssec_ok);
                    message.ad &= secure;
                    // The same name, as the client wrote it.
                    for record in message.records_mut().filter(|record| record.name == request.name) {
                        record.name = request.name;
                    }
                    reply.set_message(&message);
                    reply.options = message.options;
                    reply.cacheable = true;
                }
                Err(error) => {
                    reply.fail(rcode::SERVFAIL, Some(format!("plugin/forward: {error}")));
                    // RFC 9520: failures are kept for a moment as well.
                    reply.cacheable = true;
                }
            }
            Step::Done
        })
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
