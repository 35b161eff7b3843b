//! Templates and what they render, as Go's own package does.

use super::*;
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

struct Data;

impl Fields for Data {
    fn field(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let text = |text: &str| Value::Text(text.to_owned());
        Some(Ok(match name {
            "Name" => text("a.test."),
            "Match" => Value::List(vec![text("whole"), text("one")]),
            "Group" => Value::Map(BTreeMap::from([("d".to_owned(), text("dee"))])),
            "Self" => Value::Struct(Arc::new(Self)),
            "Meta" => arguments.first().cloned().unwrap_or(Value::Nil),
            "N" => Value::Int(7),
            _ => return None,
        }))
    }
}

fn render(text: &str) -> Result<String, String> {
    Template::compile(text).map_err(|error| format!("compile: {error}"))?.render(&Value::Struct(Arc::new(Data)))
}

#[test]
fn templates_render_as_in_go() {
    for (text, expected) in [
        ("plain", "plain"),
        ("{{ .Name }} x", "a.test. x"),
        ("{{.Name}}{{.Self.Self.Name}}", "a.test.a.test."),
        ("{{ index .Match 1 }}", "one"),
        ("{{ .Group.d }} {{ .Group.none }}", "dee <no value>"),
        (r#"{{ index .Group "d" }}{{ index .Group "none" }}"#, "dee"),
        (r#"{{ .Meta "x" }}"#, "x"),
        ("{{ .N }} {{ len .Match }} {{ len .Name }}", "7 2 7"),
        (r#"{{ parseInt "0a" 16 8 }}.{{ parseInt "12" 10 8 }}"#, "10.12"),
        (r#"{{ if eq .Name "a.test." }}yes{{ else }}no{{ end }}"#, "yes"),
        (r#"{{ if eq .N 1 2 7 }}a{{ end }}{{ if ne .N 7 }}b{{ else if gt .N 6 }}c{{ end }}"#, "ac"),
        ("{{ if and .N (not .Group.none) }}x{{ end }}{{ or .Group.none .Name }}", "xa.test."),
        ("{{ range .Match }}[{{ . }}]{{ end }}", "[whole][one]"),
        ("{{ range $i, $m := .Match }}{{ $i }}={{ $m }};{{ end }}", "0=whole;1=one;"),
        ("{{ range $m := .Match }}{{ if eq $m \"one\" }}{{ break }}{{ end }}{{ $m }}{{ end }}", "whole"),
        ("{{ range .Group.none }}x{{ else }}none{{ end }}", "none"),
        ("{{ with .Group.d }}{{ . }}{{ $.Name }}{{ end }}{{ with .Group.none }}x{{ else }}y{{ end }}", "deea.test.y"),
        ("{{ $x := .N }}{{ $x }}{{ if true }}{{ $x = 8 }}{{ end }}{{ $x }}", "78"),
        ("a {{- .N -}} b", "a7b"),
        ("{{/* note */}}x{{- /* trim */ -}} y", "xy"),
        (
            r#"{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .N }}{{ block "b" .Name }}{{ . }}{{ end }}"#,
            "<7>a.test.",
        ),
        (r#"{{ printf "%02x-%d-%s-%q-%v-%5d|%-3d|%%" 10 7 "s" "q" true 42 1 }}"#, r#"0a-7-s-"q"-true-   42|1  |%"#),
        (r#"{{ .N | printf "%03d" }}"#, "007"),
        (r#"{{ print 1 2 "a" 3 }}{{ println "x" 1 }}"#, "1 2a3x 1\n"),
        (r#"{{ slice .Name 2 6 }}{{ "q\"\x41" }}{{ `raw\` }}{{ 'a' }}"#, "testq\"Araw\\97"),
        (r#"{{ html "<a>" }}{{ urlquery "a b/c" }}{{ js "'" }}"#, "&lt;a&gt;a+b%2Fc\\'"),
        (r#"{{ (index .Match 0) | len }}{{ (.Self).Name }}"#, "5a.test."),
        ("{{ 0x10 }}{{ -3 }}{{ 1_000 }}", "16-31000"),
        (r#"{{ printf "%d" }}{{ printf "x" 1 }}"#, "%!d(MISSING)x%!(EXTRA 1)"),
    ] {
        assert_eq!(render(text), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn mistakes_are_told_when_compiling_or_running() {
    for (text, expected) in [
        ("{{", "compile: unclosed action"),
        ("{{ .Name", "compile: unclosed action"),
        ("{{ }}", "compile: missing value for command"),
        ("{{ nope .Name }}", "compile: function \"nope\" not defined"),
        ("{{ if .N }}", "compile: unexpected end of text in {{if}}"),
        ("{{ end }}", "compile: unexpected {{end}}"),
        ("{{ $x }}", "compile: undefined variable \"$x\""),
        ("{{ (.N }}", "compile: unclosed left paren"),
        ("{{ \"a }}", "compile: unterminated quoted string"),
        ("{{ .N | 3 }}", "compile: non executable command in pipeline"),
        ("{{ break }}", "compile: {{break}} outside {{range}}"),
        ("{{ .Nope }}", "can't evaluate field Nope"),
        ("{{ .Name.x }}", "can't evaluate field x in a.test."),
        ("{{ index .Match 2 }}", "index out of range: 2"),
        ("{{ parseInt }}", "wrong number or type of arguments for parseInt: got 0"),
        ("{{ parseInt \"gg\" 16 8 }}", "parsing \"gg\": invalid syntax"),
        ("{{ parseInt \"100\" 16 8 }}", "parsing \"100\": value out of range"),
        ("{{ eq 1 \"a\" }}", "incompatible types for comparison"),
        ("{{ template \"none\" }}", "template \"none\" not defined"),
        ("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}", "exceeded maximum template depth"),
    ] {
        assert_eq!(render(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn templates_that_go_on_and_on_are_ended() {
    let doubling = format!("{{{{ $x := \"0123456789\" }}}}{}", "{{ $x = print $x $x }}".repeat(60));
    let calls: String = (0..60)
        .map(|n| {
            format!("{{{{ define \"t{n}\" }}}}{}{{{{ end }}}}", format!("{{{{ template \"t{}\" }}}}", n + 1).repeat(2))
        })
        .collect();
    for (text, expected) in [
        ("{{ range 60000 }}{{ range 60000 }}{{ end }}{{ end }}".to_owned(), "does not end within 100000 steps"),
        (
            format!("{calls}{{{{ define \"t60\" }}}}{{{{ end }}}}{{{{ template \"t0\" }}}}"),
            "does not end within 100000 steps",
        ),
        (doubling, "a text grew beyond 65536 bytes"),
        ("{{ range 60000 }}0123456789{{ end }}".to_owned(), "the text grew beyond 65536 bytes"),
    ] {
        assert_eq!(render(&text), Err(expected.to_owned()), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(text in r#"(\{\{|\}\}| |if|end|range|\.Name|\$x|:=|"|`|\(|\)|\||[0-9]|index|-|else|'|printf|%[0-9]*[a-z]|\.){0,30}"#) {
        let _ = render(&text);
    }

    #[test]
    fn any_letters_compile_or_are_refused(text in ".{0,60}") {
        let _ = render(&text);
    }
}
