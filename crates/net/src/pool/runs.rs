//! A set of numbers as runs of neighbours: the one structure under every pool.
//!
//! Runs are maximal, never touching, so the first free number at or after any point is one lookup away, at any fill.
//! What is not in the set costs nothing: an IPv6 range is never written out.

use super::space::Span;
use std::collections::BTreeMap;

/// A set of places. `u64::MAX` is never one, so that `last + 1` and the count always fit.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Runs {
    /// First place of a run to its last.
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// Adds all places of the span; says how many were new.
    pub(crate) fn insert(&mut self, span: Span<u64>) -> u64 {
        let (mut first, mut last) = (span.first, span.last);
        let mut known = 0;
        // Swallows every run that overlaps or touches the span.
        while let Some((&start, &end)) = self.runs.range(..=span.last + 1).next_back() {
            if end + 1 < span.first {
                break;
            }
            self.runs.remove(&start);
            known += end - start + 1;
            first = first.min(start);
            last = last.max(end);
        }
        self.runs.insert(first, last);
        let added = last - first + 1 - known;
        self.count += added;
        added
    }

    /// Takes out all places of the span; says how many there were.
    pub(crate) fn remove(&mut self, span: Span<u64>) -> u64 {
        let mut removed = 0;
        while let Some((&start, end)) = self.runs.range_mut(..=span.last).next_back() {
            let run_end = *end;
            if run_end < span.first {
                break;
            }
            if start < span.first {
                *end = span.first - 1;
            } else {
                self.runs.remove(&start);
            }
            if run_end > span.last {
                self.runs.insert(span.last + 1, run_end);
            }
            removed += run_end.min(span.last) - start.max(span.first) + 1;
        }
        self.count -= removed;
        removed
    }

    /// Whether all places of the span are in.
    pub(crate) fn contains(&self, span: Span<u64>) -> bool {
        self.runs.range(..=span.first).next_back().is_some_and(|(_, &end)| end >= span.last)
    }

    /// Whether any place of the span is in.
    pub(crate) fn overlaps(&self, span: Span<u64>) -> bool {
        self.within(span).next().is_some()
    }

    /// The lowest place of the span that is not in.
    pub(crate) fn first_free(&self, span: Span<u64>) -> Option<u64> {
        match self.runs.range(..=span.first).next_back() {
            Some((_, &end)) if end >= span.first => (end < span.last).then_some(end + 1),
            _ => Some(span.first),
        }
    }

    /// How many places are in.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The runs in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Span<u64>> {
        self.runs.iter().map(|(&first, &last)| Span { first, last })
    }

    /// The parts of runs inside the span, highest first.
    pub(crate) fn within(&self, span: Span<u64>) -> impl Iterator<Item = Span<u64>> {
        self.runs
            .range(..=span.last)
            .rev()
            .take_while(move |(_, end)| **end >= span.first)
            .map(move |(&start, &end)| Span { first: start.max(span.first), last: end.min(span.last) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_are_a_set(
            steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..6), 0..60),
            base in prop::sample::select(vec![0, u64::MAX - 50]),
        ) {
            let mut runs = Runs::default();
            let mut model = BTreeSet::new();
            for (add, first, more) in steps {
                let span = Span { first: base + first, last: base + first + more };
                let before = model.len();
                if add {
                    model.extend(span.first..=span.last);
                    prop_assert_eq!(runs.insert(span), (model.len() - before) as u64);
                } else {
                    model.retain(|index| !(span.first..=span.last).contains(index));
                    prop_assert_eq!(runs.remove(span), (before - model.len()) as u64);
                }
                prop_assert_eq!(runs.count(), model.len() as u64);
                prop_assert_eq!(runs.iter().flat_map(|s| s.first..=s.last).collect::<BTreeSet<_>>(), model.clone());
                let touching = runs.iter().zip(runs.iter().skip(1)).any(|(a, b)| a.last + 1 >= b.first);
                prop_assert!(!touching, "{:?}", runs);
                prop_assert_eq!(runs.contains(span), (span.first..=span.last).all(|p| model.contains(&p)));
                prop_assert_eq!(runs.overlaps(span), (span.first..=span.last).any(|p| model.contains(&p)));
                prop_assert_eq!(runs.first_free(span), (span.first..=span.last).find(|p| !model.contains(p)));
            }
        }
    }
}
