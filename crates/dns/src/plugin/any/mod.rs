//! `any`: a small answer to questions of type ANY (RFC 8482).

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

/// TTL of the answer: the RFC's number.
const TTL: u32 = 8482;

struct Any;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    line.no_block()?;
    building.plugins.push(Box::new(Any));
    Ok(())
}

impl Plugin for Any {
    fn name(&self) -> &'static str {
        "any"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        if query.request.rtype != rtype::ANY {
            return Step::Next;
        }
        let data = b"\x0dANY obsoleted\x0cSee RFC 8482".to_vec();
        let record = Record { name: query.request.name, rtype: rtype::HINFO, class: class::IN, ttl: TTL, data };
        reply.add(Section::Answer, &record);
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;

    #[test]
    fn any_is_answered_with_a_note_and_other_types_are_not() {
        let asked = Asked::new(". {\n any\n}");
        assert_eq!(asked.ask("a.test.", "ANY"), "NOERROR | a.test. 8482 IN HINFO \"ANY obsoleted\" \"See RFC 8482\"");
        assert_eq!(asked.ask("a.test.", "A"), "SERVFAIL");
    }
}
