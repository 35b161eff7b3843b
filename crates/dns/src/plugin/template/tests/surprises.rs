//! What people did not expect of templates, and what they get here.

use super::rows::before_hosts;
use crate::{
    testing::{Asked, query, refused, shown},
    wire::code::rtype,
};

#[test]
fn a_question_of_any_type_is_filtered_with_the_rest() {
    let asked = before_hosts(" template IN AAAA . {\n  rcode NOERROR\n }");
    for (rtype, expected) in
        [("AAAA", "NOERROR aa"), ("ANY", "NOERROR aa"), ("A", "NOERROR aa | a.example. 3600 IN A 192.0.2.99")]
    {
        assert_eq!(asked.ask("a.example.", rtype), expected, "{rtype}");
    }
}

#[test]
fn falling_through_is_for_the_zones_it_names() {
    let asked = before_hosts(" template IN ANY example test {\n  match ^never$\n  fallthrough b.example test\n }");
    for (name, rtype, expected) in [
        ("a.example.", "A", "SERVFAIL"),
        ("b.example.", "A", "NOERROR aa | b.example. 3600 IN A 192.0.2.99"),
        ("B.Example.", "AAAA", "NOERROR aa | B.Example. 3600 IN AAAA 2001:db8::99"),
        ("some.test.", "AAAA", "NOERROR aa | some.test. 3600 IN AAAA 2001:db8::99"),
    ] {
        assert_eq!(asked.ask(name, rtype), expected, "{name} {rtype}");
    }
}

#[test]
fn the_order_of_the_file_decides_between_templates_of_a_zone() {
    let one = " template IN AAAA example {\n  answer \"{{ .Name }} 1 IN AAAA ::1\"\n }";
    let two = " template IN AAAA example {\n  answer \"{{ .Name }} 2 IN AAAA ::2\"\n }";
    let hosts = " hosts {\n  2001:db8::99 a.example\n }";
    for (order, expected) in [
        ([one, two, hosts], "NOERROR aa | a.example. 1 IN AAAA ::1"),
        ([two, hosts, one], "NOERROR aa | a.example. 2 IN AAAA ::2"),
        // Where a plugin stands in the file means nothing: templates come before hosts.
        ([hosts, one, two], "NOERROR aa | a.example. 1 IN AAAA ::1"),
    ] {
        let asked = Asked::new(&format!(". {{\n{}\n}}", order.join("\n")));
        assert_eq!(asked.ask("a.example.", "AAAA"), expected);
    }
}

#[test]
fn names_are_matched_in_lower_case_and_answered_as_asked() {
    let asked = Asked::new(
        ". {\n template IN ANY . {\n match ^(?P<first>[^.]*)[.]\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Group.first }}\\\"\"\n fallthrough\n }\n template IN ANY . {\n answer \"{{ .Name }} 60 IN TXT \\\"root\\\"\"\n }\n}",
    );
    for (name, expected) in [
        ("MiXeD.Test.", "NOERROR aa | MiXeD.Test. 60 IN TXT \"mixed\""),
        (".", "NOERROR aa | . 60 IN TXT \"\""),
        // The backslash of the name would end up before the quote.
        ("a\\.b.test.", "SERVFAIL"),
    ] {
        assert_eq!(asked.ask(name, "TXT"), expected, "{name}");
    }
    let asked = Asked::new(". {\n template IN A . {\n answer \"{{ .Name }} {{ 60 }} IN A 192.0.2.1\"\n }\n}");
    for name in ["a\\.b.test.", "a\\\\b.Test.", "\\000.test.", "a\\ b.test.", "."] {
        assert_eq!(asked.ask(name, "A"), format!("NOERROR aa | {name} 60 IN A 192.0.2.1"));
    }
}

/// A cache keeps nothing that is made here: it is not kept longer, and its TTL is the one of the file.
#[test]
fn a_denial_is_as_the_file_says_with_a_cache_above_it() {
    for (authority, expected) in [
        ("", "NOERROR aa"),
        (
            "  authority \"{{ .Zone }} 600 IN SOA ns.test. h.test. 1 2 3 4 20\"\n",
            "NOERROR aa | | example. 600 IN SOA ns.test. h.test. 1 2 3 4 20",
        ),
    ] {
        let asked = Asked::new(&format!(
            ". {{\n cache 900 {{\n  denial 9984 30\n }}\n template IN AAAA example {{\n  rcode NOERROR\n{authority} }}\n}}"
        ));
        for _ in 0..2 {
            assert_eq!(asked.ask("a.example.", "AAAA"), expected);
        }
    }
}

#[test]
fn refusing_is_one_reply_like_any_other() {
    for code in ["REFUSED", "FORMERR", "NOTIMP", "NXDOMAIN"] {
        let asked = Asked::new(&format!(". {{\n template IN A . {{\n  rcode {code}\n }}\n}}"));
        let reply = asked.answer(query("a.example.", rtype::A));
        assert_eq!(shown(&reply), format!("{code} aa"));
    }
}

#[test]
fn text_of_the_environment_does_not_get_in_and_quotes_must_end() {
    // An unset variable is nothing, also within quotes: the record then lacks its address.
    let asked =
        Asked::new(". {\n template IN A . {\n  answer \"{{ .Name }} 60 IN A {$TWINSTACK_NOT_SET_ANYWHERE}\"\n }\n}");
    assert_eq!(asked.ask("a.example.", "A"), "SERVFAIL");
    let problem = refused(". {\n template IN A . {\n  answer \"{{ .Name }} 60 IN A 192.0.2.1\\\"\n }\n}");
    assert!(problem.starts_with("Corefile:3:"), "{problem}");
}

#[test]
fn a_template_hides_the_cluster_unless_it_excepts_it() {
    use crate::plugin::kubernetes::tests::{content, index, lasting};
    let (_index, records) = index(&content(), 5);
    let stanza = "kubernetes cluster.local";
    let (lasting, _cluster) = lasting(stanza, &records);
    let dual = "dual.dn.svc.cluster.local.";
    for (exception, expected) in [
        ("", "NOERROR aa".to_owned()),
        ("  except cluster.local\n", format!("NOERROR aa | {dual} 5 IN AAAA fd00:96::101")),
    ] {
        let text = format!(". {{\n {stanza}\n template IN AAAA . {{\n{exception} }}\n}}");
        let asked = Asked::with(&text, &lasting);
        assert_eq!(asked.ask(dual, "AAAA"), expected);
        assert_eq!(asked.ask(dual, "A"), format!("NOERROR aa | {dual} 5 IN A 10.96.1.1"));
        assert_eq!(asked.ask("www.example.org.", "AAAA"), "NOERROR aa");
    }
}
