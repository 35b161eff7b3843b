//! What is kept and for how long, as a table; and hits through a block with an upstream of ours.

use super::*;
use crate::{plugin::forward::testing::Upstream, testing::Asked, wire::Name};

fn message(rcode: u16, answer: &[&str], authority: &[&str]) -> Message {
    let records = |texts: &[&str]| -> Vec<Record> { texts.iter().map(|text| text.parse().unwrap()).collect() };
    Message {
        id: 0,
        response: true,
        aa: false,
        tc: false,
        ra: true,
        ad: false,
        rcode,
        question: (Name::parse("a.test").unwrap(), rtype::A, 1),
        sections: [records(answer), records(authority), Vec::new()],
        edns: false,
        options: Vec::new(),
    }
}

#[test]
fn answers_are_kept_as_the_rfcs_say() {
    let soa = "test 600 IN SOA a b 1 2 3 4 60";
    let a = "a.test 300 IN A 192.0.2.1";
    let cname = "a.test 300 IN CNAME b.test";
    for (what, message, expected) in [
        ("an answer", message(0, &[a], &[]), Some((Sort::Success, 300))),
        (
            "the least of all TTLs",
            message(0, &[a, "a.test 30 IN A 192.0.2.2"], &["test 20 IN NS a"]),
            Some((Sort::Success, 20)),
        ),
        ("no data", message(0, &[], &[soa]), Some((Sort::Denial, 60))),
        ("no name", message(3, &[], &[soa]), Some((Sort::Denial, 60))),
        ("no name without SOA", message(3, &[], &[]), None),
        ("no name with an answer", message(3, &[a], &[soa]), None),
        ("a chain to no name", message(3, &[cname], &[soa]), Some((Sort::Denial, 60))),
        ("a chain to no name without SOA", message(3, &[cname], &[]), None),
        ("nothing at all", message(0, &[], &[]), Some((Sort::Success, 5))),
        ("a chain that leads nowhere", message(0, &[cname], &[]), None),
        ("a chain to nothing", message(0, &[cname], &[soa]), Some((Sort::Denial, 60))),
        ("a chain with another's end", message(0, &[cname, "c.test 300 IN A 192.0.2.1"], &[]), None),
        ("a chain with its end", message(0, &[cname, "B.test 200 IN A 192.0.2.1"], &[]), Some((Sort::Success, 200))),
        ("a ring", message(0, &[cname, "b.test 300 IN CNAME a.test"], &[]), None),
        ("a failure", message(2, &[], &[]), Some((Sort::Denial, 5))),
        ("refused", message(5, &[], &[]), None),
        ("cut", Message { tc: true, ..message(0, &[a], &[]) }, None),
    ] {
        assert_eq!(judge(&message, rtype::A), expected, "{what}");
    }
    assert_eq!(judge(&message(0, &[a], &[]), rtype::AXFR), None);
}

#[test]
fn a_second_question_is_not_asked_again_and_ttls_are_bounded() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1", "www.test. 300 IN AAAA 2001:db8::1"]);
    let asked = Asked::new(&format!(". {{\n cache 60 {{\n denial 100 30 \n }}\n forward . {}\n}}", upstream.address()));
    for _ in 0..3 {
        let answer = asked.ask("www.test.", "A");
        assert!(answer.ends_with("| www.test. 60 IN A 192.0.2.1"), "{answer}");
    }
    assert_eq!(upstream.asked(), 1);
    let mixed = asked.ask("WWW.Test.", "A");
    assert_eq!(mixed, "NOERROR ra | WWW.Test. 60 IN A 192.0.2.1");
    assert_eq!(upstream.asked(), 1);
    for _ in 0..2 {
        let denied = asked.ask("none.test.", "A");
        assert!(denied.starts_with("NXDOMAIN") && denied.contains(". 30 IN SOA"), "{denied}");
    }
    assert_eq!(upstream.asked(), 2);
}

#[test]
fn local_answers_are_never_old() {
    let asked = Asked::new(". {\n cache 60\n hosts {\n 192.0.2.1 a.test\n }\n}");
    for _ in 0..2 {
        assert_eq!(asked.ask("a.test.", "A"), "NOERROR aa | a.test. 3600 IN A 192.0.2.1");
    }
}

#[test]
fn a_failure_is_answered_with_the_last_good_answer_if_that_is_wanted() {
    let upstream = Upstream::start(&["www.test. 1 IN A 192.0.2.1"]);
    let conf = ". {\n cache {\n success 100 3600 0\n serve_stale 1h verify\n }\n forward . UP {\n max_fails 0\n read_timeout 100ms\n }\n}";
    let asked = Asked::new(&conf.replace("UP", &upstream.address().to_string()));
    let mut query = crate::testing::query("www.test.", rtype::A);
    assert_eq!(asked.answer(query.clone()).rcode, 0);
    drop(upstream);
    query.started += Duration::from_secs(10);
    let reply = asked.answer(query);
    assert_eq!(crate::testing::shown(&reply), "NOERROR ra | www.test. 0 IN A 192.0.2.1");
}

