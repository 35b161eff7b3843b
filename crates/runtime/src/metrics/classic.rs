//! From OpenMetrics text to the classic Prometheus text, version 0.0.4. Called by `Metrics::render` for ordinary
//! scrapers.
//!
//! The differences: in the classic form a family is named like its samples (`x_total`, `x_info`), the types `info` and
//! `unknown` do not exist, and there are no units, no exemplars and no end mark.

/// `openmetrics` must come from `prometheus_client`: HELP before TYPE, one of each per family, no timestamps.
pub(super) fn from_openmetrics(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // HELP comes first, but only TYPE tells what the family is called.
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (family, sort) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, sort) = match sort {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            text.push_str(&format!("# HELP {family}{suffix} {help}\n# TYPE {family}{suffix} {sort}\n"));
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.push_str(without_exemplar(line));
            text.push('\n');
        }
    }
    text
}

/// The sample without ` # {...}`. A label's value may hold those very characters, so quotes are followed.
fn without_exemplar(sample: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (position, byte) in sample.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'#' if !quoted => return sample[..position].trim_end(),
            _ => {}
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_bridged() {
        let openmetrics = r##"# HELP requests Requests.
# TYPE requests counter
# UNIT requests seconds
requests_total{path="/a # {b\"} # c"} 3 # {trace="x"} 1 17.5
# HELP build The build.
# TYPE build info
build_info{version="1"} 1
# HELP odd Odd.
# TYPE odd unknown
odd 2
# HELP wait Wait.
# TYPE wait histogram
wait_sum 0.5
wait_count 1
wait_bucket{le="+Inf"} 1 # {trace="x"} 0.5
# EOF
"##;
        let classic = r##"# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{path="/a # {b\"} # c"} 3
# HELP build_info The build.
# TYPE build_info gauge
build_info{version="1"} 1
# HELP odd Odd.
# TYPE odd untyped
odd 2
# HELP wait Wait.
# TYPE wait histogram
wait_sum 0.5
wait_count 1
wait_bucket{le="+Inf"} 1
"##;
        assert_eq!(from_openmetrics(openmetrics), classic);
    }
}
