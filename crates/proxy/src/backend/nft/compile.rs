//! A route as elements of the table's maps.

use super::{
    chains::{self, At, OTHERS_OFFSET, Pick, Which},
    schema,
};
use crate::{
    plan::{Frontend, Pool, Route, Sources, To},
    track::Protocol,
};
use kernel::nft::{self, Part, Value};
use net::Cidr;
use std::net::SocketAddr;

/// One element. The same key never stands for two frontends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Element {
    MapEntry { map: VerdictMap, frontend: Frontend, verdict: Verdict },
    Endpoint { frontend: Frontend, index: u32, endpoint: SocketAddr },
    Allowed { frontend: Frontend, source: Cidr },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VerdictMap {
    Gate,
    Services,
    Own,
    Others,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Drop,
    Refuse,
    NodeDrop,
    NodeRefuse,
    CheckSource,
    Local(At),
    Pick(Pick),
    Sticky(u64),
    MasqueradeSticky(u64),
}

/// All elements of a route.
pub(super) fn elements(route: &Route) -> Vec<Element> {
    let frontend = route.frontend;
    let at = at(frontend);
    let mut list = Vec::new();
    let entry = |map, verdict| Element::MapEntry { map, frontend, verdict };
    match &route.to {
        To::Reject if at == At::NodePort => list.push(entry(VerdictMap::Gate, Verdict::NodeRefuse)),
        To::Reject => list.push(entry(VerdictMap::Gate, Verdict::Refuse)),
        To::Drop if at == At::NodePort => list.push(entry(VerdictMap::Gate, Verdict::NodeDrop)),
        To::Drop => list.push(entry(VerdictMap::Gate, Verdict::Drop)),
        To::Inside(pool) => {
            list.push(entry(VerdictMap::Services, choose(frontend, pool, Which::Plain)));
            endpoints(frontend, pool, 0, &mut list);
        }
        To::Outside(pool) => {
            list.push(entry(VerdictMap::Services, choose(frontend, pool, Which::Masquerade)));
            endpoints(frontend, pool, 0, &mut list);
        }
        To::OutsideLocal { own, others } => {
            list.push(entry(VerdictMap::Services, Verdict::Local(at)));
            list.push(entry(VerdictMap::Own, choose(frontend, own, Which::Plain)));
            endpoints(frontend, own, 0, &mut list);
            list.push(entry(VerdictMap::Others, choose(frontend, others, Which::Others)));
            endpoints(frontend, others, OTHERS_OFFSET, &mut list);
        }
    }
    // Who may not come in is not told that nobody is there either; the refusal for all is shorter.
    if let (Sources::Only(sources), false) = (&route.sources, matches!(route.to, To::Reject | To::Drop)) {
        list.push(entry(VerdictMap::Gate, Verdict::CheckSource));
        list.extend(sources.iter().map(|source| Element::Allowed { frontend, source: *source }));
    }
    list
}

pub(super) fn at(frontend: Frontend) -> At {
    match frontend {
        Frontend::Address { .. } => At::Address,
        Frontend::NodePort { .. } => At::NodePort,
    }
}

fn choose(frontend: Frontend, pool: &Pool, which: Which) -> Verdict {
    match (pool.affinity, which) {
        _ if pool.endpoints.is_empty() => Verdict::Drop,
        (Some(affinity), Which::Masquerade) => Verdict::MasqueradeSticky(affinity.id),
        (Some(affinity), _) => Verdict::Sticky(affinity.id),
        (None, _) => Verdict::Pick(Pick { at: at(frontend), which, protocol: frontend.protocol(), count: count(pool) }),
    }
}

/// The plan holds fewer than 2^16.
fn count(pool: &Pool) -> u32 {
    u32::try_from(pool.endpoints.len()).unwrap_or(OTHERS_OFFSET)
}

/// Pools with affinity have their endpoints in a chain.
fn endpoints(frontend: Frontend, pool: &Pool, from: u32, list: &mut Vec<Element>) {
    if pool.affinity.is_none() {
        let numbered = (from..).zip(pool.endpoints.iter());
        list.extend(numbered.map(|(index, endpoint)| Element::Endpoint { frontend, index, endpoint: *endpoint }));
    }
}

impl Element {
    /// The set it belongs to, and what nftables calls an element.
    pub(super) fn entry(&self) -> (&'static str, nft::Element) {
        match self {
            Self::MapEntry { map, frontend, verdict } => {
                (map.name(at(*frontend)), nft::Element::pair(key(*frontend), verdict.value()))
            }
            Self::Endpoint { frontend, index, endpoint } => {
                let map = schema::endpoints(at(*frontend), frontend.protocol());
                let mut key = key(*frontend);
                key.push(Part::Number(*index));
                let value = Value::Parts(vec![Part::Address(endpoint.ip()), Part::Port(endpoint.port())]);
                (map, nft::Element::pair(key, value))
            }
            Self::Allowed { frontend, source } => {
                let mut key = key(*frontend);
                key.push(Part::Block(*source));
                (schema::ALLOWED, nft::Element::key(key))
            }
        }
    }
}

fn key(frontend: Frontend) -> Vec<Part> {
    let protocol = match frontend.protocol() {
        Protocol::Tcp => Part::Tcp,
        Protocol::Udp => Part::Udp,
        Protocol::Sctp => Part::Sctp,
    };
    match frontend {
        Frontend::Address { ip, port, .. } => vec![Part::Address(ip), protocol, Part::Port(port)],
        Frontend::NodePort { port, .. } => vec![protocol, Part::Port(port)],
    }
}

impl VerdictMap {
    pub(super) const fn name(self, at: At) -> &'static str {
        match (self, at) {
            (Self::Gate, At::Address) => schema::GATE,
            (Self::Gate, At::NodePort) => schema::NODE_GATE,
            (Self::Services, At::Address) => schema::SERVICES,
            (Self::Services, At::NodePort) => schema::NODE_PORTS,
            (Self::Own, At::Address) => schema::OWN,
            (Self::Own, At::NodePort) => schema::NODE_OWN,
            (Self::Others, At::Address) => schema::OTHERS,
            (Self::Others, At::NodePort) => schema::NODE_OTHERS,
        }
    }
}

impl Verdict {
    pub(super) fn value(self) -> Value {
        let chain = match self {
            Self::Drop => return Value::Drop,
            Self::Refuse => "refuse".to_owned(),
            Self::NodeDrop => schema::NODE_DROP.to_owned(),
            Self::NodeRefuse => schema::NODE_REFUSE.to_owned(),
            Self::CheckSource => "check-source".to_owned(),
            Self::Local(At::Address) => "local".to_owned(),
            Self::Local(At::NodePort) => "local-node-port".to_owned(),
            Self::Pick(pick) => pick.to_string(),
            Self::Sticky(id) => chains::sticky(id),
            Self::MasqueradeSticky(id) => chains::masquerade_sticky(id),
        };
        Value::Goto(chain)
    }
}
