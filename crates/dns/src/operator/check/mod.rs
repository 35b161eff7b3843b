//! From what an administrator wrote to what can be rendered, or to all the mistakes in it. Pure.

mod answer;
mod forwards;
mod servers;
mod templates;
mod zone;

pub use forwards::{Forward, Tls};
pub use servers::{Base, Server, base};
pub use templates::{Action, Template, templates};

use std::fmt;

/// One mistake: where, what was written, what is wrong with it and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// For the condition.
    pub reason: Reason,
    /// Path of the field.
    pub path: String,
    /// What stands there.
    pub value: String,
    pub problem: String,
    /// The template's name, if it is in one.
    pub template: Option<String>,
}

/// What sort of mistake, as a condition's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A template's name.
    InvalidName,
    /// Two templates of one name.
    DuplicateName,
    /// No DNS name.
    InvalidZone,
    /// The cluster's own domain.
    ReservedZone,
    /// Two templates for one zone and type.
    DuplicateZone,
    /// More than there may be.
    TooMany,
    /// A type or class that is not supported.
    UnsupportedQuery,
    /// Not exactly one action, or a code that is not supported.
    InvalidAction,
    /// Does not give a record, or not the right one.
    InvalidAnswerTemplate,
    /// Nothing would be left on a cluster of this family.
    FilterWouldBlockAllAddresses,
    /// In servers, resolvers or cache.
    InvalidConfiguration,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(template) = &self.template {
            write!(f, "template {template:?}: ")?;
        }
        write!(f, "{}: {:?} {}", self.path, Shortened(&self.value), self.problem)
    }
}

/// A value as it is shown: what is very long is cut.
struct Shortened<'a>(&'a str);

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 80;
        match self.0.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// Where a mistake can be noted.
struct Notes<'a> {
    found: Vec<Mistake>,
    template: Option<&'a str>,
}

impl Notes<'_> {
    fn add(&mut self, reason: Reason, path: impl Into<String>, value: &str, problem: impl Into<String>) {
        let template = self.template.map(str::to_owned);
        self.found.push(Mistake {
            reason,
            path: path.into(),
            value: value.to_owned(),
            problem: problem.into(),
            template,
        });
    }
}

/// All mistakes in one text, and one word for them.
#[must_use]
pub fn summary(mistakes: &[Mistake], several: &str) -> (String, String) {
    let first = mistakes.first().map(|mistake| mistake.reason);
    let same = mistakes.iter().all(|mistake| Some(mistake.reason) == first);
    let reason = first.filter(|_| same).map_or_else(|| several.to_owned(), |reason| reason.to_string());
    let texts: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
    (reason, texts.join("\n"))
}

#[cfg(test)]
mod tests;
