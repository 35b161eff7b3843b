//! The maps that HAProxy looks requests up in, and what the claims of a host put into them.

use super::{Claim, Id, Insecure, PathKind, Termination};
use crate::router::text;
use std::{collections::BTreeMap, sync::Arc};

/// The maps that HAProxy looks requests up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Map {
    /// Plain HTTP, whole path.
    HttpExact,
    /// Plain HTTP, beginning of the path.
    HttpPrefix,
    /// TLS ended here, whole path.
    TlsExact,
    /// TLS ended here, beginning of the path.
    TlsPrefix,
    /// TLS passed through, by the name in its beginning.
    Sni,
    /// Names that somebody has claimed, whatever for: what asks for them is never everybody's. Filled only where a rule without a
    /// host may be served.
    Claimed,
}

impl Map {
    pub const ALL: [Self; 6] =
        [Self::HttpExact, Self::HttpPrefix, Self::TlsExact, Self::TlsPrefix, Self::Sni, Self::Claimed];
}

/// Where an entry leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To the servers of a claim.
    To(Id),
    /// To the same with https.
    ToHttps,
    /// To the answer for what nobody serves.
    Nowhere,
}

/// What the maps hold for one host.
pub type Entries = BTreeMap<(Map, String), Leads>;

/// What the maps hold for the claims of one host that are served. What is more special is put in last and so wins.
pub(super) fn entries(served: &[&Arc<Claim>]) -> Entries {
    let mut order: Vec<&&Arc<Claim>> = served.iter().collect();
    order.sort_by_key(|claim| (claim.path.kind == PathKind::Exact, claim.path.text.len()));
    let mut entries = Entries::new();
    for claim in order {
        let host = claim.host.map_key();
        let to = || Leads::To(claim.id.clone());
        let mut put = |exact: Map, prefix: Map, leads: &dyn Fn() -> Leads| {
            let (whole, beginning) = keys(claim);
            entries.extend(whole.map(|path| ((exact, format!("{host}{path}")), leads())));
            entries.extend(beginning.map(|path| ((prefix, format!("{host}{path}")), leads())));
        };
        match (claim.termination, claim.insecure) {
            (Termination::Plain, _) | (_, Insecure::Allow) => put(Map::HttpExact, Map::HttpPrefix, &to),
            (_, Insecure::Redirect) => put(Map::HttpExact, Map::HttpPrefix, &|| Leads::ToHttps),
            (_, Insecure::Refuse) => {}
        }
        if claim.on_tls() {
            put(Map::TlsExact, Map::TlsPrefix, &to);
        }
        if claim.termination == Termination::Passthrough {
            entries.insert((Map::Sni, host), to());
        }
    }
    entries
}

/// How a path is looked up: as a whole, and as the beginning of a longer one.
fn keys(claim: &Claim) -> (Option<String>, Option<String>) {
    let path = text::canonical_path(&claim.path.text);
    let bare = path.trim_end_matches('/');
    match claim.path.kind {
        PathKind::Exact => (Some(path), None),
        _ if bare.is_empty() => (None, Some("/".to_owned())),
        PathKind::Route if path.ends_with('/') => (None, Some(path)),
        PathKind::Route | PathKind::Prefix => (Some(bare.to_owned()), Some(format!("{bare}/"))),
    }
}
