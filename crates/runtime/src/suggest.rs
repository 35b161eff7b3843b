//! "Did you mean": the known word nearest to a mistyped one. Called by `config` for keys and by `cli` for commands and
//! plugins.

/// The candidate nearest to `word`, if it is near enough to be a typing mistake: at most a third of the letters differ,
/// and at least one difference is always allowed. The first of equally near candidates wins. Case does not count.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn `a` into `b`.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_typing_mistake_finds_its_word_and_a_strange_word_finds_none() {
        let known = ["cluster-cidr", "bind-address", "mode", "dns"];
        for (word, expected) in [
            ("cluster-cdir", Some("cluster-cidr")),
            ("clusterCIDR", Some("cluster-cidr")),
            ("bind-adress", Some("bind-address")),
            ("dnss", Some("dns")),
            ("MODE", Some("mode")),
            ("kubelet", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn distances_count_edits() {
        for (a, b, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("prot", "port", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_zero_only_for_equals(a in ".{0,12}", b in ".{0,12}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }
}
