//! The tables of CoreDNS's own tests, row by row. What falls through comes to `hosts`, which knows the names of them.

use crate::{
    plugin::forward::testing::Upstream,
    testing::{Asked, build},
};

/// These templates with somebody behind them.
pub(super) fn before_hosts(templates: &str) -> Asked {
    Asked::new(&format!(
        ".:53 {{
{templates}
 hosts {{
  192.0.2.99 test.invalid something.example some.test a.example b.example 1.example
  2001:db8::99 test.invalid something.example some.test a.example b.example 1.example
 }}
}}"
    ))
}

const IP: &str = "match (^|[.])ip-10-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$";

#[test]
fn one_template_answers_as_the_handler_does() {
    let ten = "10.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}";
    for (row, template, name, rtype, expected) in [
        ("RcodeServFail", "template ANY ANY {\n rcode SERVFAIL\n }".to_owned(), "test.invalid.", "A", "SERVFAIL"),
        (
            "ExampleDomainNameMismatch",
            format!("template ANY ANY {{\n {IP}\n answer \"{{{{ .Name }}}} 60 IN A {ten}\"\n fallthrough\n }}"),
            "test.invalid.",
            "A",
            "NOERROR aa | test.invalid. 3600 IN A 192.0.2.99",
        ),
        (
            "ExampleDomainNameMismatch, AAAA",
            format!("template ANY ANY {{\n {IP}\n answer \"{{{{ .Name }}}} 60 IN A {ten}\"\n fallthrough\n }}"),
            "test.invalid.",
            "AAAA",
            "NOERROR aa | test.invalid. 3600 IN AAAA 2001:db8::99",
        ),
        (
            "BrokenTemplate",
            "template ANY ANY {\n match [.]example[.]$\n answer \"{{ .Name }} 60 IN TXT \\\"{{ index .Match 2 }}\\\"\"\n fallthrough\n }".to_owned(),
            "test.example.",
            "ANY",
            "SERVFAIL",
        ),
        (
            "NonRRTemplate",
            "template ANY ANY {\n match [.]example[.]$\n answer \"{{ .Name }}\"\n fallthrough\n }".to_owned(),
            "test.example.",
            "ANY",
            "SERVFAIL",
        ),
        (
            "NonRRAdditionalTemplate",
            "template ANY ANY {\n match [.]example[.]$\n additional \"{{ .Name }}\"\n fallthrough\n }".to_owned(),
            "test.example.",
            "ANY",
            "SERVFAIL",
        ),
        (
            "NonRRAuthorityTemplate",
            "template ANY ANY {\n match [.]example[.]$\n authority \"{{ .Name }}\"\n fallthrough\n }".to_owned(),
            "test.example.",
            "ANY",
            "SERVFAIL",
        ),
        (
            "ExampleIPMatch",
            "template ANY ANY {\n answer \"{{ .Name }} 60 IN A {{ .Remote }}\"\n }".to_owned(),
            "test.example.",
            "A",
            "NOERROR aa | test.example. 60 IN A 192.0.2.1",
        ),
        (
            "ExampleDomainMatch",
            format!("template ANY ANY {{\n {IP}\n answer \"{{{{ .Name }}}} 60 IN A {ten}\"\n fallthrough\n }}"),
            "ip-10-95-12-8.example.",
            "A",
            "NOERROR aa | ip-10-95-12-8.example. 60 IN A 10.95.12.8",
        ),
        (
            "ExampleDomainMatchHexIp",
            "template ANY ANY {\n match ^ip0a(?P<b>[a-f0-9]{2})(?P<c>[a-f0-9]{2})(?P<d>[a-f0-9]{2})[.]example[.]$\n \
             answer \"{{ .Name }} 3600 IN A 10.{{ parseInt .Group.b 16 8 }}.{{ parseInt .Group.c 16 8 }}.{{ parseInt .Group.d 16 8 }}\"\n }".to_owned(),
            "ip0a5f0c09.example.",
            "A",
            "NOERROR aa | ip0a5f0c09.example. 3600 IN A 10.95.12.9",
        ),
        (
            "BrokenParseIntTemplate",
            "template ANY ANY {\n match [.]example[.]$\n answer \"{{ .Name }} 60 IN TXT \\\"{{ parseInt \\\"gg\\\" 16 8 }}\\\"\"\n }".to_owned(),
            "test.example.",
            "ANY",
            "SERVFAIL",
        ),
        (
            "ExampleDomainMXMatch",
            format!("template ANY MX {{\n {IP}\n answer \"{{{{ .Name }}}} 60 IN MX 10 {{{{ .Name }}}}\"\n additional \"{{{{ .Name }}}} 60 IN A {ten}\"\n }}"),
            "ip-10-95-12-8.example.",
            "MX",
            "NOERROR aa | ip-10-95-12-8.example. 60 IN MX 10 ip-10-95-12-8.example. | | ip-10-95-12-8.example. 60 IN A 10.95.12.8",
        ),
        (
            "ExampleDomainANSMatch",
            format!("template ANY ANY {{\n {IP}\n answer \"{{{{ .Name }}}} 60 IN A {ten}\"\n additional \"ns0.example. IN A 203.0.113.8\"\n authority \"example. IN NS ns0.example.com.\"\n }}"),
            "ip-10-95-12-8.example.",
            "A",
            "NOERROR aa | ip-10-95-12-8.example. 60 IN A 10.95.12.8 | example. 3600 IN NS ns0.example.com. | ns0.example. 3600 IN A 203.0.113.8",
        ),
        (
            "ExampleInvalidNXDOMAIN",
            "template ANY ANY {\n match [.]invalid[.]$\n rcode NXDOMAIN\n answer \"invalid. 60 {{ .Class }} SOA a.invalid. b.invalid. (1 60 60 60 60)\"\n }".to_owned(),
            "test.invalid.",
            "MX",
            "NXDOMAIN aa | invalid. 60 IN SOA a.invalid. b.invalid. 1 60 60 60 60",
        ),
        (
            "CNAMEWithoutUpstream",
            "template ANY ANY {\n match example[.]net[.]\n answer \"example.net 60 IN CNAME target.example.com\"\n fallthrough\n }".to_owned(),
            "example.net.",
            "A",
            "NOERROR aa | example.net. 60 IN CNAME target.example.com.",
        ),
        (
            "mdMissing",
            format!("template ANY ANY {{\n {IP}\n answer \"{{{{ .Meta \\\"foofoo\\\" }}}}{{{{ .Name }}}} 60 IN A {ten}\"\n }}"),
            "ip-10-95-12-8.example.",
            "A",
            "NOERROR aa | ip-10-95-12-8.example. 60 IN A 10.95.12.8",
        ),
    ] {
        assert_eq!(before_hosts(&template).ask(name, rtype), expected, "{row}\n{template}");
    }
}

