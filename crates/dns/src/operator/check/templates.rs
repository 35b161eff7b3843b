//! `spec.templates`.

use super::{Mistake, Notes, Reason, answer, zone};
use crate::wire::Name;
use api::config::{DnsTemplate, TemplateAction};
use net::{Families, Family};
use std::collections::HashMap;

/// Most templates, and most zones of one.
const TEMPLATES: usize = 20;
const ZONES: usize = 100;

/// A template that can be rendered. Type and class are always AAAA and IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// For messages and order.
    pub name: String,
    /// In lower case.
    pub zones: Vec<Name>,
    /// What is answered.
    pub action: Action,
}

/// What is answered, with NOERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// No records.
    Empty,
    /// A record, from this text.
    Answer(String),
}

/// The templates of a cluster, or all mistakes in them.
pub fn templates(given: &[DnsTemplate], domain: &Name, families: Families) -> Result<Vec<Template>, Vec<Mistake>> {
    let mut notes = Notes { found: Vec::new(), template: None };
    if given.len() > TEMPLATES {
        let problem = format!("templates are too many; accepted are {TEMPLATES}");
        notes.add(Reason::TooMany, "spec.templates", &given.len().to_string(), problem);
    }
    let mut names = HashMap::new();
    let mut taken = HashMap::new();
    let mut templates = Vec::new();
    // What is beyond the limit is not looked at: the messages would be as many.
    for (index, template) in given.iter().enumerate().take(TEMPLATES) {
        let path = format!("spec.templates[{index}]");
        notes.template = Some(&template.name);
        check_name(template, &path, &mut notes);
        if let Some(first) = names.insert(template.name.as_str(), index) {
            let problem = format!("is the name of spec.templates[{first}] as well");
            notes.add(Reason::DuplicateName, format!("{path}.name"), &template.name, problem);
        }
        for (field, value, accepted) in
            [("queryType", &template.query_type, "AAAA"), ("queryClass", &template.query_class, "IN")]
        {
            if !value.is_empty() && value != accepted {
                let problem = format!("is not supported; accepted: {accepted}");
                notes.add(Reason::UnsupportedQuery, format!("{path}.{field}"), value, problem);
            }
        }
        let zones = zones(template, &path, domain, &mut taken, &mut notes);
        let action = action(&template.action, &path, &zones, &mut notes);
        if action == Some(Action::Empty) && families == Families::one(Family::V6) {
            let problem = "would leave no address in these zones: this cluster has IPv6 alone; remove the template";
            notes.add(
                Reason::FilterWouldBlockAllAddresses,
                format!("{path}.action.returnEmpty"),
                &template.zones.join(", "),
                problem,
            );
        }
        templates.extend(action.map(|action| Template { name: template.name.clone(), zones, action }));
    }
    if notes.found.is_empty() { Ok(templates) } else { Err(notes.found) }
}

fn check_name(template: &DnsTemplate, path: &str, notes: &mut Notes<'_>) {
    let name = template.name.as_str();
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if name.is_empty() || name.len() > 64 || !letters || name.starts_with('-') || name.ends_with('-') {
        let problem = "is no name; accepted are lower-case letters, digits and, within, hyphens, 64 at most";
        notes.add(Reason::InvalidName, format!("{path}.name"), name, problem);
    }
}

/// The zones that are right. `taken` has those of all templates so far, with their places.
fn zones(
    template: &DnsTemplate,
    path: &str,
    domain: &Name,
    taken: &mut HashMap<Name, String>,
    notes: &mut Notes<'_>,
) -> Vec<Name> {
    let path = format!("{path}.zones");
    if template.zones.is_empty() {
        notes.add(Reason::InvalidZone, &path, "", "is empty; give at least one zone");
    }
    if template.zones.len() > ZONES {
        let problem = format!("zones are too many; accepted are {ZONES}");
        notes.add(Reason::TooMany, &path, &template.zones.len().to_string(), problem);
    }
    let mut zones = Vec::new();
    for (index, text) in template.zones.iter().enumerate().take(ZONES) {
        let path = format!("{path}[{index}]");
        match zone::read(text) {
            Err(problem) => notes.add(Reason::InvalidZone, path, text, problem),
            Ok(zone) if zone.is_within(domain) => {
                let what = if zone == *domain { "is the cluster domain" } else { "is within the cluster domain" };
                let problem = format!("{what} {}, whose names only the cluster answers", zone::text(domain));
                notes.add(Reason::ReservedZone, path, text, problem);
            }
            Ok(zone) => match taken.get(&zone) {
                Some(first) => {
                    let problem = format!("has an AAAA template already, at {first}");
                    notes.add(Reason::DuplicateZone, path, text, problem);
                }
                None => {
                    taken.insert(zone, path);
                    zones.push(zone);
                }
            },
        }
    }
    zones
}

fn action(given: &TemplateAction, path: &str, zones: &[Name], notes: &mut Notes<'_>) -> Option<Action> {
    let path = format!("{path}.action");
    let mut code = |kind: &str, rcode: &str| {
        if !rcode.is_empty() && rcode != "NOERROR" {
            let path = format!("{path}.{kind}.rcode");
            notes.add(Reason::InvalidAction, path, rcode, "is not supported; accepted: NOERROR");
        }
    };
    match (&given.return_empty, &given.generate_response) {
        (Some(empty), None) => {
            code("returnEmpty", &empty.rcode);
            Some(Action::Empty)
        }
        (None, Some(response)) => {
            code("generateResponse", &response.rcode);
            let text = &response.answer_template;
            if let Some(problem) = answer::problem(text, zones) {
                let path = format!("{path}.generateResponse.answerTemplate");
                notes.add(Reason::InvalidAnswerTemplate, path, text, problem);
            }
            Some(Action::Answer(text.clone()))
        }
        (Some(_), Some(_)) => {
            notes.add(
                Reason::InvalidAction,
                path,
                "",
                "has two actions; accepted is one of returnEmpty, generateResponse",
            );
            None
        }
        (None, None) => {
            notes.add(
                Reason::InvalidAction,
                path,
                "",
                "has no action; accepted is one of returnEmpty, generateResponse",
            );
            None
        }
    }
}
