//! Reading `rewrite` lines.

use super::{
    edns0,
    rule::{Answers, Change, Lifetime, Pattern, RecordPart, Rule},
};
use crate::{
    corefile::{Directive, Problem, Token},
    wire::code::{class, rcode, rtype},
};
use api::go_regex;
use regex::Regex;

pub(super) fn rule(line: &Directive) -> Result<Rule, Problem> {
    let (stop, mut words): (bool, Vec<&Token>) = match line.args.split_first() {
        Some((first, rest)) if first.text == "stop" => (true, rest.iter().collect()),
        Some((first, rest)) if first.text == "continue" => (false, rest.iter().collect()),
        _ => (true, line.args.iter().collect()),
    };
    // The rule may stand in a block, over several lines.
    for line in line.lines() {
        words.push(&line.name);
        words.extend(&line.args);
    }
    let [field, rest @ ..] = words.as_slice() else {
        return Err(Problem::at(&line.name, "needs a field: class, cname, edns0, name, rcode, ttl, type"));
    };
    let change = match field.text.as_str() {
        "type" => {
            let (from, to) = two(field, rest, |word| rtype::number(&word.text).ok_or("is no record type"))?;
            Change::Type { from, to }
        }
        "class" => {
            let (from, to) = two(field, rest, |word| class::number(&word.text).ok_or("is no class"))?;
            Change::Class { from, to }
        }
        "name" => name(field, rest)?,
        "edns0" => Change::Option(edns0::rule(field, rest)?),
        "ttl" => {
            let (pattern, to, _) = pattern(field, rest)?;
            Change::Ttl { pattern, lifetime: lifetime(to)? }
        }
        "rcode" => {
            let (pattern, from, rest) = pattern(field, rest)?;
            let [to] = rest else {
                return Err(Problem::at(field, "needs a name, the code to look for and the one to put in its place"));
            };
            let code = |word: &Token| rcode::number(&word.text).ok_or_else(|| Problem::at(word, "is no response code"));
            Change::Rcode { pattern, from: code(from)?, to: code(to)? }
        }
        "cname" => {
            let (pattern, to, rest) = pattern(field, rest)?;
            if let Some(more) = rest.first() {
                return Err(Problem::at(more, "what to look for and what to put in its place are enough"));
            }
            let whole = matches!(pattern, Pattern::Exact(_) | Pattern::Suffix(_));
            let to = if whole { dotted(&to.text) } else { to.text.to_lowercase() };
            Change::Cname { pattern, to }
        }
        _ => return Err(Problem::at(field, "accepted: class, cname, edns0, name, rcode, ttl, type")),
    };
    Ok(Rule { change, stop })
}

fn two(field: &Token, words: &[&Token], read: fn(&Token) -> Result<u16, &'static str>) -> Result<(u16, u16), Problem> {
    let [from, to] = words else {
        return Err(Problem::at(field, "needs what to look for and what to put in its place"));
    };
    let read = |word: &Token| read(word).map_err(|problem| Problem::at(word, problem));
    Ok((read(from)?, read(to)?))
}

fn dotted(text: &str) -> String {
    let lower = text.to_lowercase();
    if lower.ends_with('.') { lower } else { lower + "." }
}

/// What is looked for, what takes its place, and the words that follow.
fn pattern<'a>(field: &Token, words: &'a [&'a Token]) -> Result<(Pattern, &'a Token, &'a [&'a Token]), Problem> {
    let modes = ["exact", "prefix", "suffix", "substring", "regex"];
    let (mode, words) = match words.split_first() {
        Some((mode, rest)) if modes.contains(&mode.text.as_str()) => (mode.text.as_str(), rest),
        _ => ("exact", words),
    };
    let [from, to, rest @ ..] = words else {
        return Err(Problem::at(field, "needs what to look for and what to put in its place"));
    };
    let pattern = match mode {
        "exact" => Pattern::Exact(dotted(&from.text)),
        "prefix" => Pattern::Prefix(from.text.to_lowercase()),
        "suffix" => Pattern::Suffix(dotted(&from.text)),
        "substring" => Pattern::Substring(from.text.to_lowercase()),
        _ => Pattern::Regex(regex(from)?),
    };
    Ok((pattern, to, rest))
}

fn regex(word: &Token) -> Result<Regex, Problem> {
    go_regex::compile(&word.text).map_err(|error| Problem::at(word, error.to_string()))
}

fn name(field: &Token, words: &[&Token]) -> Result<Change, Problem> {
    let (pattern, to, mut rest) = pattern(field, words)?;
    let whole = matches!(pattern, Pattern::Exact(_) | Pattern::Suffix(_));
    let to_text = if whole { dotted(&to.text) } else { to.text.to_lowercase() };
    let mut answers = Vec::new();
    while let [option, more @ ..] = rest {
        if option.text != "answer" {
            return Err(Problem::at(option, "accepted: answer auto, answer name FROM TO, answer value FROM TO"));
        }
        rest = match more {
            [auto, more @ ..] if auto.text == "auto" => {
                answers.extend(back(&pattern, &to_text, option)?);
                more
            }
            [part, from, to, more @ ..] if part.text == "name" || part.text == "value" => {
                let part = if part.text == "name" { RecordPart::Owner } else { RecordPart::Data };
                answers.push(Answers { part, from: regex(from)?, to: to.text.clone() });
                more
            }
            [from, to, more @ ..] => {
                answers.push(Answers { part: RecordPart::Owner, from: regex(from)?, to: to.text.clone() });
                more
            }
            _ => return Err(Problem::at(option, "accepted: answer auto, answer name FROM TO, answer value FROM TO")),
        };
    }
    Ok(Change::Name { pattern, to: to_text, answers })
}

/// The rule the other way round, for names in answers.
fn back(pattern: &Pattern, to: &str, option: &Token) -> Result<Option<Answers>, Problem> {
    let (from, to) = match pattern {
        Pattern::Exact(from) => (format!("^{}$", regex::escape(to)), from.clone()),
        Pattern::Suffix(from) => (format!("^(.*){}$", regex::escape(to)), format!("{{1}}{from}")),
        _ => return Err(Problem::at(option, "auto goes with exact and suffix only")),
    };
    let from = go_regex::compile(&from).map_err(|error| Problem::at(option, error.to_string()))?;
    Ok(Some(Answers { part: RecordPart::Both, from, to }))
}

fn lifetime(word: &Token) -> Result<Lifetime, Problem> {
    let refused = || Problem::at(word, "accepted: seconds, or a range such as 30-60");
    let number =
        |text: &str, default: u32| if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| refused()) };
    let (least, most) = match word.text.split_once('-') {
        None => {
            let exact = word.text.parse().map_err(|_| refused())?;
            (exact, exact)
        }
        Some((least, most)) => (number(least, 0)?, number(most, u32::MAX >> 1)?),
    };
    if least <= most { Ok(Lifetime { least, most }) } else { Err(refused()) }
}
