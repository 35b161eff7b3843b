//! `minimal`: good answers without what goes beyond the question.

use super::{Plugin, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::{Reply, Section, code::rcode},
};

struct Minimal;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    line.no_block()?;
    building.plugins.push(Box::new(Minimal));
    Ok(())
}

impl Plugin for Minimal {
    fn name(&self) -> &'static str {
        "minimal"
    }

    /// Denials need their SOA record, and delegations their name servers.
    fn after(&self, _: &mut Query, reply: &mut Reply) {
        let bare = reply.count(Section::Answer) == 0 && reply.count(Section::Authority) > 0;
        if reply.rcode == rcode::NOERROR && !bare {
            reply.keep_answer();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;

    #[test]
    fn answers_lose_the_rest_and_denials_keep_it() {
        let asked = Asked::new(
            ". {
 minimal
 template IN A yes.test {
  answer \"{{ .Name }} 60 IN A 192.0.2.1\"
  authority \"test. 60 IN NS ns.test.\"
  additional \"ns.test. 60 IN A 192.0.2.53\"
 }
 template IN AAAA yes.test {
  authority \"test. 60 IN SOA ns.test. h.test. 1 2 3 4 60\"
 }
 template IN A no.test {
  rcode NXDOMAIN
  authority \"test. 60 IN SOA ns.test. h.test. 1 2 3 4 60\"
 }
 template IN A away.test {
  authority \"away.test. 60 IN NS ns.away.test.\"
  additional \"ns.away.test. 60 IN A 192.0.2.53\"
 }
}",
        );
        let soa = "test. 60 IN SOA ns.test. h.test. 1 2 3 4 60";
        assert_eq!(asked.ask("yes.test.", "A"), "NOERROR aa | yes.test. 60 IN A 192.0.2.1");
        assert_eq!(asked.ask("yes.test.", "AAAA"), format!("NOERROR aa | | {soa}"));
        assert_eq!(asked.ask("no.test.", "A"), format!("NXDOMAIN aa | | {soa}"));
        assert_eq!(
            asked.ask("x.away.test.", "A"),
            "NOERROR aa | | away.test. 60 IN NS ns.away.test. | ns.away.test. 60 IN A 192.0.2.53"
        );
    }
}
