//! One packet: which block it is for, what it answers, and the bytes to send.

use crate::{
    chain::Chain,
    query::{Query, Refresh, Transport},
    routes::Routes,
    wire::{
        Limits, Reject, Reply, Request,
        code::{class, rcode, rtype},
    },
};
use futures::FutureExt;
use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

/// How far a query came without waiting.
pub(super) enum Begun<'a> {
    /// The reply is made.
    Done(Option<&'a Arc<Chain>>),
    /// This plugin of the block must wait.
    Waits(&'a Arc<Chain>, usize),
}

/// Takes a query as far as it goes without waiting. The reply was reset to its question; the packet is the one that it came in.
pub(super) fn begin<'a>(routes: &'a Routes, packet: &[u8], query: &mut Query, reply: &mut Reply) -> Begun<'a> {
    let Some(chain) = routed(routes, query, reply) else { return Begun::Done(None) };
    if chain.reads_options && query.request.edns.is_some() {
        query.options = Request::options(packet);
    }
    let run = catch_unwind(AssertUnwindSafe(|| chain.run_now(query, reply)));
    match run {
        Ok(Ok(())) => Begun::Done(Some(chain)),
        Ok(Err(at)) => {
            // Only who asks others passes options on: what is answered here spares the copies.
            if !chain.reads_options && query.request.edns.is_some() {
                query.options = Request::options(packet);
            }
            Begun::Waits(chain, at)
        }
        Err(_) => {
            panicked(chain, query, reply);
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
pub(crate) async fn resolve(
    routes: &Arc<Routes>,
    packet: &[u8],
    query: &mut Query,
    reply: &mut Reply,
) -> Option<Arc<Chain>> {
    match begin(routes, packet, query, reply) {
        Begun::Done(chain) => chain.cloned(),
        Begun::Waits(chain, at) => {
            go_on(routes, chain, at, query, reply).await;
            Some(Arc::clone(chain))
        }
    }
}

/// The block for a query; none when it is answered here.
fn routed<'a>(routes: &'a Routes, query: &Query, reply: &mut Reply) -> Option<&'a Arc<Chain>> {
    if query.request.edns.is_some_and(|edns| edns.version != 0) {
        reply.rcode = rcode::BADVERS;
        return None;
    }
    // Nobody here has a zone to transfer, whatever plugin it would come to.
    let transfer = matches!(query.request.rtype, rtype::AXFR | rtype::IXFR);
    let answered = !transfer && (query.request.class == class::IN || routes.other_classes);
    let chain = match query.request.rtype {
        rtype::DS => routes.parent_chain(query),
        _ => routes.chain(query),
    };
    let chain = chain.filter(|_| answered);
    if chain.is_none() {
        reply.rcode = rcode::REFUSED;
    }
    chain
}

fn panicked(chain: &Chain, query: &Query, reply: &mut Reply) {
    chain.observers.panicked();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    reply.fail(rcode::SERVFAIL, Some("a plugin panicked".to_owned()));
}

/// What a packet that is no question gets, noted; `None` when nothing is to be sent.
pub(super) fn rejected(
    routes: &Routes,
    (transport, source): (Transport, SocketAddr),
    packet: &[u8],
    reject: Reject,
) -> Option<[u8; 12]> {
    let answer = match reject {
        Reject::Ignore => None,
        Reject::Answer(code) => Reply::header_only(packet, code).map(|header| (code, header)),
    };
    if let Some(dropped) = &routes.dropped {
        let length = answer.map(|(code, header)| (code, header.len()));
        dropped.note_malformed(transport, source, packet.len(), length);
    }
    answer.map(|(_, header)| header)
}

/// The packet to send, noted; `None` when nothing is to be sent. Without a block it was answered before one could.
pub(crate) fn finish<'a>(
    routes: &Routes,
    chain: Option<&Chain>,
    query: &Query,
    reply: &'a mut Reply,
) -> Option<&'a [u8]> {
    if reply.dropped {
        return None;
    }
    let nsid = chain.and_then(|chain| chain.nsid.as_deref());
    let limits = Limits { size: query.limit(), nsid, cookie: cookie(query) };
    let length = reply.finish(&query.request, &limits).len();
    if let Some(observers) = chain.map(|chain| &chain.observers).or(routes.dropped.as_ref()) {
        observers.note(query, reply, length);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing,
        wire::{Edns, Message, code::rtype},
    };

    const CONF: &str = "test {
 template ANY ANY {
  answer \"{{ .Name }} 1 IN TXT parent\"
 }
 nsid me
}
sub.test {
 template ANY ANY {
  answer \"{{ .Name }} 1 IN TXT child\"
 }
}
empty.example {
}";

    fn asked(query: &mut Query) -> (String, Vec<u8>) {
        let instance = testing::build(CONF).unwrap();
        let routes = Arc::clone(instance.routes.values().next().unwrap());
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        let Begun::Done(chain) = begin(&routes, &[], query, &mut reply) else { panic!("nothing here waits") };
        let shown = testing::shown(&reply);
        (shown, finish(&routes, chain.map(AsRef::as_ref), query, &mut reply).unwrap().to_vec())
    }

    #[test]
    fn the_longest_zone_answers_and_for_ds_its_parent() {
        for (name, rtype, expected) in [
            ("a.test.", rtype::A, "NOERROR aa | a.test. 1 IN TXT \"parent\""),
            ("A.SUB.test.", rtype::A, "NOERROR aa | A.SUB.test. 1 IN TXT \"child\""),
            ("sub.test.", rtype::A, "NOERROR aa | sub.test. 1 IN TXT \"child\""),
            ("sub.test.", rtype::DS, "NOERROR aa | sub.test. 1 IN TXT \"parent\""),
            ("test.", rtype::DS, "NOERROR aa | test. 1 IN TXT \"parent\""),
            ("nobody.", rtype::A, "REFUSED"),
            ("empty.example.", rtype::A, "REFUSED"),
        ] {
            assert_eq!(asked(&mut testing::query(name, rtype)).0, expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_version_of_edns_is_told_so() {
        let mut query = testing::query("a.test.", rtype::A);
        query.request.edns = Some(Edns { size: 1232, dnssec_ok: true, version: 1, nsid: false, cookie: None });
        let (_, packet) = asked(&mut query);
        let message = Message::parse(&packet).unwrap();
        assert_eq!((message.rcode, message.answer().len()), (rcode::BADVERS, 0));
    }

    #[test]
    fn cookies_are_completed_and_the_name_is_given() {
        let mut query = testing::query("a.test.", rtype::A);
        query.request.edns = Some(Edns { size: 1232, dnssec_ok: false, version: 0, nsid: true, cookie: Some([7; 8]) });
        let (_, packet) = asked(&mut query);
        let find = |wanted: &[u8]| packet.windows(wanted.len()).any(|window| window == wanted);
        assert!(find(&[0, 3, 0, 2, b'm', b'e']));
        assert!(find(&[0, 10, 0, 24, 7, 7, 7, 7, 7, 7, 7, 7, 1, 0, 0, 0]));
    }
}
