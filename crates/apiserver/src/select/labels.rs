//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use api::{error::ApiError, kinds::names};
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
        let wrong = |why| ApiError::bad_request(format!("{why} in label selector {text:?}"));
        Parser { rest: text }.selector().map_err(wrong)
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

/// What the text is made of. Words and marks, with blanks between them or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the operators `in` and `notin`, which can be both.
    Word(&'a str),
    Mark(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Mark(text) => text,
            Self::End => "",
        }
    }
}

/// Longest first.
const MARKS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
const NUL: char = '\0';

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<Labels, String> {
        let mut list = Vec::new();
        loop {
            match self.peek() {
                Token::End => break,
                Token::Word(_) | Token::Mark("!") => {}
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
            list.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                Token::End => break,
                Token::Mark(",") => match self.peek() {
                    Token::Word(_) | Token::Mark("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
        list.sort_by(|a, b| key(a).cmp(key(b)));
        Ok(Labels(list))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut first = self.next();
        let absent = first == Token::Mark("!");
        if absent {
            first = self.next();
        }
        let Token::Word(word) = first else { return Err(format!("found '{}', expected: identifier", first.text())) };
        if let Some(why) = names::qualified_name(word).into_iter().next() {
            return Err(format!("<nil>: Invalid value: {word:?}: {why}"));
        }
        let key = word.to_owned();
        if absent {
            return Ok(Requirement::Absent(key));
        }
        if matches!(self.peek(), Token::End | Token::Mark(",")) {
            return Ok(Requirement::Exists(key));
        }
        match self.next() {
            Token::Word("in") => Ok(Requirement::In(key, self.values(word)?)),
            Token::Word("notin") => Ok(Requirement::NotIn(key, self.values(word)?)),
            Token::Mark("=" | "==") => Ok(Requirement::In(key, vec![self.value(word)?])),
            Token::Mark("!=") => Ok(Requirement::NotIn(key, vec![self.value(word)?])),
            Token::Mark(">") => Ok(Requirement::Above(key, self.number(word)?)),
            Token::Mark("<") => Ok(Requirement::Below(key, self.number(word)?)),
            other => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        }
    }

    /// One value, which is empty where the text or the term ends.
    fn value(&mut self, key: &str) -> Result<String, String> {
        let word = match self.peek() {
            Token::End | Token::Mark(",") => "",
            _ => match self.next() {
                Token::Word(word) => word,
                other => return Err(format!("found '{}', expected: identifier", other.text())),
            },
        };
        check(key, 0, word)?;
        Ok(word.to_owned())
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let text = self.value(key)?;
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        text.parse().map_err(|_| format!("values[0]: Invalid value: {text:?}: {why}"))
    }

    /// `(a,b)`; what stands between two commas may be nothing, which is the empty value.
    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Mark("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(word) => {
                    self.next();
                    values.push(word.to_owned());
                }
                Token::Mark("," | ")") => values.push(String::new()),
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
            match self.next() {
                Token::Mark(")") => break,
                Token::Mark(",") => {}
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort();
        values.dedup();
        for (at, value) in values.iter().enumerate() {
            check(key, at, value)?;
        }
        Ok(values)
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(BLANKS);
        // As in upstream's reader of bytes, NUL is the end where a token could begin, and ends a word.
        if self.rest.is_empty() || self.rest.starts_with(NUL) {
            return Token::End;
        }
        if let Some(mark) = MARKS.iter().find(|mark| self.rest.starts_with(**mark)) {
            let (mark, rest) = self.rest.split_at(mark.len());
            self.rest = rest;
            return Token::Mark(mark);
        }
        let ends = |c: char| BLANKS.contains(&c) || "=!(),<>\0".contains(c);
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest.strip_prefix(NUL).unwrap_or(rest);
        Token::Word(word)
    }
}

fn check(key: &str, at: usize, value: &str) -> Result<(), String> {
    match names::label_value(value).into_iter().next() {
        None => Ok(()),
        Some(why) => Err(format!("values[{at}][{key}]: Invalid value: {value:?}: {why}")),
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
            ("a in ()", "a=", "a=b"),
            ("a notin ()", "b=a", "a="),
            ("a in (,b)", "a=", "a=c"),
            ("a in (b,,)", "a=", "a=c"),
            ("in in (in,notin)", "in=notin", "in=x"),
            ("notin", "notin=a", "in=a"),
            ("a=in", "a=in", "a=x"),
            ("!in", "a=b", "in=x"),
            ("a\t=\r\nb", "a=b", "a=c"),
            ("a=,b!=", "a=", "a=b"),
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
            "a=b=c",
            "=a",
            "a in b",
            "a in (b",
            "a,,b",
            ",a",
            "a,",
            "-a=b",
            "a=b c",
            "a>x",
            "!",
            "a==!b",
            "a in ()x",
            "a=-",
            "!a=b",
            "a===b",
            "a in (b",
            "a in (b c)",
            "a in",
            "a notin b",
            "a b",
            "a>",
            "a>-1",
            "a in (=)",
            "!!a",
            "a/b/c",
            "a(b)",
            "a in (b))",
            "a<1.5",
            "()",
        ] {
            let error = Labels::parse(bad).unwrap_err();
            assert_eq!(error.code, 400, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([a-z=!(),<> ]|in|notin|\\PC){0,40}") {
            let _ = Labels::parse(&text);
        }
    }
}
