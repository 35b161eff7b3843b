//! `cargo xtask conformance`: what Kubernetes' own conformance suite said, as a table.
//!
//! `scripts/conformance` runs the suite; this reads the report it leaves. What cannot be asked is named with its reason in
//! `e2e/conformance/hollow.txt` for nodes that run nothing and in `nodes.txt` for those that run Pods: such a test is not run, is
//! counted apart, and a line there that names no test is an error.

use serde_json::Value;
use std::{collections::BTreeMap, fs};

const SUITES: [&str; 10] = [
    "api-machinery",
    "auth",
    "architecture",
    "instrumentation",
    "cli",
    "network",
    "apps",
    "scheduling",
    "node",
    "storage",
];
/// The first of them: those that ask something of nodes that run nothing.
const HOLLOW_SUITES: usize = 8;

/// The suites that are asked of a kind of nodes.
fn suites(kind: &str) -> Result<&'static [&'static str], String> {
    match kind {
        "hollow" => Ok(&SUITES[..HOLLOW_SUITES]),
        "nodes" => Ok(&SUITES),
        _ => Err(format!("{kind}: nodes are hollow, or nodes that run Pods (nodes)")),
    }
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    match args {
        [what, kind] if what == "focus" => {
            println!(r"\[sig-({})\].*\[Conformance\]", suites(kind)?.join("|"));
            Ok(())
        }
        [what, listed] if what == "skip" => {
            let listed = read(listed)?;
            let names: Vec<String> = exceptions(&listed)?.iter().map(|exception| escaped(exception.name)).collect();
            println!("{}", names.join("|"));
            Ok(())
        }
        [what, kind, report, listed] if what == "report" => {
            let report: Value = serde_json::from_str(&read(report)?).map_err(|error| format!("{report}: {error}"))?;
            let listed = read(listed)?;
            let outcome = Outcome::of(&report, suites(kind)?, &exceptions(&listed)?);
            print!("{outcome}");
            outcome.verdict()
        }
        _ => {
            Err("usage: cargo xtask conformance focus hollow|nodes | skip LIST | report hollow|nodes REPORT.json LIST"
                .into())
        }
    }
}

/// A test, or all whose name begins so, that is not asked of these nodes.
struct Exception<'a> {
    name: &'a str,
    reason: &'a str,
}

/// Lines `# reason` are headings of the names below them.
fn exceptions(text: &str) -> Result<Vec<Exception<'_>>, String> {
    let mut reason = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('#') {
            Some(heading) => reason = heading.trim(),
            None if reason.is_empty() => return Err(format!("{line}: a heading with the reason must stand above it")),
            None => found.push(Exception { name: line, reason }),
        }
    }
    Ok(found)
}

/// A name as a regular expression.
fn escaped(name: &str) -> String {
    let special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
    name.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    left_out: usize,
}

#[derive(Default)]
struct Outcome {
    suites: BTreeMap<String, Count>,
    failures: Vec<(String, String)>,
    reasons: BTreeMap<String, usize>,
    unused: Vec<String>,
    /// Why the suite as a whole did not run.
    broken: Option<String>,
}

