//! Questions and answers, in the words of CoreDNS's own tables and of the filter that operators write.

mod expressions;
mod rows;
mod surprises;

use crate::{
    plugin::template::complement,
    testing::{Asked, refused},
    wire::Name,
};

#[test]
fn templates_answer_by_pattern_class_and_type() {
    let asked = Asked::new(
        r#"test:53 example:53 invalid:53 {
 template IN A test {
  rcode REFUSED
 }
 template IN TXT test {
  match "^impossible\.$"
  fallthrough
 }
 template CH TXT invalid {
  answer "{{ .Name }} 60 CH TXT \"test\""
 }
 template IN A example {
  match ^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$ ^ip0(?P<a>[a-f0-9]{1})(?P<b>[a-f0-9]{2})(?P<c>[a-f0-9]{2})(?P<d>[a-f0-9]{2})[.]example[.]$
  answer "{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
  fallthrough
 }
 template IN MX example {
  match ^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$
  answer "{{ .Name }} 60 IN MX 10 {{ .Name }}"
  additional "{{ .Name }} 60 IN A {{ index .Match 1 }}.{{ index .Match 2 }}.{{ index .Match 3 }}.{{ index .Match 4 }}"
 }
 template IN SRV example {
  match ^hex-(?P<hex>[a-z0-9]*)[.]
  answer "{{ .Name }} 60 IN SRV 1 2 {{ parseInt .Group.hex 16 16 }} {{ .Zone }}"
 }
 template IN AAAA example {
  answer "{{ .Name }} 60 IN AAAA ::{{ .Remote }}"
 }
 template IN NS example {
  answer "{{ index .Match 2 }}"
 }
 template IN PTR example {
  answer "{{ .Name }}"
 }
 template IN HINFO example {
  rcode SERVFAIL
 }
}"#,
    );
    for (name, rtype, expected) in [
        ("some.test.", "A", "REFUSED aa"),
        ("some.test.", "TXT", "SERVFAIL"),
        ("some.test.", "AAAA", "SERVFAIL"),
        ("ip-10-95-12-8.example.", "A", "NOERROR aa | ip-10-95-12-8.example. 60 IN A 10.95.12.8"),
        ("IP-10-95-12-8.Example.", "A", "NOERROR aa | IP-10-95-12-8.Example. 60 IN A 10.95.12.8"),
        (
            "ip-10-95-12-8.example.",
            "MX",
            "NOERROR aa | ip-10-95-12-8.example. 60 IN MX 10 ip-10-95-12-8.example. | | ip-10-95-12-8.example. 60 IN A 10.95.12.8",
        ),
        ("other.example.", "A", "SERVFAIL"),
        ("other.example.", "MX", "SERVFAIL"),
        ("hex-1f.example.", "SRV", "NOERROR aa | hex-1f.example. 60 IN SRV 1 2 31 example."),
        ("hex-gg.example.", "SRV", "SERVFAIL"),
        ("x.example.", "AAAA", "NOERROR aa | x.example. 60 IN AAAA ::a00:1"),
        ("x.example.", "NS", "SERVFAIL"),
        ("x.example.", "PTR", "SERVFAIL"),
        ("x.example.", "HINFO", "SERVFAIL"),
    ] {
        let expected = expected.replace("::a00:1", "::c000:201");
        assert_eq!(asked.ask(name, rtype), expected, "{name} {rtype}");
    }
    let other = asked.ask_class("server.invalid.", "TXT", "CH");
    assert_eq!(other, "NOERROR aa | server.invalid. 60 CH TXT \"test\"");
}

const HOSTS: &str = "hosts {
  192.0.2.1 dual.cluster.local www.example.org
  2001:db8::1 dual.cluster.local www.example.org
  fallthrough
 }";

#[test]
fn an_exclusion_that_matches_answers_and_does_not_fall_through() {
    let asked = Asked::new(&format!(
        r". {{
 template IN AAAA . {{
  match ^(.*\.)?cluster\.local\.$
  fallthrough
 }}
 template IN AAAA . {{
  rcode NOERROR
 }}
 {HOSTS}
}}"
    ));
    assert_eq!(asked.ask("dual.cluster.local.", "AAAA"), "NOERROR aa");
    assert_eq!(asked.ask("www.example.org.", "AAAA"), "NOERROR aa");
    assert_eq!(asked.ask("www.example.org.", "A"), "NOERROR aa | www.example.org. 3600 IN A 192.0.2.1");
}

