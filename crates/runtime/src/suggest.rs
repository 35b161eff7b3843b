//! "Did you mean": the known word nearest to a mistyped one. Called by `config` for keys and by `cli` for commands and
//! plugins.

/// The candidate nearest to `word`, if it is near enough to be a typing mistake: at most a third of the letters differ,
/// and at least one difference is always allowed; or its end was left out, of which at least half is there. The first of
/// equally near candidates wins. Case does not count.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (word, letters) = (word.to_lowercase(), word.chars().count());
    let near = |candidate: &'a str| {
        let whole = candidate.to_lowercase();
        let distance = distance(&word, &whole);
        let shortened = letters >= 3 && distance <= letters && whole.starts_with(&word);
        (shortened || distance <= (letters / 3).max(1)).then_some((distance, candidate))
    };
    candidates.into_iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
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
            ("cluster", Some("cluster-cidr")),
            ("bind", None),
            ("b", None),
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
