//! When the monitoring raises an alarm about the servers: names that administrators of OpenShift know, and two that tell what
//! a reload and the upstreams are like.

use super::object;
use crate::operator::NAMESPACE;
use serde_json::{Value, json};

struct Alert {
    name: &'static str,
    severity: &'static str,
    /// How long it must hold.
    lasts: &'static str,
    /// `SERVERS` stands for the labels by which the servers of this operator are known.
    expression: &'static str,
    summary: &'static str,
    description: &'static str,
}

const ALERTS: &[Alert] = &[
    Alert {
        name: "CoreDNSPanicking",
        severity: "warning",
        lasts: "5m",
        expression: "sum by (pod) (increase(coredns_panics_total{SERVERS}[10m])) > 0",
        summary: "A DNS server met a fault of its own.",
        description: "{{ $labels.pod }} turned {{ $value }} faults into SERVFAIL within ten minutes; its log says where.",
    },
    Alert {
        name: "CoreDNSErrorsHigh",
        severity: "warning",
        lasts: "5m",
        expression: "sum(rate(coredns_dns_responses_total{SERVERS,rcode=\"SERVFAIL\"}[5m])) \
                     / sum(rate(coredns_dns_responses_total{SERVERS}[5m])) > 0.01",
        summary: "Many DNS questions fail.",
        description: "{{ $value | humanizePercentage }} of all answers are SERVFAIL.",
    },
    Alert {
        name: "CoreDNSHealthCheckSlow",
        severity: "warning",
        lasts: "5m",
        expression: "histogram_quantile(0.95, sum by (instance, le) \
                     (rate(coredns_health_request_duration_seconds_bucket{SERVERS}[5m]))) > 2",
        summary: "A DNS server is slow to tell how it is.",
        description: "{{ $labels.instance }} needs {{ $value | humanizeDuration }} for its own health check.",
    },
    Alert {
        name: "CoreDNSReloadFailed",
        severity: "warning",
        lasts: "15m",
        expression: "sum by (pod) (increase(coredns_reload_failed_total{SERVERS}[30m])) > 0",
        summary: "A DNS server refuses its configuration.",
        description: "{{ $labels.pod }} goes on with the configuration from before; its log says what is wrong with the new one.",
    },
    Alert {
        name: "CoreDNSUpstreamsDown",
        severity: "warning",
        lasts: "5m",
        expression: "sum by (pod) (rate(coredns_forward_healthcheck_broken_total{SERVERS}[5m])) > 0",
        summary: "None of the upstream resolvers of a DNS server answers.",
        description: "{{ $labels.pod }} finds no healthy upstream; names outside of the cluster fail.",
    },
];

/// The job of the ServiceMonitor is called like its Service.
const SERVERS: &str = "job=\"dns-default-metrics\"";

pub(super) fn rule() -> Value {
    let rules: Vec<Value> = ALERTS.iter().map(alert).collect();
    let spec = json!({"groups": [{"name": "dns-default.rules", "rules": rules}]});
    object("monitoring.coreos.com/v1", "PrometheusRule", "dns-default", json!({"spec": spec}))
}

fn alert(alert: &Alert) -> Value {
    let Alert { name, severity, lasts, expression, summary, description } = alert;
    json!({
        "alert": name,
        "expr": expression.replace("SERVERS", &format!("namespace=\"{NAMESPACE}\",{SERVERS}")),
        "for": lasts,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counters;

    #[test]
    fn alerts_are_about_metrics_that_the_servers_have() {
        let counters = Counters::default();
        let metrics = runtime::metrics::Metrics::new();
        counters.register(&metrics);
        counters.responses.get_or_create(&vec![("rcode", "SERVFAIL".to_owned())]).inc();
        let served = metrics.render(runtime::metrics::TextFormat::Classic).body;
        let rule = rule();
        let mut names = Vec::new();
        for alert in rule["spec"]["groups"][0]["rules"].as_array().unwrap() {
            names.push(alert["alert"].as_str().unwrap());
            let expression = alert["expr"].as_str().unwrap();
            assert!(!expression.contains("SERVERS"), "{expression}");
            for metric in expression.split("coredns_").skip(1) {
                let (metric, rest) = metric.split_once('{').unwrap();
                let chosen = "namespace=\"openshift-dns\",job=\"dns-default-metrics\"";
                assert!(rest.starts_with(chosen), "{expression}");
                assert!(served.contains(&format!("\ncoredns_{metric}")), "coredns_{metric} is not served\n{served}");
            }
        }
        let expected = [
            "CoreDNSPanicking",
            "CoreDNSErrorsHigh",
            "CoreDNSHealthCheckSlow",
            "CoreDNSReloadFailed",
            "CoreDNSUpstreamsDown",
        ];
        assert_eq!(names, expected);
    }
}
