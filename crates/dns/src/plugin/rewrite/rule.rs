//! What a rule looks for and what it changes.

use super::edns0;
use crate::{
    query::Query,
    wire::{Name, Record},
};
use regex::Regex;

/// One line.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) change: Change,
    /// No further rule is looked at.
    pub(super) stop: bool,
}

#[derive(Debug)]
pub(super) enum Change {
    Type {
        from: u16,
        to: u16,
    },
    Class {
        from: u16,
        to: u16,
    },
    Name {
        pattern: Pattern,
        to: String,
        answers: Vec<Answers>,
    },
    Ttl {
        pattern: Pattern,
        lifetime: Lifetime,
    },
    /// For upstreams.
    Option(edns0::Rule),
    /// Of the answer to these names.
    Rcode {
        pattern: Pattern,
        from: u16,
        to: u16,
    },
    /// Of CNAMEs that lead to these names.
    Cname {
        pattern: Pattern,
        to: String,
    },
}

/// What names a rule is for, all as text in lower case with the final dot.
#[derive(Debug)]
pub(super) enum Pattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Substring(String),
    Regex(Regex),
}

/// Bounds of a TTL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) least: u32,
    pub(super) most: u32,
}

/// How names in answers are changed back.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) part: RecordPart,
    pub(super) from: Regex,
    pub(super) to: String,
}

/// Where in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPart {
    Owner,
    Data,
    Both,
}

/// What a rule did.
pub(super) enum Changed {
    Name(Box<Name>, Vec<Answers>),
    Type(u16),
    Class(u16),
    Lifetime(Lifetime),
    Rcode(u16, u16),
}

impl Change {
    /// What becomes of a query, if the rule is for it.
    pub(super) fn apply(&self, query: &Query) -> Option<Changed> {
        match self {
            Self::Type { from, to } => (query.request.rtype == *from).then_some(Changed::Type(*to)),
            Self::Class { from, to } => (query.request.class == *from).then_some(Changed::Class(*to)),
            Self::Ttl { pattern, lifetime } => {
                pattern.replaced(&query.lower.to_string(), "").map(|_| Changed::Lifetime(*lifetime))
            }
            Self::Rcode { pattern, from, to } => {
                pattern.replaced(&query.lower.to_string(), "").map(|_| Changed::Rcode(*from, *to))
            }
            // Only the answer shows whether it is for this query; options are no part of the question.
            Self::Cname { .. } | Self::Option(_) => None,
            Self::Name { pattern, to, answers } => {
                let text = pattern.replaced(&query.lower.to_string(), to)?;
                // A rule may make something that is no name; then it is not applied.
                Name::parse(&text).ok().map(|name| Changed::Name(Box::new(name), answers.clone()))
            }
        }
    }
}

impl Change {
    /// Where a CNAME to this name leads instead, if the rule is for it.
    pub(super) fn retargeted(&self, target: &Name) -> Option<Name> {
        let Self::Cname { pattern, to } = self else { return None };
        Name::parse(&pattern.replaced(&target.lower().to_string(), to)?).ok()
    }
}

impl Pattern {
    /// The name with the part that was found replaced.
    fn replaced(&self, name: &str, to: &str) -> Option<String> {
        match self {
            Self::Exact(from) => (name == from).then(|| to.to_owned()),
            Self::Prefix(from) => name.strip_prefix(from.as_str()).map(|rest| format!("{to}{rest}")),
            Self::Suffix(from) => name.strip_suffix(from.as_str()).map(|rest| format!("{rest}{to}")),
            Self::Substring(from) => name.contains(from.as_str()).then(|| name.replace(from.as_str(), to)),
            Self::Regex(from) => from.captures(name).map(|groups| filled(to, &groups)),
        }
    }
}

/// `{1}` is the first group.
fn filled(to: &str, groups: &regex::Captures<'_>) -> String {
    let mut text = to.to_owned();
    for (index, group) in groups.iter().enumerate() {
        text = text.replace(&format!("{{{index}}}"), group.map_or("", |group| group.as_str()));
    }
    text
}

impl Answers {
    pub(super) fn apply(&self, record: &mut Record) {
        let change = |name: Name| {
            let text = name.lower().to_string();
            let new = self.from.captures(&text).and_then(|groups| Name::parse(&filled(&self.to, &groups)).ok());
            new.unwrap_or(name)
        };
        if self.part != RecordPart::Data {
            record.name = change(record.name);
        }
        if self.part != RecordPart::Owner {
            record.map_names(change);
        }
    }
}
