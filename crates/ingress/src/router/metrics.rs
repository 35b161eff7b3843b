//! What the router counts, and what HAProxy counts, under upstream's names.

use super::{
    haproxy::{Row, rows},
    model::Id,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};
use runtime::metrics::Metrics;
use std::{collections::HashMap, fmt::Write, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// The router's own.
#[derive(Clone, Debug)]
pub(super) struct RouterMetrics {
    reload: Histogram,
    write: Histogram,
    failure: Gauge,
    reloads: Family<Reason, Counter>,
    changes: Counter,
    spares: Gauge,
}

impl RouterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        Self {
            reload: metrics.register(
                "template_router_reload_seconds",
                "Time to check and start a new HAProxy",
                seconds(),
            ),
            write: metrics.register(
                "template_router_write_config_seconds",
                "Time to write the files of HAProxy",
                seconds(),
            ),
            failure: metrics.register(
                "template_router_reload_failure",
                "Whether the last replacement of HAProxy failed",
                Gauge::default(),
            ),
            reloads: metrics.register(
                "router_reloads",
                "Replacements of HAProxy, by what needed them",
                Family::default(),
            ),
            changes: metrics.register(
                "router_live_changes",
                "Changes brought to the running HAProxy",
                Counter::default(),
            ),
            spares: metrics.register("router_spare_backends", "Spare backends left", Gauge::default()),
        }
    }

    pub(super) fn replaced(&self, reason: &'static str, write: Duration, reload: Duration) {
        self.write.observe(write.as_secs_f64());
        self.reload.observe(reload.as_secs_f64());
        self.reloads.get_or_create(&Reason { reason }).inc();
        self.failure.set(0);
    }

    pub(super) fn failed(&self) {
        self.failure.set(1);
    }

    pub(super) fn changed(&self, spares: usize) {
        self.changes.inc();
        self.spares(spares);
    }

    pub(super) fn spares(&self, spares: usize) {
        self.spares.set(i64::try_from(spares).unwrap_or(i64::MAX));
    }
}

/// Above this many servers only their backends are shown, as upstream does.
const SERVER_THRESHOLD: usize = 500;

/// Column of HAProxy, name of the metric, whether it only grows.
const COLUMNS: [(&str, &str, bool); 9] = [
    ("scur", "current_sessions", false),
    ("stot", "sessions_total", true),
    ("bin", "bytes_in_total", true),
    ("bout", "bytes_out_total", true),
    ("hrsp_2xx", "http_responses_2xx_total", true),
    ("hrsp_4xx", "http_responses_4xx_total", true),
    ("hrsp_5xx", "http_responses_5xx_total", true),
    ("econ", "connection_errors_total", true),
    ("eresp", "response_errors_total", true),
];

/// HAProxy's table in the text format of Prometheus.
pub(super) fn haproxy_text(stat: Option<&str>, claims: &HashMap<String, Id>) -> String {
    let mut text = format!(
        "# HELP haproxy_up Whether HAProxy answers.\n# TYPE haproxy_up gauge\nhaproxy_up {}\n",
        u8::from(stat.is_some())
    );
    let table = rows(stat.unwrap_or_default());
    let sort = |row: &Row| match row.service.as_str() {
        "FRONTEND" => "frontend",
        "BACKEND" => "backend",
        _ => "server",
    };
    let servers = table.iter().filter(|row| sort(row) == "server").count();
    for wanted in ["frontend", "backend", "server"] {
        if wanted == "server" && servers > SERVER_THRESHOLD {
            continue;
        }
        // A spare without a claim has nothing to show.
        let shown =
            |row: &&Row| sort(row) == wanted && (!row.proxy.starts_with("spare_") || claims.contains_key(&row.proxy));
        let rows: Vec<&Row> = table.iter().filter(shown).collect();
        if wanted != "frontend" && !rows.is_empty() {
            let _ = writeln!(text, "# TYPE haproxy_{wanted}_up gauge");
            for row in &rows {
                let up = u8::from(row.status().starts_with("UP") || row.status() == "no check");
                let _ = writeln!(text, "haproxy_{wanted}_up{{{}}} {up}", labels(wanted, row, claims));
            }
        }
        for (column, name, grows) in COLUMNS {
            let with: Vec<(&&Row, u64)> = rows.iter().filter_map(|row| Some((row, row.number(column)?))).collect();
            if with.is_empty() {
                continue;
            }
            let _ = writeln!(text, "# TYPE haproxy_{wanted}_{name} {}", if grows { "counter" } else { "gauge" });
            for (row, number) in with {
                let _ = writeln!(text, "haproxy_{wanted}_{name}{{{}}} {number}", labels(wanted, row, claims));
            }
        }
    }
    text
}

/// Names of HAProxy's parts have no sign that labels would have to escape.
fn labels(sort: &str, row: &Row, claims: &HashMap<String, Id>) -> String {
    if sort == "frontend" {
        return format!("frontend=\"{}\"", row.proxy);
    }
    let (namespace, route) = claims.get(&row.proxy).map_or(("", ""), |id| (&id.key.namespace, &id.key.name));
    let server = if sort == "server" { format!(",server=\"{}\"", row.service) } else { String::new() };
    format!("backend=\"{}\",namespace=\"{namespace}\",route=\"{route}\"{server}", row.proxy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::controller::Key;

    #[test]
    fn rows_become_series_with_the_routes_names() {
        let stat = "# pxname,svname,scur,stot,status\npublic,FRONTEND,1,5,OPEN\nbe_http:a:b,BACKEND,0,4,UP\nspare_http:0,BACKEND,0,0,UP\n";
        let claims = HashMap::from([("be_http:a:b".to_owned(), Id::route(Key::new("a", "b")))]);
        let text = haproxy_text(Some(stat), &claims);
        assert!(text.contains("haproxy_up 1\n"));
        assert!(text.contains("haproxy_frontend_sessions_total{frontend=\"public\"} 5\n"), "{text}");
        assert!(
            text.contains("haproxy_backend_sessions_total{backend=\"be_http:a:b\",namespace=\"a\",route=\"b\"} 4\n")
        );
        assert!(!text.contains("spare_http"));
        assert!(haproxy_text(None, &claims).contains("haproxy_up 0\n"));
    }
}
