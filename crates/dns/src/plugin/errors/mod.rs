//! `errors`: logs why queries failed.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::{
        Reply,
        code::{rcode, rtype},
    },
};
use parking_lot::Mutex;
use regex::Regex;
use std::time::{Duration, Instant};

/// What a block's `errors` line says.
#[derive(Debug, Default)]
pub struct Errors {
    rules: Vec<Rule>,
}

/// Errors that fit are counted, and told once in a while.
#[derive(Debug)]
struct Rule {
    pattern: Regex,
    every: Duration,
    level: Level,
    show_first: bool,
    seen: Mutex<Option<(Instant, u64)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    building.observers.errors = Some(std::sync::Arc::new(parse(only(lines)?)?));
    Ok(())
}

fn parse(line: &Directive) -> Result<Errors, Problem> {
    // `errors stdout` is an old spelling of the default.
    if let Some(argument) = line.args.iter().find(|argument| argument.text != "stdout") {
        return Err(Problem::at(argument, "accepted: stdout, or nothing"));
    }
    let mut rules = Vec::new();
    for line in line.lines() {
        match line.name.text.as_str() {
            "stacktrace" => line.none()?,
            "consolidate" => rules.push(rule(line)?),
            _ => return Err(line.unknown(&["consolidate", "stacktrace"])),
        }
    }
    Ok(Errors { rules })
}

fn rule(line: &Directive) -> Result<Rule, Problem> {
    let [every, pattern, rest @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a duration and a pattern"));
    };
    let (mut level, mut show_first) = (Level::Error, false);
    for word in rest {
        match word.text.as_str() {
            "error" => level = Level::Error,
            "warning" => level = Level::Warning,
            "info" => level = Level::Info,
            "debug" => level = Level::Debug,
            "show_first" => show_first = true,
            _ => return Err(Problem::at(word, "accepted: error, warning, info, debug, show_first")),
        }
    }
    Ok(Rule {
        pattern: api::go_regex::compile(&pattern.text).map_err(|error| Problem::at(pattern, error.to_string()))?,
        every: crate::text::duration(every)?,
        level,
        show_first,
        seen: Mutex::new(None),
    })
}

impl Errors {
    /// Logs the reply's error, if it has one.
    pub fn note(&self, query: &Query, reply: &Reply) {
        let Some(error) = &reply.error else { return };
        for rule in &self.rules {
            if rule.pattern.is_match(error) {
                return rule.count(error);
            }
        }
        let (rcode, name) = (rcode::text(reply.rcode), query.request.name);
        tracing::error!("plugin/errors: {rcode} {name} {}: {error}", rtype::text(query.request.rtype));
    }
}

impl Rule {
    /// The first error begins a period; the first after its end tells how many there were.
    fn count(&self, error: &str) {
        let mut seen = self.seen.lock();
        match &mut *seen {
            None => {
                *seen = Some((Instant::now(), 1));
                if self.show_first {
                    self.log(error);
                }
            }
            Some((begun, count)) if begun.elapsed() < self.every => *count += 1,
            Some((begun, count)) => {
                let pattern = self.pattern.as_str();
                self.log(&format!("{count} errors like '{pattern}' occurred in last {:?}", self.every));
                (*begun, *count) = (Instant::now(), 1);
            }
        }
    }

    fn log(&self, text: &str) {
        match self.level {
            Level::Error => tracing::error!("plugin/errors: {text}"),
            Level::Warning => tracing::warn!("plugin/errors: {text}"),
            Level::Info => tracing::info!("plugin/errors: {text}"),
            Level::Debug => tracing::debug!("plugin/errors: {text}"),
        }
    }
}
