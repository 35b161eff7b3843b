//! Mechanisms that live once: words that give a second copy away, and the file that may have them.
//!
//! A row catches what a text can show. Where a word is needed for something else as well, the row names that file and why.

struct Mechanism {
    what: &'static str,
    /// Any of them in code gives it away.
    signs: &'static [&'static str],
    home: &'static str,
    /// Other files that may have the word, and why.
    also: &'static [(&'static str, &'static str)],
}

const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        what: "letters of generated names",
        signs: &["bcdfghjklmnpqrstvwxz"],
        home: "api/src/kinds/names.rs",
        also: &[("install/src/names.rs", "names of clusters that exist must not change")],
    },
    Mechanism {
        what: "regular expressions, which are Go's wherever users write them",
        signs: &["Regex::new(", "RegexBuilder::new("],
        home: "api/src/go_regex.rs",
        also: &[
            ("schema/src/walk/text_format.rs", "formats of OpenAPI, written here"),
            ("dns/src/plugin/kubernetes/parse.rs", "the grammar of selectors, written here"),
        ],
    },
    Mechanism {
        what: "lengths of time as Go writes them",
        signs: &["\"µs\""],
        home: "api/src/go_duration.rs",
        also: &[("schema/src/walk/text_format.rs", "the format duration of OpenAPI, another grammar")],
    },
    Mechanism {
        what: "matching of label selectors",
        signs: &["\"DoesNotExist\" =>"],
        home: "api/src/kinds/selector.rs",
        also: &[
            ("runtime/src/controller/select.rs", "the same for typed selectors; runtime does not know api"),
            ("control/src/scheduler/fit.rs", "node selectors, which have two operators more"),
        ],
    },
    Mechanism {
        what: "keys of service account tokens",
        signs: &["ECDSA_P256_SHA256_FIXED"],
        home: "access/src/authn/service_account/keys.rs",
        also: &[("access/src/authn/jwt.rs", "tokens of other issuers, signed in nine ways")],
    },
    Mechanism {
        what: "the digest of a configuration",
        signs: &["digest::SHA512"],
        home: "dns/src/sha512.rs",
        also: &[],
    },
    Mechanism {
        what: "doubling delays between attempts",
        signs: &["delay * 2", "delay *= 2", "backoff * 2"],
        home: "runtime/src/backoff.rs",
        also: &[("store/src/etcd/feed.rs", "store knows no other crate")],
    },
    Mechanism {
        what: "a hash that never changes",
        signs: &["cbf2_9ce4"],
        home: "runtime/src/stable_hash.rs",
        also: &[],
    },
    Mechanism {
        what: "near words",
        signs: &["osa_distance", "fn levenshtein", "fn edit_distance"],
        home: "runtime/src/suggest.rs",
        also: &[],
    },
    Mechanism {
        what: "values of flags by a name in quotes",
        signs: &["given.or(\"", "given.optional(\"", "given.required(\""],
        home: "",
        also: &[],
    },
];

/// What is wrong with a line of code.
pub(super) fn second_copy(name: &str, file: &str, line: &str) -> Option<String> {
    let place = format!("{name}/{file}");
    let found = |one: &&Mechanism| one.signs.iter().any(|sign| line.contains(sign));
    let mechanism = MECHANISMS.iter().find(found)?;
    let at_home = place == mechanism.home || mechanism.also.iter().any(|(also, _)| *also == place);
    let home = if mechanism.home.is_empty() { "a row of flags!" } else { mechanism.home };
    (!at_home).then(|| format!("looks like a second copy of {}; use {home}", mechanism.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deps::read;

    #[test]
    fn every_row_catches_a_copy_and_leaves_the_original_alone() {
        for mechanism in MECHANISMS {
            for sign in mechanism.signs {
                let line = format!("    let x = {sign};");
                let said = second_copy("net", "src/x.rs", &line).unwrap_or_default();
                assert!(said.contains(mechanism.what), "{sign}: {said}");
                if let Some((name, file)) = mechanism.home.split_once('/') {
                    assert_eq!(second_copy(name, file, &line), None, "{sign}");
                }
            }
        }
    }

    #[test]
    fn every_file_that_is_named_has_the_word() {
        let workspace = read::workspace().expect("the tests run inside the workspace");
        for mechanism in MECHANISMS {
            let others = mechanism.also.iter().map(|(file, _)| *file);
            for place in others.chain([mechanism.home]).filter(|place| !place.is_empty()) {
                let (name, file) = place.split_once('/').expect("crate and file");
                let member = workspace.crates.iter().find(|member| member.name == name).expect("a crate of ours");
                let text = member.sources.iter().find(|(path, _)| path == file).map(|(_, text)| text);
                let has = text.is_some_and(|text| mechanism.signs.iter().any(|sign| text.contains(sign)));
                // Arithmetic of its own has no such word.
                assert!(has || place == "runtime/src/backoff.rs", "{place} has none of {:?}", mechanism.signs);
            }
        }
    }
}
