//! "Every name but those of a zone" in patterns that have no way to say "not".
//!
//! Filters of the operator use these patterns, so that a stock CoreDNS understands them as well; here they are
//! recognised, and a comparison takes their place.

use crate::wire::Name;

/// Patterns that together match every name that is not within `zone`, for CoreDNS's `match`. A name is matched as text
/// with its final dot, in lower case.
#[must_use]
pub fn complement(zone: &Name) -> Vec<String> {
    let labels: Vec<String> = zone.lower().labels().map(|label| String::from_utf8_lossy(label).into_owned()).collect();
    let mut patterns = Vec::new();
    let mut shorter = vec![r"\.".to_owned()];
    let mut right = r"\.".to_owned();
    for (index, label) in labels.iter().enumerate().rev() {
        patterns.push(format!(r"(^|\.){}{right}$", differs(label)));
        right = format!(r"\.{label}{right}");
        if index > 0 {
            shorter.push(right.trim_start_matches(r"\.").to_owned());
        }
    }
    patterns.push(format!("^({})$", shorter.join("|")));
    patterns
}

/// A label that is another one: shorter, longer, or with a first letter that differs.
fn differs(label: &str) -> String {
    let length = label.len();
    let mut alternatives = Vec::new();
    if length > 1 {
        alternatives.push(format!("[^.]{{1,{}}}", length - 1));
    }
    alternatives.push(format!("[^.]{{{},}}", length + 1));
    for (index, letter) in label.char_indices() {
        let rest = match length - index - 1 {
            0 => String::new(),
            rest => format!("[^.]{{{rest}}}"),
        };
        alternatives.push(format!("{}[^.{letter}]{rest}", &label[..index]));
    }
    format!("({})", alternatives.join("|"))
}

/// The zone whose [`complement`] these patterns are.
pub(super) fn recognised(patterns: &[&str]) -> Option<Name> {
    let (_, differing) = patterns.split_last()?;
    // The last way that each label may differ in spells it out but for its last letter, which is in brackets.
    let label = |pattern: &&str| {
        let inner = pattern.strip_prefix(r"(^|\.)(")?.split_once(')')?.0;
        let (letters, last) = inner.rsplit('|').next()?.split_once("[^.")?;
        Some(format!("{letters}{}.", last.strip_suffix(']')?))
    };
    let text: String = differing.iter().rev().map(label).collect::<Option<_>>()?;
    let zone = Name::parse(&text).ok()?;
    let plain = zone.labels().flatten().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    (plain && complement(&zone) == patterns).then_some(zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::RegexSet;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn the_patterns_are_recognised_and_others_are_not() {
        for zone in ["cluster.local.", "a.", "x.y-z.example.org."] {
            let patterns = complement(&name(zone));
            let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
            assert_eq!(recognised(&texts), Some(name(zone)), "{zone}");
            let mut changed = texts.clone();
            changed.swap(0, texts.len() - 1);
            assert_eq!(recognised(&changed), None);
            assert_eq!(recognised(&texts[..1]), None);
        }
        assert_eq!(recognised(&[]), None);
        assert_eq!(recognised(&["^(.*\\.)?cluster\\.local\\.$"]), None);
    }

    #[test]
    fn the_patterns_of_the_usual_cluster_domain_are_few() {
        let patterns = complement(&name("cluster.local."));
        assert_eq!(patterns.len(), 3);
        assert_eq!(
            patterns[0],
            r"(^|\.)([^.]{1,4}|[^.]{6,}|[^.l][^.]{4}|l[^.o][^.]{3}|lo[^.c][^.]{2}|loc[^.a][^.]{1}|loca[^.l])\.$"
        );
        assert_eq!(patterns[2], r"^(\.|local\.)$");
    }

    proptest! {
        #[test]
        fn exactly_the_names_outside_match(
            zone in "[a-b]{1,3}(\\.[a-b]{1,3}){0,2}",
            inner in "([a-b]{1,3}\\.){0,3}",
            outer in "([a-b]{1,4}\\.){0,4}",
        ) {
            let zone = name(&zone);
            let set = RegexSet::new(complement(&zone)).unwrap();
            for text in [format!("{inner}{zone}"), outer] {
                let text = if text.is_empty() { ".".to_owned() } else { text };
                prop_assert_eq!(set.is_match(&text), !name(&text).is_within(&zone), "{}", text);
            }
        }
    }
}
