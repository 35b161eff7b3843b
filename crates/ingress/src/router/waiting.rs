//! Objects that wait for a new generation of HAProxy, and what stands against it.

use super::model::{Refusal, Source};
use runtime::controller::Key;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    objects: BTreeSet<(Source, Key)>,
    refusal: Option<String>,
}

impl Waiting {
    pub(super) fn add(&mut self, objects: &BTreeSet<(Source, Key)>) {
        self.objects.extend(objects.iter().cloned());
    }

    /// The generation was refused: who waits for it.
    pub(super) fn refused(&mut self, why: String) -> &BTreeSet<(Source, Key)> {
        self.refusal = Some(why);
        &self.objects
    }

    /// The generation runs: who was told otherwise.
    pub(super) fn served(&mut self) -> BTreeSet<(Source, Key)> {
        let objects = std::mem::take(&mut self.objects);
        self.refusal.take().map(|_| objects).unwrap_or_default()
    }

    /// What there is to say of an object that waits.
    pub(super) fn refusal(&self, source: Source, key: &Key) -> Option<Refusal> {
        let why = self.refusal.as_ref().filter(|_| self.objects.contains(&(source, key.clone())))?;
        Some(Refusal::new("ConfigurationRefused", format!("HAProxy does not serve it yet: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_wait_are_told_and_all_of_them_when_it_is_over() {
        let (one, two) = (Key::new("a", "one"), Key::new("a", "two"));
        let mut waiting = Waiting::default();
        waiting.add(&BTreeSet::from([(Source::Route, one.clone())]));
        assert_eq!(waiting.refusal(Source::Route, &one), None);
        assert_eq!(waiting.refused("too many".to_owned()).len(), 1);
        let refusal = waiting.refusal(Source::Route, &one).unwrap();
        assert_eq!(refusal.message, "HAProxy does not serve it yet: too many");
        assert_eq!(waiting.refusal(Source::Route, &two), None);
        assert_eq!(waiting.served(), BTreeSet::from([(Source::Route, one.clone())]));
        waiting.add(&BTreeSet::from([(Source::Route, two)]));
        assert!(waiting.served().is_empty(), "nobody was told otherwise");
    }
}
