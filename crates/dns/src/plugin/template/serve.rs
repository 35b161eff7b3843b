//! Making an answer of a template that fits.

use super::{
    Conditions, Line, Matches, Template, expr,
    go::{Fields, Value},
};
use crate::{
    plugin::Step,
    query::Query,
    wire::{
        Record, Reply, Section,
        code::{class, rtype},
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// What a pattern found.
#[derive(Debug, Default)]
pub(super) struct Found {
    regex: String,
    /// The whole and the groups.
    texts: Vec<String>,
    names: Vec<(String, String)>,
    variables: BTreeMap<String, Value>,
}

/// Whether a template is for a question.
pub(super) enum Verdict {
    Fits(Found),
    /// It is not, and `fallthrough` says what then.
    DoesNot,
    /// A variable or a condition has no value.
    Fails(String),
}

/// Why there is no answer.
pub(super) enum Failure {
    /// The template could not be filled in.
    Template { section: Section, source: String, problem: String },
    /// What it gave is no record.
    Record { section: Section, source: String, problem: String },
}

impl Conditions {
    /// Computes the variables; true when all conditions hold.
    pub(super) fn hold(&self, query: &Query, found: &mut Found) -> Result<bool, String> {
        let variables = Vec::with_capacity(self.variables.len());
        let mut asked = expr::Asked { query, groups: &found.texts, names: &found.names, variables };
        for (_, expression) in &self.variables {
            let value = expression.run(&asked)?;
            asked.variables.push(value);
        }
        for expression in &self.must {
            if !matches!(expression.run(&asked)?, Value::Bool(true)) {
                return Ok(false);
            }
        }
        let names = self.variables.iter().map(|(name, _)| name.clone());
        found.variables = names.zip(asked.variables).collect();
        Ok(true)
    }
}

impl Template {
    /// Whether the question is one of those that the template is for.
    pub(super) fn judge(&self, query: &Query) -> Verdict {
        let Some(mut found) = self.matches(query) else { return Verdict::DoesNot };
        match self.conditions.as_ref().map_or(Ok(true), |conditions| conditions.hold(query, &mut found)) {
            Ok(true) => Verdict::Fits(found),
            Ok(false) => Verdict::DoesNot,
            Err(problem) => Verdict::Fails(problem),
        }
    }

    fn matches(&self, query: &Query) -> Option<Found> {
        match &self.matches {
            Matches::All => Some(Found::default()),
            Matches::Except(zone) => (!query.lower.is_within(zone)).then(Found::default),
            Matches::Patterns(patterns) => {
                let name = query.lower.to_string();
                patterns.iter().find_map(|(source, regex)| {
                    let captures = regex.captures(name.as_bytes())?;
                    let text = |group: Option<regex::bytes::Match<'_>>| {
                        group.map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned()).unwrap_or_default()
                    };
                    let names = regex.capture_names().flatten();
                    Some(Found {
                        regex: source.clone(),
                        texts: captures.iter().map(text).collect(),
                        names: names.map(|name| (name.to_owned(), text(captures.name(name)))).collect(),
                        variables: BTreeMap::new(),
                    })
                })
            }
        }
    }

    /// Writes the answer. When it holds a CNAME for a question of an address, what that points to is still to come.
    pub(super) fn write(&self, place: usize, found: &Found, query: &Query, reply: &mut Reply) -> Result<Step, Failure> {
        reply.aa = true;
        reply.rcode = self.rcode;
        reply.extended.clone_from(&self.extended);
        let mut data = None;
        let mut cname = false;
        for section in Section::ALL {
            for line in &self.lines[section as usize] {
                let rendered;
                let (owner, record) = match line {
                    Line::Fixed(record) => (&record.name, record),
                    Line::Owned(record) => (&query.request.name, record),
                    Line::Zoned(record) => (&self.zones[place], record),
                    Line::Rendered(template) => {
                        let data = data.get_or_insert_with(|| self.data(place, found, query));
                        let source = || template.source().to_owned();
                        let text = template.render(data);
                        let text = text.map_err(|problem| Failure::Template { section, source: source(), problem })?;
                        let failed = |problem: crate::wire::TextError| Failure::Record {
                            section,
                            source: source(),
                            problem: problem.to_string(),
                        };
                        rendered = as_asked(text.parse().map_err(failed)?, query);
                        (&rendered.name, &rendered)
                    }
                };
                cname |= section == Section::Answer && record.rtype == rtype::CNAME;
                reply.add_as(section, owner, record);
            }
        }
        let address = query.request.rtype == rtype::A || query.request.rtype == rtype::AAAA;
        Ok(if cname && address { Step::Later } else { Step::Done })
    }

    fn data(&self, place: usize, found: &Found, query: &Query) -> Value {
        let given = |asked: u16, own: u16, any: u16| if asked == any { own } else { asked };
        let name = query.lower.to_string();
        let texts = if found.texts.is_empty() { vec![name.clone()] } else { found.texts.clone() };
        let numbered = texts.iter().enumerate().map(|(index, text)| (index.to_string(), text.clone()));
        let groups = numbered.chain(found.names.iter().cloned());
        Value::Struct(Arc::new(Data {
            zone: self.zones[place].to_string(),
            name,
            regex: if found.regex.is_empty() { ".*".to_owned() } else { found.regex.clone() },
            groups: groups.map(|(name, text)| (name, Value::Text(text))).collect(),
            texts: texts.into_iter().map(Value::Text).collect(),
            variables: found.variables.clone(),
            class: class::text(given(query.request.class, self.class, class::ANY)),
            rtype: rtype::text(given(query.request.rtype, self.rtype, rtype::ANY)),
            remote: query.source.ip().to_canonical().to_string(),
            question: Question {
                name: query.request.name.to_string(),
                rtype: query.request.rtype,
                class: query.request.class,
            },
        }))
    }
}