#[test]
fn outlived_answers_have_their_ttl_and_are_not_checked_again_at_once() {
    let upstream = Upstream::start(&["www.test. 1 IN A 192.0.2.1"]);
    let conf = ". {\n cache {\n success 100 3600 0\n serve_stale 1h verify 0 30s 1m\n }\n forward . UP {\n max_fails 0\n \
                read_timeout 50ms\n max_connect_attempts 1\n }\n}";
    let asked = Asked::new(&conf.replace("UP", &upstream.address().to_string()));
    let mut query = crate::testing::query("www.test.", rtype::A);
    assert_eq!(asked.answer(query.clone()).rcode, 0);
    let before = upstream.asked();
    drop(upstream);
    for seconds in [10, 11, 12] {
        query.started += Duration::from_secs(seconds);
        let reply = asked.answer(query.clone());
        assert_eq!(crate::testing::shown(&reply), "NOERROR ra | www.test. 30 IN A 192.0.2.1");
    }
    assert_eq!(before, 1);
}

#[test]
fn a_good_answer_goes_before_a_denial_if_that_is_wanted() {
    for (policy, expected) in [("", "NXDOMAIN"), ("serve_stale_policy prefer_positive", "NOERROR")] {
        let good = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
        let kept =
            Asked::new(&format!(". {{\n cache {{\n serve_stale\n {policy}\n }}\n forward . {}\n}}", good.address()));
        let query = crate::testing::query("www.test.", rtype::A);
        assert_eq!(kept.answer(query.clone()).rcode, 0);
        // The same question is denied later on.
        kept.after("cache", query, |reply| {
            reply.fail(rcode::NXDOMAIN, None);
            reply.add(Section::Authority, &"test 900 IN SOA ns.test h.test 1 2 3 4 800".parse().unwrap());
            reply.cacheable = true;
        });
        assert!(kept.ask("www.test.", "A").starts_with(expected), "{policy}");
    }
}

#[test]
fn what_is_longer_than_a_message_is_not_kept() {
    let kept = Asked::new(". {\n cache\n}");
    for (records, expected) in [(200, true), (300, false)] {
        let name = format!("n{records}.test");
        kept.after("cache", crate::testing::query(&name, rtype::TXT), |reply| {
            let record: Record = format!("{name} 60 IN TXT {}", "x".repeat(250)).parse().unwrap();
            (0..records).for_each(|_| reply.add(Section::Answer, &record));
            reply.cacheable = true;
        });
        let reply = kept.answer(crate::testing::query(&name, rtype::TXT));
        assert_eq!(reply.count(Section::Answer) == records, expected, "{records}");
    }
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("cache 0", "\"0\": plugin cache: accepted: a number of seconds from 1"),
        ("cache {\n success 0\n }", "\"0\": plugin cache: accepted: a number from 1 to 10000000"),
        ("cache {\n servfail 6m\n }", "\"6m\": plugin cache: accepted: up to 5m"),
        ("cache {\n prefetch 1 1m 5%\n }", "\"5%\": plugin cache: accepted: 10% to 90%"),
        ("cache {\n serve_stale 1h never\n }", "\"never\": plugin cache: accepted: immediate, verify"),
        ("cache {\n serve_stale 1h verify 0 1500ms\n }", "\"1500ms\": plugin cache: accepted: whole seconds"),
        ("cache {\n serve_stale_policy x\n }", "\"x\": plugin cache: accepted: prefer_positive"),
        ("cache {\n disable all\n }", "\"disable\": plugin cache: accepted: success or denial, and perhaps zones"),
        ("cache\n cache", "may stand only once in a server block"),
    ] {
        let problem = crate::testing::refused(&format!(". {{\n {text}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn answers_that_are_not_kept_have_bounded_lifetimes_as_well() {
    let upstream = Upstream::start(&["alias.test. 86400 IN CNAME elsewhere.example."]);
    let asked = Asked::new(&format!(". {{\n cache 60\n forward . {}\n}}", upstream.address()));
    let answer = asked.ask("alias.test.", "CNAME");
    assert!(answer.ends_with("| alias.test. 60 IN CNAME elsewhere.example."), "{answer}");
    let upstream = Upstream::start(&["alias.test. 86400 IN CNAME elsewhere.example."]);
    let asked = Asked::new(&format!(". {{\n cache 60\n forward . {}\n}}", upstream.address()));
    for times in 1..3 {
        let answer = asked.ask("alias.test.", "A");
        assert!(answer.ends_with("| alias.test. 60 IN CNAME elsewhere.example."), "{answer}");
        assert_eq!(upstream.asked(), times);
    }
}
