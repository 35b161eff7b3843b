//! `rewrite`: changes questions on the way down and answers on the way up.

mod parse;
mod rule;

use super::{Plugin, Step};
use crate::build::Building;
use crate::corefile::{Directive, Problem};
use crate::query::Query;
use crate::wire::{Name, Record, Reply};
use rule::{Answers, Lifetime, Rule};

struct Rewrite {
    rules: Vec<Rule>,
}

/// What must be undone on the way up.
#[derive(Clone, Debug)]
pub struct Undo {
    question: (Name, u16, u16),
    /// The name that was asked for instead.
    became: Name,
    answers: Vec<Answers>,
    lifetimes: Vec<Lifetime>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let rules = lines.iter().map(|line| parse::rule(line)).collect::<Result<_, _>>()?;
    building.plugins.push(Box::new(Rewrite { rules }));
    Ok(())
}

impl Plugin for Rewrite {
    fn name(&self) -> &'static str {
        "rewrite"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let request = &query.request;
        let mut undo: Option<Box<Undo>> = None;
        let original = (request.name, request.rtype, request.class);
        for rule in &self.rules {
            let Some(change) = rule.change.apply(query) else { continue };
            let undo = undo.get_or_insert_with(|| {
                Box::new(Undo { question: original, became: original.0, answers: Vec::new(), lifetimes: Vec::new() })
            });
            match change {
                rule::Changed::Name(name, answers) => {
                    query.rename(*name);
                    undo.became = *name;
                    undo.answers.extend(answers);
                }
                rule::Changed::Type(rtype) => query.request.rtype = rtype,
                rule::Changed::Class(class) => query.request.class = class,
                rule::Changed::Lifetime(lifetime) => undo.lifetimes.push(lifetime),
            }
            if rule.stop {
                break;
            }
        }
        if undo.is_some() {
            query.rewritten = undo;
            reply.reset(&query.request.name, query.request.rtype, query.request.class);
        }
        Step::Next
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        let Some(undo) = query.rewritten.take() else { return };
        query.rename(undo.question.0);
        (query.request.rtype, query.request.class) = (undo.question.1, undo.question.2);
        let Some(mut message) = reply.message() else { return };
        message.question = undo.question;
        for record in message.records_mut() {
            undo.apply(record);
        }
        reply.set_message(&message);
    }
}

impl Undo {
    fn apply(&self, record: &mut Record) {
        // Who asked for a name wants records of that name, whatever it was called meanwhile.
        if record.name == self.became {
            record.name = self.question.0;
        }
        for answers in self.answers.iter().rev() {
            answers.apply(record);
        }
        for lifetime in &self.lifetimes {
            record.ttl = record.ttl.clamp(lifetime.least, lifetime.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    fn asked(rules: &str) -> Asked {
        Asked::new(&format!(
            r#". {{
 {rules}
 hosts {{
  192.0.2.1 real.test a.real.test x.inner.test
  2001:db8::1 real.test
  fallthrough
 }}
 template IN CNAME real.test {{
  answer "{{{{ .Name }}}} 60 IN CNAME host.inner.test."
 }}
}}"#
        ))
    }

    #[test]
    fn names_are_changed_there_and_back() {
        for (rule, name, rtype, expected) in [
            ("rewrite name alias.test real.test", "Alias.test.", "A", "NOERROR aa | Alias.test. 3600 IN A 192.0.2.1"),
            (
                "rewrite name exact alias.test real.test",
                "alias.test.",
                "AAAA",
                "NOERROR aa | alias.test. 3600 IN AAAA 2001:db8::1",
            ),
            (
                "rewrite name suffix .outer.test .inner.test",
                "x.outer.test.",
                "A",
                "NOERROR aa | x.outer.test. 3600 IN A 192.0.2.1",
            ),
            ("rewrite name prefix b. a.", "b.real.test.", "A", "NOERROR aa | b.real.test. 3600 IN A 192.0.2.1"),
            ("rewrite name substring fake real", "a.fake.test.", "A", "NOERROR aa | a.fake.test. 3600 IN A 192.0.2.1"),
            (
                "rewrite name regex (.*)[.]outer[.]test {1}.inner.test",
                "x.outer.test.",
                "A",
                "NOERROR aa | x.outer.test. 3600 IN A 192.0.2.1",
            ),
            ("rewrite name other.test real.test", "real.test.", "A", "NOERROR aa | real.test. 3600 IN A 192.0.2.1"),
            ("rewrite type AAAA A", "real.test.", "AAAA", "NOERROR aa | real.test. 3600 IN A 192.0.2.1"),
            ("rewrite ttl real.test 30-60", "real.test.", "A", "NOERROR aa | real.test. 60 IN A 192.0.2.1"),
            ("rewrite ttl suffix .test 7", "a.real.test.", "A", "NOERROR aa | a.real.test. 7 IN A 192.0.2.1"),
            (
                "rewrite stop {\n name suffix .outer.test .real.test answer auto\n }",
                "a.outer.test.",
                "A",
                "NOERROR aa | a.outer.test. 3600 IN A 192.0.2.1",
            ),
            (
                "rewrite name exact alias.test real.test answer value (.*)\\.inner\\.test {1}.outer.test",
                "alias.test.",
                "CNAME",
                "NOERROR aa | alias.test. 60 IN CNAME host.outer.test.",
            ),
        ] {
            assert_eq!(asked(rule).ask(name, rtype), expected, "{rule}");
        }
    }

    #[test]
    fn a_rule_stops_unless_it_says_to_continue() {
        let two = "rewrite {M} name one.test two.test\n rewrite name two.test real.test";
        assert_eq!(asked(&two.replace("{M}", "stop")).ask("one.test.", "A"), "SERVFAIL");
        let on = asked(&two.replace("{M}", "continue")).ask("one.test.", "A");
        assert_eq!(on, "NOERROR aa | one.test. 3600 IN A 192.0.2.1");
    }

    #[test]
    fn what_is_not_built_is_refused() {
        for (rule, expected) in [
            ("rewrite edns0 local set 0xffee x", "\"edns0\": plugin rewrite: accepted: class, name, ttl, type"),
            ("rewrite name a", "\"name\": plugin rewrite: needs what to look for and what to put in its place"),
            ("rewrite type A XX", "\"XX\": plugin rewrite: is no record type"),
            ("rewrite ttl a.test x", "\"x\": plugin rewrite: accepted: seconds, or a range such as 30-60"),
            ("rewrite name regex ( b", "\"(\": plugin rewrite: regex parse error"),
        ] {
            let problem = refused(&format!(". {{\n {rule}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
