//! `chaos`: who and what this server is, for questions of class CH.

use super::{Plugin, Step, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::{
        Record, Reply, Section,
        code::{class, rtype},
    },
};

struct Chaos {
    version: String,
    authors: Vec<String>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let mut words = line.args.iter().map(|word| word.text.clone());
    let version = words.next().unwrap_or_else(|| format!("Twinstack-{}", runtime::version::BUILD.version));
    building.other_classes = true;
    building.plugins.push(Box::new(Chaos { version, authors: words.collect() }));
    Ok(())
}

impl Plugin for Chaos {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        if query.request.class != class::CH || query.request.rtype != rtype::TXT {
            return Step::Next;
        }
        let name = query.request.name;
        let texts = match query.lower.to_string().as_str() {
            "version.bind." | "version.server." => vec![self.version.clone()],
            "authors.bind." => self.authors.clone(),
            "hostname.bind." | "id.server." => vec![crate::server::hostname()],
            _ => return Step::Next,
        };
        for text in texts {
            reply.add(Section::Answer, &Record::txt(name, class::CH, 0, &text));
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;

    #[test]
    fn the_server_says_what_it_is_told_to() {
        let asked = Asked::new(". {\n chaos \"v 1\" ann bob\n}");
        assert_eq!(asked.ask_class("Version.bind.", "TXT", "CH"), "NOERROR | Version.bind. 0 CH TXT \"v 1\"");
        let authors = asked.ask_class("authors.bind.", "TXT", "CH");
        assert_eq!(authors, "NOERROR | authors.bind. 0 CH TXT \"ann\", authors.bind. 0 CH TXT \"bob\"");
        assert!(asked.ask_class("id.server.", "TXT", "CH").starts_with("NOERROR | id.server. 0 CH TXT \""));
        assert_eq!(asked.ask("version.bind.", "TXT"), "SERVFAIL");
    }
}