#[test]
fn several_templates_answer_one_after_another() {
    let asked = before_hosts(
        r#" template IN A test {
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
  match "^ip-10-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$"
  answer "{{ .Name }} 60 IN A 10.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
  fallthrough
 }
 template IN MX example {
  match "^ip-10-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$"
  answer "{{ .Name }} 60 IN MX 10 {{ .Name }}"
  additional "{{ .Name }} 60 IN A 10.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
 }"#,
    );
    for (name, rtype, expected) in [
        ("some.test.", "A", "REFUSED aa"),
        ("some.test.", "TXT", "NOERROR aa"),
        ("some.test.", "AAAA", "NOERROR aa | some.test. 3600 IN AAAA 2001:db8::99"),
        ("ip-10-11-12-13.example.", "A", "NOERROR aa | ip-10-11-12-13.example. 60 IN A 10.11.12.13"),
        (
            "ip-10-11-12-13.example.",
            "MX",
            "NOERROR aa | ip-10-11-12-13.example. 60 IN MX 10 ip-10-11-12-13.example. | | ip-10-11-12-13.example. 60 IN A 10.11.12.13",
        ),
        ("something.example.", "A", "NOERROR aa | something.example. 3600 IN A 192.0.2.99"),
        ("something.example.", "MX", "SERVFAIL"),
    ] {
        assert_eq!(asked.ask(name, rtype), expected, "{name} {rtype}");
    }
    assert_eq!(asked.ask_class("coredns.invalid.", "TXT", "CH"), "NOERROR aa | coredns.invalid. 60 CH TXT \"test\"");
}

