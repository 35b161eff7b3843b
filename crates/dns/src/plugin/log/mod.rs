//! `log`: a line per query.

use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::{Query, Transport},
    text,
    wire::{
        Name, Reply, Section,
        code::{class, rcode, rtype},
    },
};
use std::{fmt::Write, time::Duration};

const COMMON: &str = r#"{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}"#;
const COMBINED: &str = r#"{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration} {>opcode}"#;

/// The `log` lines of a block; the first whose names fit decides.
#[derive(Debug, Default)]
pub struct Log {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    zones: Vec<Name>,
    format: Vec<Part>,
    classes: Vec<Class>,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    All,
    Success,
    Denial,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Remote,
    Port,
    Id,
    Type,
    Class,
    Name,
    Proto,
    Size,
    Do,
    Bufsize,
    Rcode,
    Flags,
    ResponseSize,
    Duration,
    Opcode,
    Nothing,
}

const FIELDS: &[(&str, Field)] = &[
    ("remote", Field::Remote),
    ("port", Field::Port),
    (">id", Field::Id),
    ("type", Field::Type),
    ("class", Field::Class),
    ("name", Field::Name),
    ("proto", Field::Proto),
    ("size", Field::Size),
    (">do", Field::Do),
    (">bufsize", Field::Bufsize),
    ("rcode", Field::Rcode),
    (">rflags", Field::Flags),
    ("rsize", Field::ResponseSize),
    ("duration", Field::Duration),
    (">opcode", Field::Opcode),
];

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let mut rules = Vec::new();
    for line in lines {
        rules.push(parse(line)?);
    }
    building.observers.log = Some(std::sync::Arc::new(Log { rules }));
    Ok(())
}

fn parse(line: &Directive) -> Result<Rule, Problem> {
    // The last argument is a format if it has braces or is the second one.
    let (names, format) = match line.args.split_last() {
        Some((last, names)) if last.text.contains('{') => (names, last.text.as_str()),
        _ => (line.args.as_slice(), COMMON),
    };
    let mut classes = Vec::new();
    for line in line.lines() {
        if line.name.text != "class" {
            return Err(line.unknown(&["class"]));
        }
        for word in &line.args {
            classes.push(match word.text.as_str() {
                "all" => Class::All,
                "success" => Class::Success,
                "denial" => Class::Denial,
                "error" => Class::Error,
                _ => return Err(Problem::at(word, "accepted: all, success, denial, error")),
            });
        }
    }
    if classes.is_empty() {
        classes.push(Class::All);
    }
    let format = format.replace("{common}", COMMON).replace("{combined}", COMBINED);
    Ok(Rule { zones: text::zones_or(names, &[Name::ROOT])?, format: parts(&format), classes })
}

/// Text and `{fields}`; an unknown field is shown as `-`, as metadata that is not there is.
fn parts(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let field = FIELDS.iter().find(|(known, _)| *known == name).map_or(Field::Nothing, |(_, field)| *field);
        parts.push(Part::Field(field));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    parts
}

impl Log {
    /// Logs a query if a line of the block is for it.
    pub fn note(&self, query: &Query, reply: &Reply, size: usize, elapsed: Duration) {
        let Some(rule) = self.rules.iter().find(|rule| rule.zones.iter().any(|zone| query.lower.is_within(zone)))
        else {
            return;
        };
        if rule.classes.contains(&Class::All) || rule.classes.contains(&class_of(reply)) {
            tracing::info!("{}", rule.line(query, reply, size, elapsed));
        }
    }
}

fn class_of(reply: &Reply) -> Class {
    match reply.rcode {
        rcode::NOERROR if reply.count(Section::Answer) == 0 && reply.count(Section::Authority) > 0 => Class::Denial,
        rcode::NOERROR => Class::Success,
        rcode::NXDOMAIN => Class::Denial,
        _ => Class::Error,
    }
}

impl Rule {
    fn line(&self, query: &Query, reply: &Reply, size: usize, elapsed: Duration) -> String {
        let mut line = String::new();
        for part in &self.format {
            let field = match part {
                Part::Text(text) => {
                    line.push_str(text);
                    continue;
                }
                Part::Field(field) => field,
            };
            let request = &query.request;
            // Writing to a string does not fail.
            let _ = match field {
                Field::Remote if query.source.is_ipv6() => write!(line, "[{}]", query.source.ip()),
                Field::Remote => write!(line, "{}", query.source.ip()),
                Field::Port => write!(line, "{}", query.source.port()),
                Field::Id => write!(line, "{}", request.id),
                Field::Type => write!(line, "{}", rtype::text(request.rtype)),
                Field::Class => write!(line, "{}", class::text(request.class)),
                Field::Name => write!(line, "{}", request.name),
                Field::Proto => write!(line, "{}", if query.transport == Transport::Udp { "udp" } else { "tcp" }),
                Field::Size => write!(line, "{}", query.size),
                Field::Do => write!(line, "{}", request.edns.is_some_and(|edns| edns.dnssec_ok)),
                Field::Bufsize => write!(line, "{}", query.limit()),
                Field::Rcode => write!(line, "{}", rcode::text(reply.rcode)),
                Field::Flags => write!(line, "{}", flags(query, reply)),
                Field::ResponseSize => write!(line, "{size}"),
                Field::Duration => write!(line, "{:.9}s", elapsed.as_secs_f64()),
                Field::Opcode => write!(line, "0"),
                Field::Nothing => write!(line, "-"),
            };
        }
        line
    }
}

fn flags(query: &Query, reply: &Reply) -> String {
    let all = [
        ("qr", true),
        ("aa", reply.aa),
        ("tc", reply.tc),
        ("rd", query.request.rd),
        ("ra", reply.ra),
        ("ad", reply.ad),
        ("cd", query.request.cd),
    ];
    all.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_line_is_that_of_coredns() {
        let rule = Rule { zones: vec![Name::ROOT], format: parts(COMMON), classes: vec![Class::All] };
        for (source, shown) in [("192.0.2.9:4000", "192.0.2.9:4000"), ("[2001:db8::9]:4000", "[2001:db8::9]:4000")] {
            let query = testing::query_from(source, "Example.org.", rtype::AAAA);
            let mut reply = Reply::new();
            reply.reset(&query.request.name, query.request.rtype, query.request.class);
            reply.aa = true;
            let line = rule.line(&query, &reply, 70, Duration::from_micros(150));
            let expected =
                format!("{shown} - 7 \"AAAA IN Example.org. udp 40 false 1232\" NOERROR qr,aa,rd 70 0.000150000s");
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn classes_tell_success_denial_and_error_apart() {
        let query = testing::query("a.test.", rtype::A);
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        assert_eq!(class_of(&reply), Class::Success);
        reply.add(Section::Authority, &"test 5 IN SOA a b 1 2 3 4 5".parse().unwrap());
        assert_eq!(class_of(&reply), Class::Denial);
        reply.rcode = rcode::NXDOMAIN;
        assert_eq!(class_of(&reply), Class::Denial);
        reply.rcode = rcode::SERVFAIL;
        assert_eq!(class_of(&reply), Class::Error);
    }
}
