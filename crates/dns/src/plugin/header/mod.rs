//! `header`: sets and clears flags of questions and answers.

use super::{Plugin, Step};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::Reply,
};

#[derive(Default)]
struct Header {
    query: Vec<Rule>,
    response: Vec<Rule>,
}

struct Rule {
    flag: Flag,
    set: bool,
}

enum Flag {
    Authoritative,
    RecursionAvailable,
    RecursionDesired,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let mut header = Header::default();
    for line in lines {
        line.none()?;
        for rule in line.lines() {
            let rules = match rule.name.text.to_lowercase().as_str() {
                "query" => &mut header.query,
                "response" => &mut header.response,
                _ => return Err(rule.unknown(&["query", "response"])),
            };
            rules.extend(read(rule)?);
        }
    }
    match lines {
        [line, ..] if header.query.is_empty() && header.response.is_empty() => {
            Err(Problem::at(&line.name, "needs a block with query or response lines"))
        }
        _ => {
            building.plugins.push(Box::new(header));
            Ok(())
        }
    }
}

fn read(line: &Directive) -> Result<Vec<Rule>, Problem> {
    let [action, flags @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs set or clear, and flags"));
    };
    let set = match action.text.to_lowercase().as_str() {
        "set" => true,
        "clear" => false,
        _ => return Err(Problem::at(action, "accepted: set, clear")),
    };
    if flags.is_empty() {
        return Err(Problem::at(action, "needs at least one of aa, ra, rd"));
    }
    let rule = |token: &crate::corefile::Token| {
        let flag = match token.text.to_lowercase().as_str() {
            "aa" => Flag::Authoritative,
            "ra" => Flag::RecursionAvailable,
            "rd" => Flag::RecursionDesired,
            _ => return Err(Problem::at(token, "accepted: aa, ra, rd")),
        };
        Ok(Rule { flag, set })
    };
    flags.iter().map(rule).collect()
}

impl Plugin for Header {
    fn name(&self) -> &'static str {
        "header"
    }

    /// Of a question's flags only the wish for recursion means anything to those below.
    fn before(&self, query: &mut Query, _: &mut Reply) -> Step {
        for rule in &self.query {
            if let Flag::RecursionDesired = rule.flag {
                query.request.rd = rule.set;
            }
        }
        Step::Next
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        // What failed without an answer has no header to change.
        if reply.error.is_some() {
            return;
        }
        for rule in &self.response {
            match rule.flag {
                Flag::Authoritative => reply.aa = rule.set,
                Flag::RecursionAvailable => reply.ra = rule.set,
                Flag::RecursionDesired => query.request.rd = rule.set,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn flags_are_set_and_cleared() {
        let hosts = "hosts {\n 192.0.2.1 a.test\n }";
        for (rules, expected) in [
            ("response set ra\n response clear aa", "NOERROR ra | a.test. 3600 IN A 192.0.2.1"),
            ("query clear rd\n response set AA ra", "NOERROR aa ra | a.test. 3600 IN A 192.0.2.1"),
        ] {
            let asked = Asked::new(&format!(". {{\n header {{\n {rules}\n }}\n {hosts}\n}}"));
            assert_eq!(asked.ask("a.test.", "A"), expected, "{rules}");
        }
        let asked = Asked::new(&format!(". {{\n header {{\n query clear rd\n }}\n {hosts}\n}}"));
        let packet = crate::testing::query("a.test.", 1).request.to_wire(7);
        assert_eq!((packet[2] & 1, asked.exchange(&packet)[2] & 1), (1, 0));
    }

    #[test]
    fn mistakes_are_named() {
        for (rules, expected) in [
            ("", "needs a block with query or response lines"),
            ("answer set aa", "unknown property"),
            ("query", "needs set or clear, and flags"),
            ("query turn aa", "\"turn\": plugin header: accepted: set, clear"),
            ("query set", "needs at least one of aa, ra, rd"),
            ("query set tc", "\"tc\": plugin header: accepted: aa, ra, rd"),
        ] {
            let problem = refused(&format!(". {{\n header {{\n {rules}\n }}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
