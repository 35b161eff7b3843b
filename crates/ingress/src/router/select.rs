//! Label selectors as text, as ROUTE_LABELS and NAMESPACE_LABELS have them.

use std::{collections::BTreeMap, str::FromStr};

/// Labels as metadata has them.
type Labels = BTreeMap<String, String>;

/// Requirements that must all hold. None is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    all: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Whether it picks everything.
    pub fn is_everything(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether it picks these labels.
    pub fn picks(&self, labels: Option<&Labels>) -> bool {
        self.all.iter().all(|Requirement { key, test }| {
            let value = labels.and_then(|labels| labels.get(key));
            match test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
            }
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    /// `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, between commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in parts(text) {
            all.push(requirement(part.trim())?);
        }
        Ok(Self { all })
    }
}

/// Between commas that are not inside brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    if text.trim().is_empty() { Vec::new() } else { found }
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let set = |word: &str| {
        let (key, rest) = text.split_once(word)?;
        let list = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some((key.trim(), list.split(',').map(|value| value.trim().to_owned()).collect::<Vec<_>>()))
    };
    let (key, test) = if let Some((key, values)) = set(" notin ") {
        (key, Test::NotIn(values))
    } else if let Some((key, values)) = set(" in ") {
        (key, Test::In(values))
    } else if let Some((key, value)) = text.split_once("!=") {
        (key.trim(), Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key.trim(), Test::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key.trim(), Test::Absent)
    } else {
        (text, Test::Exists)
    };
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    let values = match &test {
        Test::In(values) | Test::NotIn(values) => values.as_slice(),
        Test::Exists | Test::Absent => &[],
    };
    if key.is_empty() || !plain(key) || !values.iter().all(|value| plain(value)) {
        return Err(format!("{text:?} is no requirement on a label"));
    }
    Ok(Requirement { key: key.to_owned(), test })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_pick_what_they_say() {
        let labels = Labels::from([("a".to_owned(), "1".to_owned()), ("b/c".to_owned(), "x".to_owned())]);
        for (text, picked) in [
            ("", true),
            ("a", true),
            ("a=1", true),
            ("a==1,b/c=x", true),
            ("a=2", false),
            ("a!=2", true),
            ("!a", false),
            ("!z", true),
            ("a in (2, 1)", true),
            ("a notin (1)", false),
            ("z notin (1),a", true),
            ("z in (1)", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().picks(Some(&labels)), picked, "{text}");
        }
        for bad in ["=", "a b", "a in (b", ",", "a=b\nc"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad:?}");
        }
    }
}