impl Outcome {
    fn of(report: &Value, suites: &[&str], exceptions: &[Exception<'_>]) -> Self {
        let mut outcome = Self::default();
        let mut used = vec![false; exceptions.len()];
        for suite in report.as_array().into_iter().flatten() {
            for spec in suite["SpecReports"].as_array().into_iter().flatten() {
                let state = spec["State"].as_str().unwrap_or_default();
                if spec["LeafNodeType"] != "It" {
                    if !matches!(state, "passed" | "skipped") {
                        outcome.broken.get_or_insert_with(|| message(spec));
                    }
                    continue;
                }
                let name = full_name(spec);
                let Some(sig) = sig(&name).filter(|sig| suites.contains(sig) && name.contains("[Conformance]")) else {
                    continue;
                };
                let exception = exceptions.iter().position(|exception| name.contains(exception.name));
                // Without a word why: FOCUS left it out.
                if exception.is_none() && state == "skipped" && message(spec).is_empty() {
                    continue;
                }
                let count = outcome.suites.entry(sig.to_owned()).or_default();
                match (state, exception) {
                    (_, Some(index)) => {
                        used[index] = true;
                        count.left_out += 1;
                        *outcome.reasons.entry(exceptions[index].reason.to_owned()).or_default() += 1;
                    }
                    ("passed", None) => count.passed += 1,
                    (_, None) => {
                        count.failed += 1;
                        outcome.failures.push((name, message(spec)));
                    }
                }
            }
        }
        let left = exceptions.iter().zip(used).filter(|(_, used)| !used);
        outcome.unused = left.map(|(exception, _)| exception.name.to_owned()).collect();
        outcome
    }

    fn verdict(&self) -> Result<(), String> {
        let passed: usize = self.suites.values().map(|count| count.passed).sum();
        if let Some(why) = &self.broken {
            return Err(format!("the suite did not run: {why}"));
        }
        if !self.unused.is_empty() {
            return Err(format!("listed, but no test is called so:\n  {}", self.unused.join("\n  ")));
        }
        match self.failures.len() {
            0 if passed > 0 => Ok(()),
            0 => Err("no test ran".into()),
            count => Err(format!("{count} conformance tests failed")),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "{:<19}{:>6} {:>6} {:>9}", "suite", "passed", "failed", "left out")?;
        for (suite, count) in &self.suites {
            writeln!(out, "sig-{suite:<15}{:>6} {:>6} {:>9}", count.passed, count.failed, count.left_out)?;
        }
        for (reason, count) in &self.reasons {
            writeln!(out, "not run: {count:>3}  {reason}")?;
        }
        for (name, why) in &self.failures {
            writeln!(out, "\nFAILED {name}\n  {why}")?;
        }
        Ok(())
    }
}

fn full_name(spec: &Value) -> String {
    let around = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    around.chain(spec["LeafNodeText"].as_str()).collect::<Vec<_>>().join(" ")
}

fn sig(name: &str) -> Option<&str> {
    name.strip_prefix("[sig-")?.split(']').next()
}

/// The first line of what went wrong.
fn message(spec: &Value) -> String {
    let text = spec["Failure"]["Message"].as_str().unwrap_or_default();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(3)
        .collect::<Vec<_>>()
        .join(" | ")
        .chars()
        .take(400)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(name: &str, state: &str) -> Value {
        json!({"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-cli] Kubectl"], "LeafNodeText": format!("{name} [Conformance]"),
               "State": state, "Failure": {"Message": "it broke\nhere"}})
    }

    fn outcome(specs: &[Value], listed: &str) -> Outcome {
        Outcome::of(&json!([{"SpecReports": specs}]), &SUITES, &exceptions(listed).unwrap())
    }

    #[test]
    fn a_failure_is_named_with_its_reason() {
        let seen = outcome(&[spec("runs", "passed"), spec("walks", "failed")], "");
        assert_eq!(seen.failures, [("[sig-cli] Kubectl walks [Conformance]".to_owned(), "it broke | here".to_owned())]);
        assert_eq!(seen.verdict().unwrap_err(), "1 conformance tests failed");
    }

    #[test]
    fn what_is_left_out_is_counted_apart() {
        let seen = outcome(&[spec("runs", "passed"), spec("logs", "skipped")], "# output of a process\nKubectl logs\n");
        assert!(seen.verdict().is_ok());
        assert_eq!(seen.reasons["output of a process"], 1);
    }

    #[test]
    fn a_test_that_skips_itself_has_failed() {
        assert!(outcome(&[spec("runs", "passed"), spec("logs", "skipped")], "").verdict().is_err());
    }

    #[test]
    fn a_line_for_no_test_is_an_error() {
        let seen = outcome(&[spec("runs", "passed")], "# output\nKubectl sings\n");
        assert!(seen.verdict().unwrap_err().contains("Kubectl sings"));
        assert!(exceptions("Kubectl sings\n").is_err());
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert_eq!(outcome(&[], "").verdict().unwrap_err(), "no test ran");
    }

    #[test]
    fn a_name_is_matched_as_it_stands() {
        assert_eq!(escaped("[sig-cli] a.b (x)"), r"\[sig-cli\] a\.b \(x\)");
    }
}
