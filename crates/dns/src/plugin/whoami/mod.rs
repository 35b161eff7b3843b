//! `whoami`: tells clients how they are seen.

use super::{Plugin, Step, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::{Query, Transport},
    wire::{Name, Record, Reply, Section, code::rtype},
};

struct Whoami;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    line.no_block()?;
    building.other_classes = true;
    building.plugins.push(Box::new(Whoami));
    Ok(())
}

impl Plugin for Whoami {
    fn name(&self) -> &'static str {
        "whoami"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let request = &query.request;
        let address = Record::address(request.name, 0, query.source.ip().to_canonical());
        reply.add(Section::Additional, &Record { class: request.class, ..address });
        let proto: &[u8] = if query.transport == Transport::Tcp { b"_tcp" } else { b"_udp" };
        if let Ok(name) = Name::under([proto], &request.name) {
            // Priority and weight, the port, and the root as target.
            let mut data = vec![0; 4];
            data.extend(query.source.port().to_be_bytes());
            data.push(0);
            reply.add(Section::Additional, &Record { name, rtype: rtype::SRV, class: request.class, ttl: 0, data });
        }
        reply.aa = true;
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;

    #[test]
    fn clients_of_both_families_see_themselves() {
        let asked = Asked::new(". {\n whoami\n}");
        for (client, address) in [("192.0.2.1:4000", "A 192.0.2.1"), ("[2001:db8::1]:4000", "AAAA 2001:db8::1")] {
            assert_eq!(
                asked.ask_from(client, "a.test.", "MX"),
                format!("NOERROR aa | |  | a.test. 0 IN {address}, _udp.a.test. 0 IN SRV 0 0 4000 .")
            );
        }
    }
}
