//! `erratic`: answers badly, for tests of clients.

use super::{Plugin, Step, only};
use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    text,
    wire::{
        Reply, Section,
        code::{rcode, rtype},
    },
};
use futures::future::BoxFuture;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

struct Erratic {
    /// Every so many questions; zero is never.
    drop: u64,
    truncate: u64,
    delay: u64,
    duration: Duration,
    /// More than fits into a small datagram.
    large: bool,
    asked: AtomicU64,
}

/// Records of a large answer.
const LARGE: usize = 30;
const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    let asked = AtomicU64::new(0);
    let mut plugin = Erratic { drop: 2, truncate: 0, delay: 0, duration: Duration::ZERO, large: false, asked };
    let (mut drops, mut others) = (false, false);
    for line in line.lines() {
        let amount = |default: u64| match line.args.as_slice() {
            [] => Ok(default),
            [amount, ..] => text::number(amount, 0.., "a number from 0"),
        };
        let most = if line.name.text == "delay" { 2 } else { 1 };
        if let Some(more) = line.args.get(most) {
            return Err(Problem::at(more, "is one word too many"));
        }
        match line.name.text.as_str() {
            "drop" => {
                plugin.drop = amount(2)?;
                drops = true;
            }
            "truncate" => {
                plugin.truncate = amount(2)?;
                others = true;
            }
            "delay" => {
                plugin.delay = amount(2)?;
                plugin.duration = line.args.get(1).map_or(Ok(Duration::from_millis(100)), text::duration)?;
                others = true;
            }
            "large" => {
                line.none()?;
                plugin.large = true;
            }
            _ => return Err(line.unknown(&["delay", "drop", "large", "truncate"])),
        }
    }
    if others && !drops {
        plugin.drop = 0;
    }
    building.plugins.push(Box::new(plugin));
    Ok(())
}

impl Erratic {
    fn answer(&self, number: u64, query: &Query, reply: &mut Reply) {
        let is_turn = |every: u64| every > 0 && number.is_multiple_of(every);
        reply.aa = true;
        // As CoreDNS counts: by bits.
        reply.tc = self.truncate > 0 && number & self.truncate == 0;
        let address: IpAddr = match query.request.rtype {
            rtype::A => V4.into(),
            rtype::AAAA => V6.into(),
            _ => {
                reply.fail(rcode::SERVFAIL, None);
                reply.tc = false;
                reply.dropped = is_turn(self.drop);
                return;
            }
        };
        let count = if self.large && query.request.rtype == rtype::A { LARGE } else { 1 };
        (0..count).for_each(|_| reply.add_address(Section::Answer, &query.request.name, 0, address));
        reply.dropped = is_turn(self.drop);
    }
}

impl Plugin for Erratic {
    fn name(&self) -> &'static str {
        "erratic"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let number = self.asked.load(Ordering::Relaxed);
        if self.delay > 0 && number.is_multiple_of(self.delay) {
            return Step::Later;
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer(number, query, reply);
        Step::Done
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, _: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.duration).await;
            self.answer(number, query, reply);
            Step::Done
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn every_second_question_gets_nothing() {
        let asked = Asked::new(". {\n erratic\n}");
        let answer = "NOERROR aa | a.test. 0 IN A 192.0.2.53";
        for expected in ["nothing", answer, "nothing", answer] {
            assert_eq!(asked.ask("a.test.", "A"), expected);
        }
        let asked = Asked::new(". {\n erratic {\n delay 2 1ms\n truncate 1\n }\n}");
        for expected in
            ["NOERROR aa tc | a.test. 0 IN AAAA 2001:db8::53", "NOERROR aa | a.test. 0 IN AAAA 2001:db8::53"]
        {
            assert_eq!(asked.ask("a.test.", "AAAA"), expected);
        }
        assert_eq!(asked.ask("a.test.", "MX"), "SERVFAIL");
        assert!(refused(". {\n erratic {\n drop x\n }\n}").contains("accepted: a number from 0"));
    }
}
