//! What kube-apiserver said of the rules of random definitions: the same verdict, the same fields, the same costs.
//!
//! `testdata/cel/` has a schema a line, the status code, and for a refusal every field with its reason and the
//! factor by which the estimated cost exceeds the budget (testdata/README.md). `CEL_ROWS` names another file of such lines.

use api::path::Path;
use flate2::read::GzDecoder;
use schema::{cel, structural::Structural};
use serde_json::{Value, json};
use std::{collections::BTreeSet, io::Read};

fn rows(recorded: &str) -> Vec<Value> {
    let recorded = || format!("{}/../../testdata/cel/{recorded}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let path = std::env::var("CEL_ROWS").unwrap_or_else(|_| recorded());
    let packed = std::fs::read(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).expect("gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The causes of a refusal as the recording writes them.
fn causes(schema: &Value) -> BTreeSet<String> {
    let errors = match Structural::parse(schema, &Path::root(), false) {
        Ok(schema) => cel::compile(&schema, &Path::root()).err().unwrap_or_default(),
        Err(errors) => errors,
    };
    let cause = |error: &api::error::FieldError| {
        let field = if error.field.is_empty() { String::new() } else { format!(".{}", error.field) };
        json!([field, error.reason.cause(), factor(&error.detail)]).to_string()
    };
    errors.iter().map(cause).collect()
}

/// The `2.5` of `exceeds budget by factor of 2.5x`, with three digits; `> 100` where no more is said.
fn factor(detail: &str) -> Option<String> {
    let (_, after) = detail.split_once("exceeds budget by factor of ")?;
    let (number, _) = after.split_once('x')?;
    if number == "more than 100" {
        return Some("> 100".to_owned());
    }
    let number: f64 = number.parse().ok()?;
    let digits = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    Some(text.to_owned())
}

#[test]
fn one_rule_for_each_type_is_judged_as_kube_apiserver_judges_it() {
    replay("rows");
}

#[test]
fn nested_expressions_are_judged_as_kube_apiserver_judges_them() {
    replay("expressions");
}

fn replay(recorded: &str) {
    let rows = rows(recorded);
    let (mut verdicts, mut factors) = (0, 0);
    for row in &rows {
        let recorded: BTreeSet<String> =
            row["causes"].as_array().expect("causes").iter().map(Value::to_string).collect();
        let here = causes(&row["schema"]);
        if here == recorded {
            continue;
        }
        if here.is_empty() == recorded.is_empty() {
            factors += 1
        } else {
            verdicts += 1
        }
        if verdicts + factors <= 12 {
            eprintln!("{}\n  recorded {recorded:?}\n  here     {here:?}", row["schema"]);
        }
    }
    assert_eq!((verdicts, factors), (0, 0), "other verdicts, and other fields or factors, of {} rows", rows.len());
}
