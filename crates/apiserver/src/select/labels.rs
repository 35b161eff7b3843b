//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use api::error::ApiError;
use api::kinds::names;
use std::collections::BTreeMap;

/// One requirement; all of a selector must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there with one of these values.
    In(String, Vec<String>),
    /// The label is absent or has none of these values.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is not there.
    Absent(String),
    /// The label is there, a whole number, and larger than this.
    Above(String, i64),
    /// The label is there, a whole number, and smaller than this.
    Below(String, i64),
}

/// A label selector. The empty one selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Labels(pub Vec<Requirement>);

impl Labels {
    /// Reads the text form of a query.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        Parser::new(text).selector().map_err(|why| {
            ApiError::bad_request(format!("unable to parse requirement: {why} in label selector {text:?}"))
        })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
            Requirement::Above(key, limit) => number(key).is_some_and(|value| value > *limit),
            Requirement::Below(key, limit) => number(key).is_some_and(|value| value < *limit),
        })
    }
}

struct Parser<'a> {
    rest: &'a str,
}

/// Characters that are tokens of their own; everything else up to one of them is a word.
const MARKS: [char; 7] = ['=', '!', '(', ')', ',', '<', '>'];

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.trim_start() }
    }

    fn selector(mut self) -> Result<Labels, String> {
        let mut list = Vec::new();
        if self.rest.is_empty() {
            return Ok(Labels(list));
        }
        loop {
            list.push(self.requirement()?);
            if self.rest.is_empty() {
                break;
            }
            self.expect(",")?;
            if self.rest.is_empty() || self.rest.starts_with(',') {
                return Err("found ',' where a label key was expected".into());
            }
        }
        list.sort_by(|a, b| key(a).cmp(key(b)));
        Ok(Labels(list))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.expect("!")?;
            return Ok(Requirement::Absent(self.key()?));
        }
        let key = self.key()?;
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Requirement::Exists(key));
        }
        for (mark, equal) in [("==", true), ("=", true), ("!=", false)] {
            if self.rest.starts_with(mark) {
                self.expect(mark)?;
                let value = self.value()?;
                return Ok(if equal {
                    Requirement::In(key, vec![value])
                } else {
                    Requirement::NotIn(key, vec![value])
                });
            }
        }
        for (mark, above) in [(">", true), ("<", false)] {
            if self.rest.starts_with(mark) {
                self.expect(mark)?;
                let text = self.value()?;
                let limit = text.parse().map_err(|_| format!("{text:?} after {mark:?} is not a whole number"))?;
                return Ok(if above { Requirement::Above(key, limit) } else { Requirement::Below(key, limit) });
            }
        }
        match self.word() {
            "in" => Ok(Requirement::In(key, self.values()?)),
            "notin" => Ok(Requirement::NotIn(key, self.values()?)),
            other => Err(format!("found {other:?}, expected in, notin, =, ==, !=, <, >")),
        }
    }

    fn key(&mut self) -> Result<String, String> {
        let word = self.word();
        match names::qualified_name(word).into_iter().next() {
            None => Ok(word.to_owned()),
            Some(why) => Err(format!("{word:?} is not a label key: {why}")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        let word = self.word();
        match names::label_value(word).into_iter().next() {
            None => Ok(word.to_owned()),
            Some(why) => Err(format!("{word:?} is not a label value: {why}")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.expect("(")?;
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            if self.rest.starts_with(')') {
                break;
            }
            self.expect(",")?;
        }
        self.expect(")")?;
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| c.is_whitespace() || MARKS.contains(&c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest.trim_start();
                Ok(())
            }
            None => Err(format!(
                "found {:?}, expected {mark:?}",
                self.rest.chars().next().map(String::from).unwrap_or_default()
            )),
        }
    }
}

fn key(requirement: &Requirement) -> &str {
    match requirement {
        Requirement::In(key, _)
        | Requirement::NotIn(key, _)
        | Requirement::Exists(key)
        | Requirement::Absent(key)
        | Requirement::Above(key, _)
        | Requirement::Below(key, _) => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn each_operator_selects_what_it_says() {
        for (selector, chosen, left) in [
            ("", "a=b", ""),
            ("a=b", "a=b", "a=c"),
            ("a == b , c", "a=b,c=d", "a=b"),
            ("a!=b", "c=d", "a=b"),
            ("a in (b,c)", "a=c", "a=d"),
            ("a notin (b, c)", "x=y", "a=b"),
            ("!a", "x=y", "a=b"),
            ("a", "a=", "b=a"),
            ("a=", "a=", "a=b"),
            ("a>1", "a=2", "a=1"),
            ("a<10,b", "a=9,b=x", "a=9"),
            ("example.com/a in (x)", "example.com/a=x", "a=x"),
        ] {
            let parsed = Labels::parse(selector).unwrap();
            assert!(parsed.matches(&labels(chosen)), "{selector} should select {chosen}");
            if !left.is_empty() {
                assert!(!parsed.matches(&labels(left)), "{selector} should not select {left}");
            }
        }
    }

    #[test]
    fn bad_selectors_are_refused_with_the_place() {
        for bad in [
            "a=b=c", "=a", "a in b", "a in (b", "a,,b", ",a", "a,", "-a=b", "a=b c", "a>x", "!", "a==!b", "a in ()x",
            "a=-",
        ] {
            let error = Labels::parse(bad).unwrap_err();
            assert_eq!(error.code, 400, "{bad}");
            assert!(error.message.contains("label selector"), "{}", error.message);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([a-z=!(),<> ]|in|notin|\\PC){0,40}") {
            let _ = Labels::parse(&text);
        }
    }
}
