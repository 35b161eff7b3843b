//! Something for each of many zones, found for a name from its longest zone to its shortest.

use crate::{hash::Seed, wire::Name};
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub(crate) struct Zones<V> {
    values: HashMap<Box<[u8]>, V, Seed>,
    /// A bit for every number of labels that a zone has: suffixes of other lengths need not be looked up.
    depths: u128,
}

impl<V> Default for Zones<V> {
    fn default() -> Self {
        Self { values: HashMap::default(), depths: 0 }
    }
}

impl<V> Zones<V> {
    /// The value of a zone, in lower case, if it has one.
    pub(crate) fn get_mut(&mut self, zone: &Name) -> Option<&mut V> {
        self.values.get_mut(zone.wire())
    }

    /// Sets the value of a zone, in lower case; the one it had.
    pub(crate) fn insert(&mut self, zone: &Name, value: V) -> Option<V> {
        self.depths |= 1 << zone.label_count();
        self.values.insert(zone.wire().into(), value)
    }

    /// The values of the zones that a name, in lower case, is in. The first is that of the longest zone, and so on;
    /// `skipped` labels at the left of the name are left out.
    pub(crate) fn of<'a, 'n>(
        &'a self,
        lower: &'n Name,
        skipped: usize,
    ) -> impl Iterator<Item = &'a V> + use<'a, 'n, V> {
        let labels = lower.label_count();
        let suffixes = lower.suffixes().enumerate().skip(skipped);
        let known = suffixes.filter(move |(index, _)| self.depths >> (labels - index) & 1 == 1);
        known.filter_map(|(_, suffix)| self.values.get(suffix))
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_zones_from_the_longest_to_the_shortest() {
        let mut zones = Zones::default();
        for zone in [".", "test", "a.b.test", "other.test"] {
            assert_eq!(zones.insert(&Name::parse(zone).unwrap(), zone), None);
        }
        let found =
            |name: &str, skipped| -> Vec<&str> { zones.of(&Name::parse(name).unwrap(), skipped).copied().collect() };
        assert_eq!(found("x.a.b.test", 0), ["a.b.test", "test", "."]);
        assert_eq!(found("a.b.test", 0), ["a.b.test", "test", "."]);
        assert_eq!(found("a.b.test", 1), ["test", "."]);
        assert_eq!(found(".", 0), ["."]);
        assert_eq!(found(".", 1), [""; 0]);
        assert_eq!(found("b.test", 0), ["test", "."]);
        assert_eq!(found("test.nowhere", 0), ["."]);
        // As many labels as a name can have.
        assert_eq!(found(&"a.".repeat(127), 0), ["."]);
    }
}
