//! `template`: answers made of the question, by patterns.

mod except;
mod expr;
mod go;
mod parse;
mod serve;

pub use except::complement;

use super::{Plugin, Step};
use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    metrics::{Counters, Labels},
    query::Query,
    text::Fallthrough,
    wire::{
        Name, Record, Reply, Section,
        code::{class, rcode, rtype},
    },
    zones::Zones,
};
use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use std::sync::{Arc, OnceLock};

/// All templates of a block, in the order of the file.
struct Templates {
    templates: Vec<Template>,
    /// Which templates have a zone: their index, and the zone's among their own.
    zones: Zones<Vec<(usize, usize)>>,
    counters: Arc<Counters>,
    labels: Labels,
}

/// One `template` line with its block.
struct Template {
    class: u16,
    rtype: u16,
    zones: Vec<Name>,
    matches: Matches,
    conditions: Option<Box<Conditions>>,
    lines: [Vec<Line>; 3],
    rcode: u16,
    extended: Option<(u16, String)>,
    fall: Option<Fallthrough>,
    counted: Vec<OnceLock<Counter>>,
}

/// Which names a template is for, within its zones.
enum Matches {
    All,
    /// All but those of a zone: what the patterns of [`complement`] say in many words.
    Except(Box<Name>),
    /// Those that one of these fits; the first that does gives the groups.
    Patterns(Vec<(String, regex::bytes::Regex)>),
}

/// What a question must be besides, and what is computed of it.
#[derive(Default)]
struct Conditions {
    known: expr::Variables,
    variables: Vec<(String, expr::Expression)>,
    /// All must be true.
    must: Vec<expr::Expression>,
}

/// Expressions that must all be true, for whoever decides on questions.
#[derive(Default)]
pub(crate) struct Condition(Conditions);

impl Condition {
    /// Adds the expression of a line.
    pub(crate) fn add(&mut self, line: &Directive) -> Result<(), Problem> {
        parse::condition(&mut self.0, line)
    }

    /// Whether all are true of a question; one without a value is not.
    pub(crate) fn holds(&self, query: &Query) -> bool {
        self.0.hold(query, &mut serve::Found::default()).unwrap_or(false)
    }
}

/// A record to be made.
enum Line {
    /// It is always the same.
    Fixed(Record),
    /// Only the owner is filled in: it is the name asked for.
    Owned(Record),
    /// Only the owner is filled in: it is the template's zone.
    Zoned(Record),
    /// It is rendered and then read.
    Rendered(go::Template),
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let templates = lines.iter().map(|line| parse::template(line, &building.zones)).collect::<Result<Vec<_>, _>>()?;
    building.other_classes |= templates.iter().any(|template| template.class != class::IN);
    let counters = Arc::clone(&building.lasting.counters);
    let labels = building.observers.labels().clone();
    building.plugins.push(Box::new(Templates::new(templates, counters, labels)));
    Ok(())
}

impl Templates {
    fn new(templates: Vec<Template>, counters: Arc<Counters>, labels: Labels) -> Self {
        let mut zones: Zones<Vec<(usize, usize)>> = Zones::default();
        for (index, template) in templates.iter().enumerate() {
            for (place, zone) in template.zones.iter().enumerate() {
                match zones.get_mut(zone) {
                    Some(known) => known.push((index, place)),
                    None => drop(zones.insert(zone, vec![(index, place)])),
                }
            }
        }
        Self { templates, zones, counters, labels }
    }

    /// The first template for this question after `from`, with the longest of its zones that the name is in.
    fn next(&self, query: &Query, from: usize) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        // From the longest zone to the shortest: the first hit of a template is its best.
        for known in self.zones.of(&query.lower, 0) {
            for (index, place) in known {
                let earlier = best.is_none_or(|(best, _)| *index < best);
                if *index >= from && earlier && self.templates[*index].is_for(query) {
                    best = Some((*index, *place));
                }
            }
        }
        best
    }

    fn count(&self, index: usize, place: usize) {
        let template = &self.templates[index];
        let counter = template.counted[place].get_or_init(|| {
            let mut labels = self.labels.clone();
            labels.retain(|(name, _)| *name != "zone");
            labels.push(("zone", template.zones[place].to_string()));
            labels.push(("class", class::text(template.class)));
            labels.push(("type", rtype::text(template.rtype)));
            self.counters.template_matches.get_or_create(&labels).clone()
        });
        counter.inc();
    }

    fn fail(&self, failure: serve::Failure, reply: &mut Reply) {
        let (family, section, source, problem) = match failure {
            serve::Failure::Template { section, source, problem } => {
                (&self.counters.template_failures, section, source, problem)
            }
            serve::Failure::Record { section, source, problem } => {
                (&self.counters.template_records, section, source, problem)
            }
        };
        let section = ["answer", "authority", "additional"][section as usize].to_owned();
        let labels = self.labels.iter().cloned().chain([("section", section), ("template", source)]).collect();
        family.get_or_create(&labels).inc();
        reply.fail(rcode::SERVFAIL, Some(format!("plugin/template: {problem}")));
    }
}

impl Template {
    /// Questions of type or class ANY are for every template of the zone.
    fn is_for(&self, query: &Query) -> bool {
        let (class, rtype) = (query.request.class, query.request.rtype);
        (self.class == class || self.class == class::ANY || class == class::ANY)
            && (self.rtype == rtype || self.rtype == rtype::ANY || rtype == rtype::ANY)
    }
}

impl Plugin for Templates {
    fn name(&self) -> &'static str {
        "template"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let mut from = 0;
        while let Some((index, place)) = self.next(query, from) {
            let template = &self.templates[index];
            let found = match template.judge(query) {
                serve::Verdict::Fits(found) => found,
                serve::Verdict::DoesNot if template.fall.as_ref().is_some_and(|fall| fall.covers(&query.lower)) => {
                    from = index + 1;
                    continue;
                }
                serve::Verdict::DoesNot => {
                    reply.fail(rcode::SERVFAIL, None);
                    return Step::Done;
                }
                serve::Verdict::Fails(problem) => {
                    reply.fail(rcode::SERVFAIL, Some(format!("plugin/template: {problem}")));
                    return Step::Done;
                }
            };
            self.count(index, place);
            if template.rcode == rcode::SERVFAIL {
                reply.fail(rcode::SERVFAIL, None);
                return Step::Done;
            }
            return match template.write(place, &found, query, reply) {
                Ok(step) => step,
                Err(failure) => {
                    self.fail(failure, reply);
                    Step::Done
                }
            };
        }
        Step::Next
    }

    /// A CNAME was rendered for a question of an address: what it points to is added.
    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let targets: Vec<Name> = reply
                .message()
                .map(|message| {
                    message.answer().iter().filter(|r| r.rtype == rtype::CNAME).filter_map(Record::target).collect()
                })
                .unwrap_or_default();
            for target in targets {
                if let Some(found) = rest.lookup(query, target, query.request.rtype).await {
                    found.answer().iter().for_each(|record| reply.add(Section::Answer, record));
                    reply.tc |= found.tc;
                }
            }
            Step::Done
        })
    }
}

#[cfg(test)]
mod tests;