#[test]
fn the_complement_filters_everything_but_the_cluster() {
    let patterns: String =
        complement(&Name::parse("cluster.local").unwrap()).iter().map(|p| format!("  match {p}\n")).collect();
    for exclusion in [format!("{patterns}  fallthrough\n"), "  except cluster.local\n".to_owned()] {
        let asked = Asked::new(&format!(
            ". {{\n template IN AAAA . {{\n{exclusion}  rcode NOERROR\n  authority \". 30 IN SOA a. b. 1 2 3 4 30\"\n }}\n {HOSTS}\n}}"
        ));
        let kept = "NOERROR aa | dual.cluster.local. 3600 IN AAAA 2001:db8::1";
        assert_eq!(asked.ask("dual.cluster.local.", "AAAA"), kept);
        for name in ["www.example.org.", "local.", ".", "xcluster.local.", "cluster.local.example.org."] {
            assert_eq!(asked.ask(name, "AAAA"), "NOERROR aa | | . 30 IN SOA a. b. 1 2 3 4 30", "{name}");
        }
        assert_eq!(asked.ask("www.example.org.", "A"), "NOERROR aa | www.example.org. 3600 IN A 192.0.2.1");
    }
}

#[test]
fn the_first_template_of_the_file_wins_and_any_is_for_all() {
    let asked = Asked::new(
        r#". {
 template IN AAAA example.org {
  answer "{{ .Name }} 1 IN AAAA ::1"
  fallthrough
 }
 template IN AAAA a.example.org {
  answer "{{ .Name }} 2 IN AAAA ::2"
 }
 template ANY ANY x.test y.test {
  answer "{{ .Name }} 3 {{ .Class }} TXT \"{{ .Type }}\""
 }
}"#,
    );
    assert_eq!(asked.ask("a.example.org.", "AAAA"), "NOERROR aa | a.example.org. 1 IN AAAA ::1");
    assert_eq!(asked.ask("a.example.org.", "ANY"), "NOERROR aa | a.example.org. 1 IN AAAA ::1");
    assert_eq!(asked.ask("b.y.test.", "MX"), "NOERROR aa | b.y.test. 3 IN TXT \"MX\"");
    assert_eq!(asked.ask("z.test.", "MX"), "SERVFAIL");
}

#[test]
fn a_cname_is_followed_through_the_server_for_addresses_alone() {
    let asked = Asked::new(
        r#". {
 template IN A alias.test {
  answer "{{ .Name }} 60 IN CNAME real.test."
 }
 template IN CNAME alias.test {
  answer "{{ .Name }} 60 IN CNAME real.test."
 }
 template IN A real.test {
  answer "{{ .Name }} 60 IN A 192.0.2.7"
 }
 template IN A loop.test {
  answer "{{ .Name }} 60 IN CNAME x.{{ .Name }}"
 }
}"#,
    );
    assert_eq!(
        asked.ask("alias.test.", "A"),
        "NOERROR aa | alias.test. 60 IN CNAME real.test., real.test. 60 IN A 192.0.2.7"
    );
    assert_eq!(asked.ask("alias.test.", "CNAME"), "NOERROR aa | alias.test. 60 IN CNAME real.test.");
    // It ends, whatever it says.
    assert!(asked.ask("loop.test.", "A").starts_with("NOERROR aa | loop.test. 60 IN CNAME x.loop.test."));
}

