//! Which elements of the table decide on a packet, for `twinstack proxy explain`.

use super::{
    chains::At,
    compile::{self, Element, Verdict, VerdictMap},
};
use crate::{
    explain::From,
    plan::{Route, Sources},
};

/// `map: verdict` for each map that is asked and answers, in order.
#[must_use]
pub fn trace(route: &Route, from: From) -> Vec<String> {
    let elements = compile::elements(route);
    let answer = |wanted: VerdictMap| {
        elements.iter().find_map(|element| match element {
            Element::MapEntry { map, frontend, verdict } if *map == wanted => {
                Some((format!("{}: {}", map.name(compile::at(*frontend)), verdict.value()), *verdict))
            }
            _ => None,
        })
    };
    let mut list = Vec::new();
    let mut last = None;
    for map in [VerdictMap::Gate, VerdictMap::Services] {
        if let Some((text, verdict)) = answer(map) {
            list.push(text);
            last = Some(verdict);
        }
    }
    if let Some(Verdict::Local(At::Address | At::NodePort)) = last {
        let next = if from == From::Outside { VerdictMap::Others } else { VerdictMap::Own };
        list.extend(answer(next).map(|(text, _)| text));
    }
    if route.sources == Sources::Only(Vec::new()) {
        // The gate is as far as it comes.
        list.truncate(1);
    }
    list
}
