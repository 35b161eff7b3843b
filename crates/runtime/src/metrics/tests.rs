//! The rendered text, read back by a strict reader of each form.

use super::*;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Unit,
};
use std::collections::{BTreeMap, BTreeSet};

/// A reader of the classic format, version 0.0.4, as strict as its description: known types only, HELP and TYPE before
/// the family's samples and once, every sample belongs to the family announced last, labels well quoted, values
/// numbers.
fn read_classic(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let mut samples = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut family = (String::new(), String::new());
    if !text.ends_with('\n') {
        return Err("last line has no end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, sort)) = rest.split_once(' ') else { return wrong("no type") };
            if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&sort) {
                return wrong("unknown type");
            }
            if !seen.insert(name.to_owned()) {
                return wrong("second TYPE");
            }
            family = (name.to_owned(), sort.to_owned());
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        if line.starts_with('#') {
            return wrong("neither HELP nor TYPE");
        }
        let end = line.find(['{', ' ']).ok_or_else(|| format!("no value: {line}"))?;
        let name = &line[..end];
        let belongs = match family.1.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"].iter().any(|part| name.strip_suffix(part) == Some(&family.0)),
            _ => name == family.0,
        };
        if !belongs {
            return wrong("sample outside its family");
        }
        let rest = if line.as_bytes()[end] == b'{' {
            after_labels(&line[end + 1..]).ok_or_else(|| format!("bad labels: {line}"))?
        } else {
            &line[end..]
        };
        let value = rest.strip_prefix(' ').ok_or_else(|| format!("no blank: {line}"))?;
        let value = value.parse::<f64>().map_err(|_| format!("not a number: {line}"))?;
        samples.insert(line[..line.len() - rest.len()].to_owned(), value);
    }
    Ok(samples)
}

/// What follows `name="value",...}`.
fn after_labels(mut text: &str) -> Option<&str> {
    while !text.starts_with('}') {
        let (name, rest) = text.split_once("=\"")?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        })?;
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    Some(&text[1..])
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    path: String,
}

fn example() -> Metrics {
    let metrics = Metrics::new();
    let requests = metrics.register("requests", "Requests \\ by\npath", Family::<Labels, Counter>::default());
    requests.get_or_create(&Labels { path: "/a\"b\\c\nd # {e".to_owned() }).inc_by(3);
    metrics.register("temperature", "Degrees", Gauge::<i64>::default()).set(-4);
    metrics.register("wait", "Waiting", Histogram::new([0.1, 1.0])).observe(0.5);
    let timed = Gauge::<i64>::default();
    metrics.registry.write().register_with_unit("uptime", "Up", Unit::Seconds, timed);
    metrics
}

#[test]
fn ordinary_scrapers_get_classic_text_that_a_strict_reader_accepts() {
    let Exposition { content_type, body } = example().render(TextFormat::accepted(Some("*/*")));
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    let samples = read_classic(&body).unwrap();
    assert_eq!(samples[r#"requests_total{path="/a\"b\\c\nd # {e"}"#], 3.0);
    assert_eq!(samples["temperature"], -4.0);
    assert_eq!(samples[r#"wait_bucket{le="+Inf"}"#], 1.0);
    assert_eq!(samples["uptime_seconds"], 0.0);
    assert!(body.contains("# HELP requests_total Requests \\\\ by\\npath.\n# TYPE requests_total counter\n"), "{body}");
    assert!(!body.contains("# EOF") && !body.contains("# UNIT"));
}

#[test]
fn openmetrics_is_given_as_it_is() {
    let Exposition { content_type, body } =
        example().render(TextFormat::accepted(Some("application/openmetrics-text")));
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(body.ends_with("# EOF\n") && body.contains("# UNIT uptime_seconds seconds\n"));
    assert!(read_classic(&body).is_err(), "the strict reader must tell the two forms apart");
}

#[test]
fn the_process_and_the_build_describe_themselves() {
    let samples = read_classic(&Metrics::new().render(TextFormat::Classic).body).unwrap();
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds", "process_max_fds"] {
        assert!(samples[name] > 0.0, "{name}");
    }
    assert!(samples["process_cpu_seconds_total"] >= 0.0);
    assert!(samples.keys().any(|key| key.starts_with("twinstack_build_info{version=")));
}
