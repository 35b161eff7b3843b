//! `var` and `expr`: the rows of CoreDNS's own tables, and both families.

use super::rows::before_hosts;
use crate::testing::{build, refused};

/// Falls through to `hosts`.
const NEXT: &str = "NOERROR aa | a.example. 3600 IN A 192.0.2.99";
const ONE: &str = "NOERROR aa | a.example. 60 IN A 10.0.0.1";

/// Asks one block of templates; `answer` is what a template in short answers.
fn holds(rows: &[(&str, &str, &str, &str)]) {
    for (row, template, question, expected) in rows {
        let template = template.replace("answer one", "answer \"{{ .Name }} 60 IN A 10.0.0.1\"");
        let (name, rtype) = question.split_once(' ').unwrap();
        let got = before_hosts(&template).ask_from("10.240.0.1:4000", name, rtype);
        assert_eq!(got, *expected, "{row}");
    }
}

#[test]
fn variables_are_computed_and_filled_in() {
    holds(&[
        (
            "Constant",
            "template IN A example. {\n var ttl 60\n answer \"{{ .Name }} {{ .Var.ttl }} IN A 10.0.0.1\"\n }",
            "a.example. A",
            ONE,
        ),
        (
            "Chained",
            "template IN A example. {\n var a 1\n var b a + 1\n var c b * 10\n answer \"{{ .Name }} 60 IN A 10.{{ .Var.a }}.{{ .Var.b }}.{{ .Var.c }}\"\n }",
            "a.example. A",
            "NOERROR aa | a.example. 60 IN A 10.1.2.20",
        ),
        (
            "GroupByNameAndIndex",
            "template IN A example. {\n match ^(?P<a>[0-9]+)-(?P<b>[0-9]+)[.]example[.]$\n var a group('a')\n var b group(2)\n var whole group(0)\n answer \"{{ .Var.whole }} 60 IN A 10.0.{{ .Var.a }}.{{ .Var.b }}\"\n }",
            "12-34.example. A",
            "NOERROR aa | 12-34.example. 60 IN A 10.0.12.34",
        ),
        (
            "GroupMissing",
            "template IN TXT example. {\n match ^(?P<a>[a-z]+)[.]example[.]$\n var missing group('nosuchgroup') + group(9)\n answer \"{{ .Name }} 60 IN TXT \\\"empty={{ eq .Var.missing \\\"\\\" }}\\\"\"\n }",
            "a.example. TXT",
            "NOERROR aa | a.example. 60 IN TXT \"empty=true\"",
        ),
        (
            "QueryFunctions",
            "template IN A example. {\n var n name()\n var t type()\n var ip client_ip()\n answer \"{{ .Var.n }} 60 IN A {{ .Var.ip }}\"\n additional \"{{ .Var.n }} 60 IN TXT \\\"{{ .Var.t }}\\\"\"\n }",
            "a.example. A",
            "NOERROR aa | a.example. 60 IN A 10.240.0.1 | | a.example. 60 IN TXT \"A\"",
        ),
        (
            "Metadata, of which there is none",
            "template IN A example. {\n var region metadata('test/region')\n answer \"{{ .Var.region }}{{ .Name }} 60 IN A 10.0.0.1\"\n }",
            "a.example. A",
            ONE,
        ),
        (
            "BoolInTemplateCondition",
            "template IN A example. {\n var local incidr(client_ip(), '10.0.0.0/8')\n answer \"{{ .Name }} 60 IN A {{ if .Var.local }}10.0.0.1{{ else }}192.0.2.1{{ end }}\"\n }",
            "a.example. A",
            ONE,
        ),
        (
            "UsedInAllSections",
            "template IN A example. {\n var target 'ns0.example.'\n answer one\n additional \"{{ .Var.target }} 60 IN A 10.0.0.2\"\n authority \"example. 60 IN NS {{ .Var.target }}\"\n }",
            "a.example. A",
            "NOERROR aa | a.example. 60 IN A 10.0.0.1 | example. 60 IN NS ns0.example. | ns0.example. 60 IN A 10.0.0.2",
        ),
        (
            "NoVars",
            "template IN TXT example. {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ len .Var }}\\\"\"\n }",
            "a.example. TXT",
            "NOERROR aa | a.example. 60 IN TXT \"0\"",
        ),
        (
            "PerTemplateScope",
            "template IN A example. {\n match ^b[.]example[.]$\n var v '1'\n fallthrough\n }\n template IN A example. {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ len .Var }}\\\"\"\n }",
            "a.example. A",
            "NOERROR aa | a.example. 60 IN TXT \"0\"",
        ),
        (
            "RuntimeError",
            "template IN A example. {\n var bad incidr('notanip', '10.0.0.0/8')\n answer one\n }",
            "a.example. A",
            "SERVFAIL",
        ),
        (
            "RuntimeErrorWithFallthrough",
            "template IN A example. {\n var bad incidr('notanip', '10.0.0.0/8')\n answer one\n fallthrough\n }",
            "a.example. A",
            "SERVFAIL",
        ),
        (
            "NoMatchNoEvaluation",
            "template IN A example. {\n match ^b[.]example[.]$\n var bad incidr('notanip', '10.0.0.0/8')\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
        (
            "TestVarMatch",
            "template IN TXT example. {\n match ^(?P<n>[0-9]+)[.]example[.]$\n var num int(group('n'))\n var double num * 2\n var label 'x' + group('n')\n var flag num > 1\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Var.num }} {{ .Var.double }} {{ .Var.label }} {{ .Var.flag }}\\\"\"\n }",
            "2.example. TXT",
            "NOERROR aa | 2.example. 60 IN TXT \"2 4 x2 true\"",
        ),
        (
            "a fraction",
            "template IN TXT example. {\n var half 3 / 2\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Var.half }} {{ printf \\\"%.2f\\\" .Var.half }}\\\"\"\n }",
            "a.example. TXT",
            "NOERROR aa | a.example. 60 IN TXT \"1.5 1.50\"",
        ),
    ]);
}

#[test]
fn conditions_decide_with_the_pattern() {
    holds(&[
        ("True", "template IN A example. {\n expr name() == 'a.example.'\n answer one\n }", "a.example. A", ONE),
        (
            "FalseServfail",
            "template IN A example. {\n expr name() == 'b.example.'\n answer one\n }",
            "a.example. A",
            "SERVFAIL",
        ),
        (
            "FalseFallthrough",
            "template IN A example. {\n expr name() == 'b.example.'\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
        (
            "FalseFallthroughZoneMismatch",
            "template IN A example. {\n expr name() == 'b.example.'\n answer one\n fallthrough other.example.\n }",
            "a.example. A",
            "SERVFAIL",
        ),
        (
            "FalseFallsToNextTemplate",
            "template IN A example. {\n expr name() == 'b.example.'\n fallthrough\n }\n template IN A example. {\n answer one\n }",
            "a.example. A",
            ONE,
        ),
        (
            "AllTrue",
            "template IN A example. {\n expr name() == 'a.example.'\n expr type() == 'A'\n expr incidr(client_ip(), '10.0.0.0/8')\n answer one\n }",
            "a.example. A",
            ONE,
        ),
        (
            "LastFalse",
            "template IN A example. {\n expr name() == 'a.example.'\n expr type() == 'A'\n expr incidr(client_ip(), '192.0.2.0/24')\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
        (
            "UsesVars",
            "template IN A example. {\n match ^(?P<n>[0-9]+)[.]example[.]$\n var num int(group('n'))\n expr num > 1\n answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Var.num }}\"\n fallthrough\n }",
            "2.example. A",
            "NOERROR aa | 2.example. 60 IN A 10.0.0.2",
        ),
        (
            "UsesVarsFalse",
            "template IN A example. {\n match ^(?P<n>[0-9]+)[.]example[.]$\n var num int(group('n'))\n expr num > 1\n answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Var.num }}\"\n fallthrough\n }",
            "1.example. A",
            "NOERROR aa | 1.example. 3600 IN A 192.0.2.99",
        ),
        (
            "UsesGroup",
            "template IN A example. {\n match ^(?P<n>[0-9]+)[.]example[.]$\n expr group('n') == '2' && group(0) == '2.example.'\n answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.n }}\"\n fallthrough\n }",
            "2.example. A",
            "NOERROR aa | 2.example. 60 IN A 10.0.0.2",
        ),
        (
            "MetadataMismatch",
            "template IN A example. {\n expr metadata('test/region') == 'eu'\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
        ("NonBool", "template IN A example. {\n expr 1\n answer one\n fallthrough\n }", "a.example. A", NEXT),
        (
            "RuntimeError",
            "template IN A example. {\n expr incidr('notanip', '10.0.0.0/8')\n answer one\n fallthrough\n }",
            "a.example. A",
            "SERVFAIL",
        ),
        (
            "NoMatchNoEvaluation",
            "template IN A example. {\n match ^b[.]example[.]$\n expr incidr('notanip', '10.0.0.0/8')\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
        (
            "FirstFalse",
            "template IN A example. {\n expr false\n expr true\n answer one\n fallthrough\n }",
            "a.example. A",
            NEXT,
        ),
    ]);
}

/// A filter that spares the cluster, as newer releases of CoreDNS can say it.
#[test]
fn a_filter_can_except_the_cluster_with_a_condition() {
    let filter = "template IN AAAA . {\n expr not (name() endsWith '.example.')\n fallthrough\n }";
    let asked = before_hosts(filter);
    assert_eq!(asked.ask("a.example.", "AAAA"), "NOERROR aa | a.example. 3600 IN AAAA 2001:db8::99");
    assert_eq!(asked.ask("some.test.", "AAAA"), "NOERROR aa");
    let six = before_hosts(
        "template IN AAAA . {\n expr incidr(client_ip(), 'fd00::/8')\n answer \"{{ .Name }} 60 IN AAAA fd00::1\"\n fallthrough\n }",
    );
    assert_eq!(six.ask_from("[fd00::7]:4000", "a.example.", "AAAA"), "NOERROR aa | a.example. 60 IN AAAA fd00::1");
    assert_eq!(
        six.ask_from("192.0.2.7:4000", "a.example.", "AAAA"),
        "NOERROR aa | a.example. 3600 IN AAAA 2001:db8::99"
    );
}

#[test]
fn lines_that_are_right_are_taken() {
    for lines in [
        "var a 1",
        "var a 1\n var b a + 1\n var c 'x' + name()",
        "match ^(?P<a>[a-z]+)[.]example[.]$\n var a group(\"a\") + group(1) + group(0)",
        "expr name() == 'a.example.'",
        "expr name() == 'a.example.'\n expr incidr(client_ip(), '10.0.0.0/8')",
        "var a 1\n expr a == 1",
        "match ^(?P<a>[a-z]+)[.]example[.]$\n expr group('a') != ''",
        "expr 1",
        "expr \"type() == 'AAAA'\"",
    ] {
        let built = build(&format!(". {{\n template ANY ANY example. {{\n {lines}\n }}\n}}"));
        assert!(built.is_ok(), "{lines}: {}", built.err().map(|problem| problem.to_string()).unwrap_or_default());
    }
}

#[test]
fn lines_that_are_wrong_are_named() {
    for (lines, expected) in [
        ("var", "\"var\": plugin template: needs a name and an expression"),
        ("var a", "\"var\": plugin template: needs an expression"),
        ("var 1a 1", "\"1a\": plugin template: is no name; accepted: letters, digits and underscores"),
        ("var a-b 1", "\"a-b\": plugin template: is no name"),
        ("var name 1", "\"name\": plugin template: is reserved"),
        ("var group 1", "\"group\": plugin template: is reserved"),
        ("var len 1", "\"len\": plugin template: is reserved"),
        ("var true 1", "\"true\": plugin template: is reserved"),
        ("var let 1", "\"let\": plugin template: is reserved"),
        ("var filter 1", "\"filter\": plugin template: is reserved"),
        ("var a 1 +", "column 4 of the expression: a value is missing"),
        ("var a invalid expression", "column 1 of the expression: invalid is no variable"),
        ("var a b + 1\n var b 1", "column 1 of the expression: b is no variable; known: none was declared before"),
        ("var a undefined", "column 1 of the expression: undefined is no variable"),
        ("var a 1\n var a 2", "Corefile:4:6: \"a\": plugin template: is declared already"),
        ("var a 1\n var b a + 1\n var c 'x' + b", "column 5 of the expression: + is not for string and int"),
        ("expr", "\"expr\": plugin template: needs an expression"),
        ("expr name() ==", "column 10 of the expression: a value is missing"),
        ("expr invalid expression", "column 1 of the expression: invalid is no variable"),
        ("expr undefined == 1", "column 1 of the expression: undefined is no variable"),
        ("var a 1\n expr a + 'x'", "column 3 of the expression: + is not for int and string"),
    ] {
        let problem = refused(&format!(". {{\n template ANY ANY example. {{\n {lines}\n }}\n}}"));
        assert!(problem.contains(expected), "{lines}: {problem}");
    }
}
