//! Of several claims for the same thing, which ones are served. Called by `Model` for one host at a time.
//!
//! The oldest claim's namespace owns the host, unless hosts are shared. Each path is given once, to the oldest. TLS of a host
//! is either passed through or ended here, whichever the oldest TLS claim says.

use super::{Claim, Host, Id, Insecure, PathKind, Refusal, Termination};
use crate::router::text;
use std::{collections::HashMap, sync::Arc};

/// What became of each claim.
pub(super) type Verdicts = Vec<(Id, Result<(), Refusal>)>;

/// Something that is given once: a path as it is compared, or the whole name for passthrough.
type Slot = (String, Sort);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Exact,
    Prefix,
    Name,
}

/// Decides about all claims of one host. `above` owns the wildcard over it, if somebody does.
pub(super) fn elect(claims: &[&Arc<Claim>], above: Option<&Claim>, shared: bool) -> Verdicts {
    let mut order: Vec<&Arc<Claim>> = claims.to_vec();
    order.sort_by(|a, b| (&a.age, &a.id).cmp(&(&b.age, &b.id)));
    let owner = order.first().map(|first| first.id.key.namespace.clone());
    let mut tls: Option<&Claim> = None;
    let mut given: HashMap<Slot, &Claim> = HashMap::new();
    let mut verdicts = Verdicts::new();
    for claim in order {
        let foreign = if shared { None } else { foreign(claim, owner.as_deref(), above) };
        let clash = tls.filter(|first| claim.termination != Termination::Plain && passes(first) != passes(claim));
        let clash = clash.map(|first| format!("{} with another TLS termination", first.id.key));
        let taken = slots(claim).into_iter().flatten().find_map(|slot| given.get(&slot));
        let taken = taken.map(|first| format!("{} with the same path", first.id.key));
        let verdict = match foreign.or(clash).or(taken) {
            Some(who) => Err(claimed(claim, &who)),
            None => Ok(()),
        };
        if verdict.is_ok() {
            given.extend(slots(claim).into_iter().flatten().map(|slot| (slot, &**claim)));
            tls = tls.or_else(|| Some(&**claim).filter(|claim| claim.termination != Termination::Plain));
        }
        verdicts.push((claim.id.clone(), verdict));
    }
    verdicts
}

fn passes(claim: &Claim) -> bool {
    claim.termination == Termination::Passthrough
}

/// Who has the host, when it is somebody of another namespace.
fn foreign(claim: &Claim, owner: Option<&str>, above: Option<&Claim>) -> Option<String> {
    let namespace = &claim.id.key.namespace;
    let older = |above: &&Claim| (&above.age, &above.id) < (&claim.age, &claim.id);
    let wild = above.filter(|above| above.id.key.namespace != *namespace).filter(older);
    let wild = wild.map(|above| format!("a wildcard of namespace {}", above.id.key.namespace));
    owner.filter(|owner| owner != namespace).map(|owner| format!("namespace {owner}")).or(wild)
}

/// Passthrough takes the name, and the path of plain HTTP only to redirect it; everything else takes its path.
fn slots(claim: &Claim) -> [Option<Slot>; 2] {
    let text = text::canonical_path(&claim.path.text);
    let path = match claim.path.kind {
        PathKind::Exact => (text, Sort::Exact),
        PathKind::Prefix if text.len() > 1 => (text.trim_end_matches('/').to_owned(), Sort::Prefix),
        PathKind::Route | PathKind::Prefix => (text, Sort::Prefix),
    };
    match passes(claim) {
        true => [Some((String::new(), Sort::Name)), Some(path).filter(|_| claim.insecure == Insecure::Redirect)],
        false => [Some(path), None],
    }
}

fn claimed(claim: &Claim, who: &str) -> Refusal {
    let name = match &claim.host {
        Host::Exact(host) => host.clone(),
        Host::Below(domain) => format!("*.{domain}"),
        Host::Any => "every host that nobody has claimed".to_owned(),
    };
    Refusal::new("HostAlreadyClaimed", format!("{name}{} is served for {who}, which is older", claim.path.text))
}

/// Why a wildcard is not served: a name below its domain is older and of another namespace.
pub(super) fn blocked<'a>(wildcard: &Claim, names: impl Iterator<Item = &'a Arc<Claim>>) -> Option<Refusal> {
    let older = |name: &&Arc<Claim>| {
        name.id.key.namespace != wildcard.id.key.namespace && (&name.age, &name.id) < (&wildcard.age, &wildcard.id)
    };
    let first = names.filter(older).min_by(|a, b| (&a.age, &a.id).cmp(&(&b.age, &b.id)))?;
    Some(claimed(wildcard, &format!("a name of namespace {}", first.id.key.namespace)))
}
