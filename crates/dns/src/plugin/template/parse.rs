//! Reading `template` lines.

use super::{Conditions, Line, Matches, Template, except, expr::Expression, go};
use crate::{
    corefile::{Directive, Problem, Token, zones},
    text::{self, Fallthrough},
    wire::{
        Name, Record, Section,
        code::{class, rcode, rtype},
    },
};
use api::go_regex;
use regex::bytes::Regex;
use std::sync::OnceLock;

/// Longest pattern.
const LONGEST: usize = 10_000;
const KNOWN: &[&str] = &[
    "additional",
    "answer",
    "authority",
    "ederror",
    "except",
    "expr",
    "fallthrough",
    "match",
    "rcode",
    "upstream",
    "var",
];

pub(super) fn template(line: &Directive, block: &[Name]) -> Result<Template, Problem> {
    let [class, rtype, rest @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a class and a type, and perhaps zones"));
    };
    // What is no zone is passed over, as CoreDNS does; nothing can be below it.
    let own: Vec<Name> = rest.iter().flat_map(|zone| zones(&zone.text).unwrap_or_default()).collect();
    let zones = if rest.is_empty() { block.to_vec() } else { own };
    let mut template = Template {
        class: class::number(&class.text)
            .ok_or_else(|| Problem::at(class, "is no class; accepted: IN, CH, HS, CS, NONE, ANY"))?,
        rtype: rtype::number(&rtype.text)
            .ok_or_else(|| Problem::at(rtype, "is no record type, in capitals, or ANY"))?,
        counted: zones.iter().map(|_| OnceLock::new()).collect(),
        zones,
        matches: Matches::All,
        conditions: None,
        lines: Default::default(),
        rcode: rcode::NOERROR,
        extended: None,
        fall: None,
    };
    let mut patterns: Vec<&Token> = Vec::new();
    let mut exception = None;
    for line in line.lines() {
        match line.name.text.as_str() {
            "match" if line.args.is_empty() => return Err(Problem::at(&line.name, "needs at least one pattern")),
            "match" => patterns.extend(&line.args),
            "var" => variable(template.conditions.get_or_insert_default(), line)?,
            "expr" => condition(template.conditions.get_or_insert_default(), line)?,
            "except" => exception = Some(except_zone(line)?),
            "answer" => lines(&mut template, Section::Answer, line)?,
            "authority" => lines(&mut template, Section::Authority, line)?,
            "additional" => lines(&mut template, Section::Additional, line)?,
            "rcode" => {
                let name = line.one()?;
                template.rcode = rcode::number(&name.text).ok_or_else(|| {
                    Problem::at(name, "is no response code; accepted: NOERROR, NXDOMAIN, REFUSED, SERVFAIL, ...")
                })?;
            }
            "ederror" => template.extended = Some(extended(line)?),
            "fallthrough" => template.fall = Some(Fallthrough::parse(&line.args)?),
            // Always on.
            "upstream" => {}
            _ => return Err(line.unknown(KNOWN)),
        }
    }
    template.matches = match (exception, patterns.as_slice()) {
        (None, []) => Matches::All,
        (Some(zone), []) => {
            // What is excepted is for somebody else by its nature.
            template.fall.get_or_insert(Fallthrough::parse(&[])?);
            Matches::Except(Box::new(zone))
        }
        (Some(_), [first, ..]) => return Err(Problem::at(first, "match and except do not go together")),
        (None, patterns) => matches(patterns)?,
    };
    Ok(template)
}

fn except_zone(line: &Directive) -> Result<Name, Problem> {
    let zone = line.one()?;
    let name = Name::parse(&zone.text).map_err(|error| Problem::at(zone, format!("the zone {error}")))?;
    Ok(name.lower())
}

fn matches(patterns: &[&Token]) -> Result<Matches, Problem> {
    let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
    if let Some(zone) = except::recognised(&texts) {
        return Ok(Matches::Except(Box::new(zone)));
    }
    let mut compiled = Vec::new();
    for pattern in patterns {
        compiled.push((pattern.text.clone(), regex(pattern)?));
    }
    Ok(Matches::Patterns(compiled))
}

fn regex(pattern: &Token) -> Result<Regex, Problem> {
    if pattern.text.len() > LONGEST {
        let token = Token { text: pattern.text.chars().take(40).collect(), place: pattern.place.clone() };
        return Err(Problem::at(&token, format!("the pattern is too long: more than {LONGEST} bytes")));
    }
    go_regex::compile_bytes(&pattern.text).map_err(|error| Problem::at(pattern, error.to_string()))
}

fn variable(conditions: &mut Conditions, line: &Directive) -> Result<(), Problem> {
    let [name, rest @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a name and an expression"));
    };
    let expression = expression(line, rest, conditions)?;
    conditions.known.declare(&name.text, &expression).map_err(|problem| Problem::at(name, problem))?;
    conditions.variables.push((name.text.clone(), expression));
    Ok(())
}

pub(super) fn condition(conditions: &mut Conditions, line: &Directive) -> Result<(), Problem> {
    let expression = expression(line, &line.args, conditions)?;
    conditions.must.push(expression);
    Ok(())
}

/// The words of an expression are those of the line with one space between them.
fn expression(line: &Directive, words: &[Token], conditions: &Conditions) -> Result<Expression, Problem> {
    let Some(first) = words.first() else { return Err(Problem::at(&line.name, "needs an expression")) };
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Expression::compile(&texts.join(" "), &conditions.known).map_err(|problem| Problem::at(first, problem.to_string()))
}

fn extended(line: &Directive) -> Result<(u16, String), Problem> {
    match line.args.as_slice() {
        [code] => Ok((text::number(code, .., "a number up to 65535")?, String::new())),
        [code, words] => Ok((text::number(code, .., "a number up to 65535")?, words.text.clone())),
        _ => Err(Problem::at(&line.name, "needs a code, and perhaps a text")),
    }
}

fn lines(template: &mut Template, section: Section, line: &Directive) -> Result<(), Problem> {
    if line.args.is_empty() {
        return Err(Problem::at(&line.name, "needs at least one record"));
    }
    for record in &line.args {
        let compiled = go::Template::compile(&record.text).map_err(|problem| Problem::at(record, problem))?;
        template.lines[section as usize].push(prepared(compiled));
    }
    Ok(())
}

/// As much as can be done before there is a question.
fn prepared(template: go::Template) -> Line {
    if let Some(Ok(record)) = template.plain().map(str::parse::<Record>) {
        return Line::Fixed(record);
    }
    // The owner must stand alone: `{{ .Name }}x` is another name.
    let after = |field| {
        let text = template.text_after(field).filter(|text| text.starts_with(char::is_whitespace));
        text.and_then(|text| format!("owner.{text}").parse::<Record>().ok())
    };
    match (after("Name"), after("Zone")) {
        (Some(record), _) => Line::Owned(record),
        (_, Some(record)) => Line::Zoned(record),
        (None, None) => Line::Rendered(template),
    }
}