/// A record for the name asked for gets it as it was written, so that clients which vary the case are content.
fn as_asked(mut record: Record, query: &Query) -> Record {
    if record.name == query.request.name {
        record.name = query.request.name;
    }
    record
}

/// What templates see.
struct Data {
    zone: String,
    name: String,
    regex: String,
    texts: Vec<Value>,
    groups: BTreeMap<String, Value>,
    variables: BTreeMap<String, Value>,
    class: String,
    rtype: String,
    remote: String,
    question: Question,
}

#[derive(Clone)]
struct Question {
    name: String,
    rtype: u16,
    class: u16,
}

impl Fields for Data {
    fn field(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let text = |text: &String| Value::Text(text.clone());
        Some(Ok(match name {
            "Zone" => text(&self.zone),
            "Name" => text(&self.name),
            "Regex" => text(&self.regex),
            "Match" => Value::List(self.texts.clone()),
            "Group" => Value::Map(self.groups.clone()),
            "Var" => Value::Map(self.variables.clone()),
            "Class" => text(&self.class),
            "Type" => text(&self.rtype),
            "Remote" => text(&self.remote),
            "Question" => Value::Struct(Arc::new(self.question.clone())),
            "Message" => Value::Struct(Arc::new(Whole(self.question.clone()))),
            // There is no metadata here, and a label that is not there is empty.
            "Meta" if arguments.len() == 1 => Value::Text(String::new()),
            "Meta" => return Some(Err("Meta needs one label".to_owned())),
            _ => return None,
        }))
    }
}

impl Fields for Question {
    fn field(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        Some(Ok(match name {
            "Name" => Value::Text(self.name.clone()),
            "Qtype" => Value::Int(self.rtype.into()),
            "Qclass" => Value::Int(self.class.into()),
            _ => return None,
        }))
    }
}

/// `.Message`, of which only the question is known.
struct Whole(Question);

impl Fields for Whole {
    fn field(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        (name == "Question").then(|| Ok(Value::List(vec![Value::Struct(Arc::new(self.0.clone()))])))
    }
}