#[test]
fn what_is_cut_upstream_is_cut_here() {
    let texts: Vec<String> = (0..100).map(|n| format!("test.up. 600 IN AAAA 2001:db8::{n:x}")).collect();
    let few = ["test.up. 600 IN A 192.0.2.4".to_owned()];
    let texts: Vec<&str> = texts.iter().chain(&few).map(String::as_str).collect();
    let upstream = Upstream::start(&texts);
    let asked = Asked::new(&format!(
        ". {{\n template IN ANY test {{\n match ^cname\\.test\\.$\n answer \"cname.test. 600 IN CNAME test.up.\"\n }}\n forward . {}\n}}",
        upstream.address()
    ));
    assert_eq!(
        asked.ask("cname.test.", "A"),
        "NOERROR aa | cname.test. 600 IN CNAME test.up., test.up. 600 IN A 192.0.2.4"
    );
    let cut = asked.ask("cname.test.", "AAAA");
    assert!(
        cut.starts_with("NOERROR aa tc | cname.test. 600 IN CNAME test.up., test.up. 600 IN AAAA 2001:db8::"),
        "{cut}"
    );
}

#[test]
fn what_may_stand_in_a_file_may() {
    for template in [
        "template ANY ANY {\n rcode NXDOMAIN\n }",
        "template ANY ANY {\n answer \"{{ parseInt }}\"\n additional \"{{ parseInt }}\"\n authority \"{{ parseInt }}\"\n }",
        "template ANY ANY (?P<x>",
        "template ANY ANY {\n\n }",
        "template ANY A example.com {\n match ip-(?P<a>[0-9]*)[.]example[.]com\n answer \"{{ .Name }} A {{ .Grup.d }}.\"\n fallthrough\n }",
        "template ANY AAAA example.com {\n match ip-(?P<a>[0-9]*)[.]example[.]com\n authority \"example.com 60 IN SOA ns.example.com hostmaster.example.com (1 60 60 60 60)\"\n fallthrough\n }",
        "template IN ANY example.com {\n match \"[.](example[.]com[.]dc1[.]example[.]com[.])$\"\n rcode NXDOMAIN\n authority \"{{ index .Match 1 }} 60 IN SOA ns.{{ index .Match 1 }} hostmaster.example.com (1 60 60 60 60)\"\n fallthrough example.com\n }",
        "template IN A example {\n match ^ip-10-(?P<b>[0-9]*)[.]example[.]$\n answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.b }}\"\n }\n template IN MX example. {\n answer \"{{ .Name }} 60 IN MX 10 {{ .Name }}\"\n }",
        "template IN MX example {\n answer \"{{ .Name }} 60 IN MX 10 {{ .Name }}\"\n authority  \"example. 60 IN NS ns0.example.\"\n authority  \"example. 60 IN NS ns1.example.\"\n additional \"ns0.example. 60 IN A 203.0.113.8\"\n additional \"ns1.example. 60 IN AAAA 2001:db8::8\"\n }",
        "template ANY ANY invalid {\n rcode NXDOMAIN\n authority \"invalid. 60 {{ .Class }} SOA ns.invalid. hostmaster.invalid. (1 60 60 60 60)\"\n ederror 21 \"Blocked according to RFC2606\"\n }",
        "template ANY ANY {\n upstream 192.0.2.1\n }",
    ] {
        let built = build(&format!("domain.com.:8053 dynamic.domain.com.:8053 {{\n {template}\n}}"));
        assert!(built.is_ok(), "{template}: {}", built.err().map(|problem| problem.to_string()).unwrap_or_default());
    }
}
