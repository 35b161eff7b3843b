//! One packet: which block it is for, what it answers, and the bytes to send.

use crate::chain::Chain;
use crate::query::{Query, Refresh};
use crate::routes::Routes;
use crate::wire::code::{class, rcode};
use crate::wire::{Limits, Reply};
use futures::FutureExt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far a query came without waiting.
pub(super) enum Begun {
    /// The reply is made.
    Done(Option<Arc<Chain>>),
    /// This plugin of the block must wait.
    Waits(Arc<Chain>, usize),
}

/// Takes a query as far as it goes without waiting. The reply was reset to its question.
pub(super) fn begin(routes: &Routes, query: &mut Query, reply: &mut Reply) -> Begun {
    let Some(chain) = routed(routes, query, reply) else { return Begun::Done(None) };
    let run = catch_unwind(AssertUnwindSafe(|| chain.run_now(query, reply)));
    match run {
        Ok(Ok(())) => Begun::Done(Some(chain)),
        Ok(Err(at)) => Begun::Waits(chain, at),
        Err(_) => {
            panicked(&chain, query, reply);
            Begun::Done(Some(chain))
        }
    }
}

/// Goes on where [`begin`] had to wait.
pub(super) async fn go_on(routes: &Arc<Routes>, chain: &Chain, at: usize, query: &mut Query, reply: &mut Reply) {
    let run = AssertUnwindSafe(chain.resume(routes, at, query, reply)).catch_unwind().await;
    if run.is_err() {
        panicked(chain, query, reply);
    }
}

/// From a question to its reply, however long it takes. The block that answered, if one did.
pub(crate) async fn resolve(routes: &Arc<Routes>, query: &mut Query, reply: &mut Reply) -> Option<Arc<Chain>> {
    match begin(routes, query, reply) {
        Begun::Done(chain) => chain,
        Begun::Waits(chain, at) => {
            go_on(routes, &chain, at, query, reply).await;
            Some(chain)
        }
    }
}

/// The block for a query; none when it is answered here.
fn routed(routes: &Routes, query: &Query, reply: &mut Reply) -> Option<Arc<Chain>> {
    if query.request.edns.is_some_and(|edns| edns.version != 0) {
        reply.rcode = rcode::BADVERS;
        return None;
    }
    let answered = query.request.class == class::IN || routes.other_classes;
    let chain = routes.chain(&query.lower).filter(|_| answered);
    if chain.is_none() {
        reply.rcode = rcode::REFUSED;
    }
    chain.cloned()
}

fn panicked(chain: &Chain, query: &Query, reply: &mut Reply) {
    chain.observers.panicked();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    reply.fail(rcode::SERVFAIL, Some("a plugin panicked".to_owned()));
}

/// The packet to send, noted; `None` when nothing is to be sent.
pub(super) fn finish<'a>(chain: Option<&Chain>, query: &Query, reply: &'a mut Reply) -> Option<&'a [u8]> {
    if reply.dropped {
        return None;
    }
    let nsid = chain.and_then(|chain| chain.nsid.as_deref());
    let limits = Limits { size: query.limit(), nsid, cookie: cookie(query) };
    let length = reply.finish(&query.request, &limits).len();
    if let Some(chain) = chain {
        chain.observers.note(query, reply, length);
    }
    Some(reply.packet())
}

/// Whether the answer should be fetched anew behind the client's back.
pub(super) fn wants_refresh(query: &Query) -> bool {
    query.refresh == Refresh::Wanted
}

/// The client's half of a cookie with ours (RFC 7873; laid out as in RFC 9018). It shows the client that the answer
/// comes from who was asked; nothing is refused for the lack of one.
fn cookie(query: &Query) -> Option<[u8; 24]> {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    let client = query.request.edns?.cookie?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
    let hash = SECRET.get_or_init(RandomState::new).hash_one((client, now, query.source.ip()));
    let mut cookie = [0; 24];
    cookie[..8].copy_from_slice(&client);
    cookie[8] = 1;
    cookie[12..16].copy_from_slice(&now.to_be_bytes());
    cookie[16..].copy_from_slice(&hash.to_be_bytes());
    Some(cookie)
}
