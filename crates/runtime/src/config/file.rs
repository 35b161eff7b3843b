//! A configuration file as text by key. Called by `settings`.
//!
//! YAML, of which JSON is a part: one mapping from flag names to values. A list means the flag's comma-separated form,
//! a mapping its `name=value` form, because that is how upstream's flags spell lists and maps.

use serde_json::Value;

/// What a file says, in the file's order of keys as far as the parser keeps it, and what is wrong with it (key if
/// known, problem).
pub(super) struct Parsed {
    pub(super) values: Vec<(String, Given)>,
    pub(super) problems: Vec<(Option<String>, String)>,
}

/// A key that is there; `key:` with nothing after it counts as known but not given.
pub(super) enum Given {
    Text(String),
    Nothing,
}

pub(super) fn parse(content: &[u8]) -> Parsed {
    let mut parsed = Parsed { values: Vec::new(), problems: Vec::new() };
    let Ok(text) = std::str::from_utf8(content) else {
        parsed.problems.push((None, "not UTF-8 text".to_owned()));
        return parsed;
    };
    // `mode: off` must stay the word it is, and a message must stay on its line.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let document = match serde_saphyr::from_str_with_options::<Option<Value>>(text, options) {
        Ok(document) => document.unwrap_or(Value::Null),
        Err(error) => {
            let problem = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            parsed.problems.push((None, format!("not YAML or JSON: {}", problem.trim_end())));
            return parsed;
        }
    };
    match document {
        Value::Null => {}
        Value::Object(entries) => {
            for (key, value) in entries {
                match flag_text(&value) {
                    Ok(given) => parsed.values.push((key, given)),
                    Err(problem) => parsed.problems.push((Some(key), problem)),
                }
            }
        }
        _ => parsed.problems.push((None, "not a mapping of setting names to values".to_owned())),
    }
    parsed
}

/// The value as it would be written after the flag.
fn flag_text(value: &Value) -> Result<Given, String> {
    let text = match value {
        Value::Null => return Ok(Given::Nothing),
        Value::Array(items) => items.iter().map(scalar).collect::<Result<Vec<_>, _>>()?.join(","),
        Value::Object(entries) => {
            let pair = |(name, value): (&String, &Value)| Ok(format!("{name}={}", scalar(value)?));
            entries.iter().map(pair).collect::<Result<Vec<_>, String>>()?.join(",")
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value)?,
    };
    Ok(Given::Text(text))
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::Bool(value) => Ok(value.to_string()),
        // By now 1.30 has become 1.3, which is another version.
        Value::Number(value) if value.is_f64() => Err(format!("{value} is a number with a fraction; put it in quotes")),
        Value::Number(value) => Ok(value.to_string()),
        Value::String(value) => Ok(value.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err("nested too deep; accepted: a value, a list of values, or a mapping of names to values".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `key=text` for each value, `key` for one without, then `!problem` lines.
    fn shown(content: &[u8]) -> Vec<String> {
        let parsed = parse(content);
        let values = parsed.values.into_iter().map(|(key, given)| match given {
            Given::Text(text) => format!("{key}={text}"),
            Given::Nothing => key,
        });
        let problems =
            parsed.problems.into_iter().map(|(key, problem)| format!("!{} {problem}", key.unwrap_or_default()));
        values.chain(problems).collect()
    }

    #[test]
    fn every_value_becomes_what_one_would_type_after_the_flag() {
        let yaml = b"
cluster-cidr: [10.0.0.0/16, 'fd00::/48']
feature-gates: {Alpha: true, Beta: false}
mode: nftables
port: 6443
verbose: true
bind-address: '::'
empty:
";
        let mut found = shown(yaml);
        found.sort();
        assert_eq!(
            found,
            [
                "bind-address=::",
                "cluster-cidr=10.0.0.0/16,fd00::/48",
                "empty",
                "feature-gates=Alpha=true,Beta=false",
                "mode=nftables",
                "port=6443",
                "verbose=true",
            ]
        );
    }

    #[test]
    fn json_is_read_as_well() {
        assert_eq!(shown(br#"{"port": 53, "zones": ["a.test", "b.test"]}"#), ["port=53", "zones=a.test,b.test"]);
    }

    #[test]
    fn words_that_only_old_yaml_took_for_booleans_stay_words() {
        assert_eq!(shown(b"a: yes\n"), ["a=yes"]);
        assert_eq!(shown(b"a: off\n"), ["a=off"]);
    }

    #[test]
    fn nothing_at_all_is_an_empty_configuration() {
        for content in [&b""[..], b"\n", b"# only a comment\n", b"null\n"] {
            assert!(shown(content).is_empty(), "{content:?}");
        }
    }

    #[test]
    fn what_is_not_a_flat_mapping_is_a_problem_that_says_so() {
        assert_eq!(shown(b"- a\n- b\n"), ["! not a mapping of setting names to values"]);
        assert_eq!(shown(b"\xff\xfe"), ["! not UTF-8 text"]);
        assert_eq!(
            shown(b"a: {b: {c: d}}\n"),
            ["!a nested too deep; accepted: a value, a list of values, or a mapping of names to values"]
        );
        assert_eq!(shown(b"version: 1.30\n"), ["!version 1.3 is a number with a fraction; put it in quotes"]);
        assert_eq!(shown(b"version: '1.30'\n"), ["version=1.30"]);
        assert_eq!(shown(b"a: [b\n"), ["! not YAML or JSON: unclosed bracket '[' at line 1, column 4"]);
        assert_eq!(
            shown(b"a: 1\na: 2\n"),
            ["! not YAML or JSON: duplicate mapping key: a not allowed here at line 2, column 1"]
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&content);
        }

        #[test]
        fn arbitrary_text_of_yaml_signs_never_panics(content in "[-a:{}\\[\\],'\"|>&*!#%@ \n\t0-9]{0,80}") {
            parse(content.as_bytes());
        }
    }
}