#[test]
fn mistakes_are_found_when_the_file_is_read() {
    for (text, expected) in [
        ("template", "\"template\": plugin template: needs a class and a type, and perhaps zones"),
        ("template XX A", "\"XX\": plugin template: is no class; accepted: IN, CH, HS, CS, NONE, ANY"),
        ("template IN", "\"template\": plugin template: needs a class and a type, and perhaps zones"),
        ("template IN XX", "\"XX\": plugin template: is no record type, in capitals, or ANY"),
        ("template IN A {\n anwser x\n }", "\"anwser\": plugin template: unknown property; did you mean answer?"),
        ("template IN A {\n answer\n }", "\"answer\": plugin template: needs at least one record"),
        ("template IN A {\n additional\n }", "\"additional\": plugin template: needs at least one record"),
        ("template IN A {\n authority\n }", "\"authority\": plugin template: needs at least one record"),
        ("template IN A {\n additional \"{{\"\n }", "\"{{\": plugin template: unclosed action"),
        ("template IN A {\n authority \"{{\"\n }", "\"{{\": plugin template: unclosed action"),
        ("template IN A {\n rcode\n }", "\"rcode\": plugin template: needs one argument, has 0"),
        ("template IN A {\n match\n }", "\"match\": plugin template: needs at least one pattern"),
        ("template IN A {\n rcode UNDEFINED\n }", "\"UNDEFINED\": plugin template: is no response code"),
        ("template IN A {\n rcode SUCCESS\n }", "\"SUCCESS\": plugin template: is no response code"),
        ("template IN A {\n answer \"{{\"\n }", "\"{{\": plugin template: unclosed action"),
        ("template IN A {\n authority \"{{ nope }}\"\n }", "plugin template: function \"nope\" not defined"),
        ("template IN A {\n ederror x\n }", "\"x\": plugin template: accepted: a number up to 65535"),
        ("template IN A {\n ederror 1 a b\n }", "\"ederror\": plugin template: needs a code, and perhaps a text"),
        (
            "template IN A {\n match (\n }",
            "\"(\": plugin template: must be a regular expression as Go accepts it: regex parse error",
        ),
    ] {
        let problem = refused(&format!(". {{\n {text}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
    let problem = refused(&format!(". {{\n template IN A {{\n match {}\n }}\n}}", "a".repeat(10_001)));
    assert!(problem.ends_with("plugin template: the pattern is too long: more than 10000 bytes"), "{problem}");
}

#[test]
fn an_extended_error_is_sent_with_the_answer() {
    let asked = Asked::new(". {\n template IN A {\n  rcode NXDOMAIN\n  ederror 21 \"blocked\"\n }\n}");
    assert_eq!(asked.extended("a.test.", "A"), Some((21, "blocked".to_owned())));
}

#[test]
fn what_cannot_be_filled_in_or_read_is_a_failure() {
    for template in [
        "answer \"{{ .Name }} 60 IN A {{ index .Match 2 }}\"",
        "answer \"{{ .Name }}\"",
        "answer \"{{ .Name }} 60 IN A {{ .Remote }}\"\n  additional \"{{ .Name }}\"",
        "authority \"{{ .Name }}\"",
        "answer \"{{ .Name }} 60 IN A {{ parseInt \\\"gg\\\" 16 8 }}\"",
        "answer \"{{ .Name }} 60 IN A {{ .Grup.d }}\"",
    ] {
        let asked = Asked::new(&format!(". {{\n template IN A example {{\n  {template}\n }}\n}}"));
        assert_eq!(asked.ask("a.example.", "A"), "SERVFAIL", "{template}");
    }
}

#[test]
fn all_sections_and_the_client_are_at_hand() {
    let asked = Asked::new(
        r#". {
 template IN A example {
  match "^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$"
  answer "{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
  fallthrough
 }
 template IN MX example {
  answer "{{ .Name }} 60 IN MX 10 {{ .Name }}"
  additional "{{ .Name }} 60 IN A 192.0.2.1" "{{ .Name }} 60 IN AAAA 2001:db8::1"
 }
 template IN NS example {
  answer "{{ .Name }} 60 IN NS ns.example."
  authority "example. 60 IN NS ns.example."
  additional "ns.example. 60 IN A 192.0.2.53"
 }
 template IN A client.test {
  answer "{{ .Name }} 60 IN A {{ .Remote }}"
 }
 template IN AAAA client.test {
  answer "{{ .Name }} 60 IN AAAA {{ .Remote }}"
 }
}"#,
    );
    for (name, rtype, expected) in [
        ("ip-10-95-12-8.example.", "A", "NOERROR aa | ip-10-95-12-8.example. 60 IN A 10.95.12.8"),
        ("other.example.", "A", "SERVFAIL"),
        (
            "a.example.",
            "MX",
            "NOERROR aa | a.example. 60 IN MX 10 a.example. | | a.example. 60 IN A 192.0.2.1, a.example. 60 IN AAAA 2001:db8::1",
        ),
        (
            "a.example.",
            "NS",
            "NOERROR aa | a.example. 60 IN NS ns.example. | example. 60 IN NS ns.example. | ns.example. 60 IN A 192.0.2.53",
        ),
    ] {
        assert_eq!(asked.ask(name, rtype), expected, "{name} {rtype}");
    }
    for (source, rtype, address) in
        [("192.0.2.7:4000", "A", "192.0.2.7"), ("[2001:db8::7]:4000", "AAAA", "2001:db8::7")]
    {
        let expected = format!("NOERROR aa | client.test. 60 IN {rtype} {address}");
        assert_eq!(asked.ask_from(source, "client.test.", rtype), expected);
    }
}
