//! Sets of completion indexes as text: `0-3,5,7,8`. Read and written by the rules of Jobs and by their controller.

use std::fmt;

/// Indexes in order, as runs of neighbours; runs do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(u32, u32)>);

impl Indexes {
    /// What a text says of indexes below `completions`; what cannot be read is left out.
    #[must_use]
    pub fn read(text: &str, completions: u32) -> Self {
        let runs = text.split(',').filter_map(|run| parse_run(run).ok()).filter(|(first, _)| *first < completions);
        let mut runs: Vec<(u32, u32)> = runs.map(|(first, last)| (first, last.min(completions - 1))).collect();
        runs.sort_unstable();
        let mut all = Self::default();
        runs.into_iter().for_each(|run| all.append(run));
        all
    }

    /// The same, with what is wrong with the text: runs in growing order, all below `completions`.
    pub fn parse(text: &str, completions: u32) -> Result<Self, String> {
        let mut all = Self::default();
        if text.is_empty() {
            return Ok(all);
        }
        let mut before: Option<u32> = None;
        for run in text.split(',') {
            let (first, last) = parse_run(run)?;
            if let Some(large) = [first, last].into_iter().find(|index| *index >= completions) {
                return Err(format!("index {large} in {run:?} is not below {completions}"));
            }
            if first > last || before.is_some_and(|before| before >= first) {
                return Err(format!("{run:?} is not in growing order"));
            }
            before = Some(last);
            all.append((first, last));
        }
        Ok(all)
    }

    /// Adds a run that begins nowhere before the last one.
    fn append(&mut self, (first, last): (u32, u32)) {
        match self.0.last_mut() {
            Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
            _ => self.0.push((first, last)),
        }
    }

    /// These and the others.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut runs: Vec<(u32, u32)> = self.0.iter().chain(&other.0).copied().collect();
        runs.sort_unstable();
        let mut all = Self::default();
        runs.into_iter().for_each(|run| all.append(run));
        all
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after.checked_sub(1).is_some_and(|at| self.0[at].1 >= index)
    }

    /// How many are in both.
    #[must_use]
    pub fn common(&self, other: &Self) -> usize {
        let (mut mine, mut theirs, mut count) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(mine), other.0.get(theirs)) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            count += if first <= last { (last - first) as usize + 1 } else { 0 };
            if a.1 < b.1 { mine += 1 } else { theirs += 1 }
        }
        count
    }

    /// The first `count` indexes below `completions` that are not here.
    #[must_use]
    pub fn first_missing(&self, count: usize, completions: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut candidate = 0;
        let end = (completions, completions);
        for (first, last) in self.0.iter().copied().chain([end]) {
            while candidate < first.min(completions) && found.len() < count {
                found.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(last.saturating_add(1));
        }
        found
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        let mut sorted: Vec<u32> = indexes.into_iter().collect();
        sorted.sort_unstable();
        let mut all = Self::default();
        sorted.into_iter().for_each(|index| all.append((index, index)));
        all
    }
}

impl fmt::Display for Indexes {
    /// Two neighbours are two numbers, three are a run, as upstream writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

fn parse_run(run: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{run:?} is no index and no run such as 2-4"));
    match run.split_once('-') {
        Some((first, last)) => Ok((number(first)?, number(last)?)),
        None => number(run).map(|index| (index, index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn texts_are_read_and_written_as_upstream_does() {
        for (text, completions, written, total) in [
            ("", 5, "", 0),
            ("0", 5, "0", 1),
            ("0,1", 5, "0,1", 2),
            ("0,1,2", 5, "0-2", 3),
            ("0-3,5,7,8", 10, "0-3,5,7,8", 7),
            ("0-3,5,7-9", 6, "0-3,5", 5),
            ("2-9", 5, "2-4", 3),
            ("x,1,3-y", 5, "1", 1),
        ] {
            let indexes = Indexes::read(text, completions);
            assert_eq!((indexes.to_string().as_str(), indexes.total()), (written, total), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (text, wrong) in [
            ("0-3,5", None),
            ("5", Some("index 5 in \"5\" is not below 5")),
            ("3-9", Some("index 9 in \"3-9\" is not below 5")),
            ("2,1", Some("\"1\" is not in growing order")),
            ("2-1", Some("\"2-1\" is not in growing order")),
            ("a", Some("\"a\" is no index and no run such as 2-4")),
            ("0-1-2", Some("\"0-1-2\" is no index and no run such as 2-4")),
        ] {
            let completions = if wrong.is_some() { 5 } else { 6 };
            assert_eq!(Indexes::parse(text, completions).err().as_deref(), wrong, "{text}");
        }
    }

    proptest! {
        #[test]
        fn they_are_sets(one in prop::collection::btree_set(0u32..40, 0..20), two in prop::collection::btree_set(0u32..40, 0..20)) {
            let (a, b): (Indexes, Indexes) = (one.iter().copied().collect(), two.iter().copied().collect());
            let both: BTreeSet<u32> = one.union(&two).copied().collect();
            prop_assert_eq!(a.union(&b), both.iter().copied().collect());
            prop_assert_eq!(a.common(&b), one.intersection(&two).count());
            prop_assert_eq!(Indexes::parse(&a.to_string(), 40), Ok(a.clone()));
            let missing: Vec<u32> = (0..40).filter(|index| !one.contains(index)).take(3).collect();
            prop_assert_eq!(a.first_missing(3, 40), missing);
            prop_assert!((0..40).all(|index| a.contains(index) == one.contains(&index)));
        }
    }
}
