//! `featureSet` and `featureGates`.

use crate::{fields::Fields, notes::Notes};
use api::config::FeatureSet;
use runtime::suggest;
use std::collections::BTreeMap;

const SETS: [(&str, FeatureSet); 5] = [
    ("Default", FeatureSet::Default),
    ("TechPreviewNoUpgrade", FeatureSet::TechPreviewNoUpgrade),
    ("DevPreviewNoUpgrade", FeatureSet::DevPreviewNoUpgrade),
    ("CustomNoUpgrade", FeatureSet::CustomNoUpgrade),
    ("OKD", FeatureSet::Okd),
];

/// The set, and the gates that the custom set opens or closes.
pub(super) fn read(fields: &mut Fields<'_>, notes: &mut Notes) -> (FeatureSet, BTreeMap<String, bool>) {
    let text = fields.text("featureSet", notes);
    let set = text
        .as_deref()
        .map_or(Some(FeatureSet::Default), |text| SETS.iter().find(|(name, _)| *name == text).map(|(_, set)| *set));
    if let (None, Some(text)) = (set, &text) {
        let names = SETS.map(|(name, _)| name);
        let near = suggest::nearest(text, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        notes.wrong(
            &fields.child("featureSet"),
            text,
            format!("is no feature set; accepted: {}{near}", names.join(", ")),
        );
    }
    let mut gates = BTreeMap::new();
    let given = fields.texts("featureGates", notes);
    if !given.is_empty() && set.is_some_and(|set| set != FeatureSet::CustomNoUpgrade) {
        notes.refused(&fields.child("featureGates"), "needs featureSet CustomNoUpgrade");
    }
    for (path, text) in given {
        let pair = text.split_once('=').and_then(|(name, open)| Some((name, open.to_ascii_lowercase().parse().ok()?)));
        match pair.filter(|(name, _)| is_gate(name)) {
            Some((name, open)) => {
                if gates.insert(name.to_owned(), open).is_some() {
                    notes.wrong(&path, text, "names a gate for the second time");
                }
            }
            None => notes.wrong(&path, text, "is no gate; accepted: NAME=true, NAME=false"),
        }
    }
    (set.unwrap_or_default(), gates)
}

fn is_gate(name: &str) -> bool {
    !name.is_empty()
        && name.split('.').all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'))
}
