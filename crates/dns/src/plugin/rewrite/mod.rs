//! `rewrite`: changes questions on the way down and answers on the way up.

pub(crate) mod edns0;
mod parse;
mod rule;

use super::{Plugin, Step};
use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::{Name, Record, Reply, Section, code::rtype},
};
use futures::future::BoxFuture;
use rule::{Answers, Lifetime, Rule};

struct Rewrite {
    rules: Vec<Rule>,
    /// Whether one changes where CNAMEs lead: then the answer must be waited for.
    retargets: bool,
}

/// What must be undone on the way up.
#[derive(Clone, Debug)]
pub struct Undo {
    question: (Name, u16, u16),
    /// The name that was asked for instead.
    became: Name,
    answers: Vec<Answers>,
    lifetimes: Vec<Lifetime>,
    rcodes: Vec<(u16, u16)>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let rules = lines.iter().map(|line| parse::rule(line)).collect::<Result<Vec<_>, _>>()?;
    let retargets = rules.iter().any(|rule| matches!(rule.change, rule::Change::Cname { .. }));
    building.reads_options |= rules.iter().any(|rule| matches!(rule.change, rule::Change::Option(_)));
    building.plugins.push(Box::new(Rewrite { rules, retargets }));
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
            if let rule::Change::Option(option) = &rule.change {
                if option.apply(query) && rule.stop {
                    break;
                }
                continue;
            }
            let Some(change) = rule.change.apply(query) else { continue };
            let undo = undo.get_or_insert_with(|| {
                let (answers, lifetimes, rcodes) = (Vec::new(), Vec::new(), Vec::new());
                Box::new(Undo { question: original, became: original.0, answers, lifetimes, rcodes })
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
                rule::Changed::Rcode(from, to) => undo.rcodes.push((from, to)),
            }
            if rule.stop {
                break;
            }
        }
        if undo.is_some() {
            query.rewritten = undo;
            reply.reset(&query.request.name, query.request.rtype, query.request.class);
        }
        if self.retargets { Step::Later } else { Step::Next }
    }

    /// Waits for the answer, since a CNAME that leads elsewhere is followed anew.
    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            rest.below(query, reply).await;
            self.retarget(query, reply, rest).await;
            self.after(query, reply);
            Step::Done
        })
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        let Some(undo) = query.rewritten.take() else { return };
        query.rename(undo.question.0);
        (query.request.rtype, query.request.class) = (undo.question.1, undo.question.2);
        let Some(mut message) = reply.message() else { return };
        message.question = undo.question;
        for (from, to) in &undo.rcodes {
            if message.rcode == *from {
                message.rcode = *to;
            }
        }
        for record in message.records_mut() {
            undo.apply(record);
        }
        reply.set_message(&message);
    }
}

impl Rewrite {
    /// The first CNAME that a rule is for leads elsewhere; what follows it is asked for anew.
    async fn retarget(&self, query: &Query, reply: &mut Reply, rest: Rest<'_>) {
        let Some(mut message) = reply.message() else { return };
        let new = |record: &Record| {
            let target = record.target().filter(|_| record.rtype == rtype::CNAME)?;
            self.rules.iter().find_map(|rule| rule.change.retargeted(&target))
        };
        let found = message.answer().iter().enumerate().find_map(|(at, record)| Some((at, new(record)?)));
        let Some((at, target)) = found else { return };
        let Some(behind) = rest.lookup(query, target, query.request.rtype).await else { return };
        let answer = &mut message.sections[Section::Answer as usize];
        answer.truncate(at + 1);
        answer[at].data = target.wire().to_vec();
        answer.extend_from_slice(behind.answer());
        message.tc = behind.tc;
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
    fn codes_and_targets_of_answers_are_changed() {
        for (rule, name, rtype, expected) in [
            ("rewrite rcode none.test SERVFAIL NXDOMAIN", "none.test.", "A", "NXDOMAIN"),
            ("rewrite rcode suffix .test SERVFAIL NOERROR", "other.test.", "AAAA", "NOERROR"),
            ("rewrite rcode exact other.test SERVFAIL NXDOMAIN", "none.test.", "A", "SERVFAIL"),
            ("rewrite rcode regex .* NXDOMAIN REFUSED", "none.test.", "A", "SERVFAIL"),
            (
                "rewrite cname exact host.inner.test other.test",
                "real.test.",
                "CNAME",
                "NOERROR aa | real.test. 60 IN CNAME other.test.",
            ),
            (
                "rewrite cname suffix .inner.test .elsewhere.test",
                "real.test.",
                "CNAME",
                "NOERROR aa | real.test. 60 IN CNAME host.elsewhere.test.",
            ),
            (
                "rewrite cname regex x(.*) {1}",
                "real.test.",
                "CNAME",
                "NOERROR aa | real.test. 60 IN CNAME host.inner.test.",
            ),
        ] {
            assert_eq!(asked(rule).ask(name, rtype), expected, "{rule}");
        }
    }

    #[test]
    fn what_a_new_target_leads_to_takes_the_place_of_the_old() {
        let asked = Asked::new(
            r#". {
 rewrite cname exact old.test new.test
 rewrite name alias.test www.test
 template IN A www.test {
  answer "{{ .Name }} 60 IN CNAME old.test."
 }
 template IN AAAA www.test {
  answer "{{ .Name }} 60 IN CNAME old.test."
 }
 hosts {
  192.0.2.1 old.test
  192.0.2.2 new.test
  2001:db8::2 new.test
 }
}"#,
        );
        for (name, rtype, address) in [("www", "A", "A 192.0.2.2"), ("alias", "AAAA", "AAAA 2001:db8::2")] {
            assert_eq!(
                asked.ask(&format!("{name}.test."), rtype),
                format!("NOERROR aa | {name}.test. 60 IN CNAME new.test., new.test. 3600 IN {address}")
            );
        }
    }

    #[test]
    fn what_is_not_built_is_refused() {
        for (rule, expected) in [
            ("rewrite edns1 x", "\"edns1\": plugin rewrite: accepted: class, cname, edns0, name, rcode, ttl, type"),
            ("rewrite name a", "\"name\": plugin rewrite: needs what to look for and what to put in its place"),
            ("rewrite type A XX", "\"XX\": plugin rewrite: is no record type"),
            ("rewrite ttl a.test x", "\"x\": plugin rewrite: accepted: seconds, or a range such as 30-60"),
            ("rewrite rcode a.test NXDOMAIN", "needs a name, the code to look for"),
            ("rewrite rcode a.test X NOERROR", "\"X\": plugin rewrite: is no response code"),
            ("rewrite cname a b c", "\"c\": plugin rewrite: what to look for"),
            (
                "rewrite name regex ( b",
                "\"(\": plugin rewrite: must be a regular expression as Go accepts it: regex parse error",
            ),
            ("rewrite name regex (?x)a b", "plugin rewrite: must be a regular expression as Go accepts it"),
        ] {
            let problem = refused(&format!(". {{\n {rule}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
