//! How endpoints are packed into the slices of one group of ports, touching as few slices as possible.
//!
//! Called by `plan`. Mirrors upstream: gone endpoints leave their slice, slices that are written anyway are filled first,
//! the rest goes into one slice that fits best, then into new ones. Half-empty slices are never merged.

use super::draft::{Draft, Identity, empty, identity, labels, says_the_same};
use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
};
use net::Family;
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// What becomes of the slices of one group.
#[derive(Debug, Default)]
pub struct Packed {
    /// Those that stay, changed or not, and new ones.
    pub drafts: Vec<Draft>,
    /// Those that are empty now.
    pub gone: Vec<Arc<EndpointSlice>>,
    /// How many endpoints were not there before.
    pub added: usize,
    /// How many are there no longer.
    pub removed: usize,
}

/// The group of slices to pack.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Whose slices they are.
    pub service: &'a Service,
    pub family: Family,
    pub ports: &'a [EndpointPort],
    /// How many endpoints go into one.
    pub most: usize,
}

pub fn pack(group: Group<'_>, stored: Vec<Arc<EndpointSlice>>, wanted: Vec<Endpoint>) -> Packed {
    let labels = labels(group.service);
    let mut packed = Packed::default();
    let mut missing: BTreeMap<Identity, Endpoint> =
        wanted.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    for slice in stored {
        keep_wanted(slice, &mut missing, &labels, &mut packed);
    }
    packed.added = missing.len();
    let mut missing: Vec<Endpoint> = missing.into_values().collect();

    packed.drafts.sort_by_key(|draft| Reverse(draft.endpoints().len()));
    for draft in packed.drafts.iter_mut().filter(|draft| draft.is_edited()) {
        fill(draft, &mut missing, group.most);
    }
    if !missing.is_empty() && missing.len() < group.most {
        let after = |draft: &Draft| (draft.endpoints().len() + missing.len()).min(group.most + 1);
        let fitting = packed.drafts.iter_mut().filter(|draft| !draft.is_edited() && after(draft) <= group.most);
        if let Some(draft) = fitting.max_by_key(|draft| after(draft)) {
            fill(draft, &mut missing, group.most);
        }
    }
    while !missing.is_empty() {
        let mut draft = Draft::new(empty(group.service, group.family, group.ports.to_vec()));
        fill(&mut draft, &mut missing, group.most);
        packed.drafts.push(draft);
    }
    packed
}

/// Takes what is still wanted of a stored slice; what it has is no longer missing.
fn keep_wanted(
    slice: Arc<EndpointSlice>,
    missing: &mut BTreeMap<Identity, Endpoint>,
    labels: &BTreeMap<String, String>,
    packed: &mut Packed,
) {
    let stored = slice.endpoints.as_deref().unwrap_or_default();
    let mut changed = false;
    let mut kept = Vec::with_capacity(stored.len());
    for old in stored {
        match missing.remove(&identity(old)) {
            Some(new) if says_the_same(old, &new) => kept.push(old.clone()),
            Some(new) => {
                changed = true;
                kept.push(new);
            }
            None => {
                changed = true;
                packed.removed += 1;
            }
        }
    }
    if changed && kept.is_empty() {
        packed.gone.push(slice);
        return;
    }
    let relabelled = slice.metadata.labels.as_ref() != Some(labels);
    let mut draft = Draft::stored(slice);
    if changed {
        *draft.edit_endpoints() = kept;
    }
    if relabelled {
        draft.edit().metadata.labels = Some(labels.clone());
    }
    packed.drafts.push(draft);
}

fn fill(draft: &mut Draft, missing: &mut Vec<Endpoint>, most: usize) {
    let room = most.saturating_sub(draft.endpoints().len()).min(missing.len());
    if room > 0 {
        draft.edit_endpoints().extend(missing.drain(..room));
    }
}
