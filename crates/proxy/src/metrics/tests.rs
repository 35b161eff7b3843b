//! What is counted where.

use super::*;
use crate::{
    plan::{Frontend, Pool, Route, Sources},
    track::Protocol,
};
use runtime::metrics::TextFormat;

fn plan(to: To) -> ServicePlan {
    let frontend = Frontend::NodePort { protocol: Protocol::Tcp, port: 30080 };
    ServicePlan {
        routes: vec![Route { frontend, sources: Sources::Everyone, to, serving: Arc::default() }],
        ..ServicePlan::default()
    }
}

#[test]
fn services_without_endpoints_here_are_counted_per_policy_and_family() {
    let metrics = ProxyMetrics::new(&Metrics::new(), "nftables");
    let count = |family: Family, policy: &'static str| {
        metrics.synced(family, Ok(Done::Nothing), Duration::ZERO);
        metrics.no_local.get_or_create(&[("traffic_policy", policy), label(family)[0]]).get()
    };
    let (web, other) = (Name::new("a", "web"), Name::new("a", "other"));
    let endpoint = ["192.0.2.1:80".parse().unwrap()];
    let own = Pool { endpoints: endpoint.into(), affinity: None };
    let others = Pool { endpoints: [].into(), affinity: None };
    for family in Family::BOTH {
        metrics.planned(family, &web, &plan(To::Drop));
        metrics.planned(family, &web, &plan(To::Drop));
        metrics.planned(family, &other, &plan(To::OutsideLocal { own: own.clone(), others: others.clone() }));
    }
    metrics.planned(Family::V6, &web, &plan(To::Reject));
    assert_eq!(Family::BOTH.map(|family| count(family, "internal")), [1, 0]);
    assert_eq!(Family::BOTH.map(|family| count(family, "external")), [1, 1]);
    metrics.planned(Family::V4, &other, &ServicePlan::default());
    assert_eq!(Family::BOTH.map(|family| count(family, "external")), [0, 1]);
    metrics.plan_all(Family::V6);
    assert_eq!(count(Family::V6, "external"), 0, "nobody has been planned again");
}

/// The lines of `/metrics` that have one of these words, in order.
fn lines(metrics: &Metrics, word: &str) -> Vec<String> {
    let text = metrics.render(TextFormat::Classic).body;
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with('#') && line.contains(word)).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_mode_has_the_names_that_kube_proxy_has_in_it() {
    for (mode, failures) in [
        ("nftables", "nftables_sync_failures"),
        ("iptables", "iptables_restore_failures"),
        ("ipvs", "iptables_restore_failures"),
    ] {
        let all = Metrics::new();
        let metrics = ProxyMetrics::new(&all, mode);
        for family in Family::BOTH {
            metrics.synced(family, Err(Done::Full), Duration::ZERO);
            metrics.synced(family, Err(Done::Partial), Duration::ZERO);
            let count = |table| RuleCount { table, held: 30, written: 2 };
            metrics.rules(family, &[count("filter"), count("nat")]);
        }
        let name = |name: &str| format!("kubeproxy_sync_proxy_rules_{name}");
        let labels = ["{ip_family=\"IPv4\"}", "{ip_family=\"IPv6\"}"];
        let failed = labels.map(|label| format!("{}{label} 2", name(&format!("{failures}_total"))));
        let partial = labels.map(|label| format!("{}{label} 1", name("iptables_partial_restore_failures_total")));
        let in_iptables = |lines: Vec<String>| if mode == "iptables" { lines } else { Vec::new() };
        let mut expected = [failed.to_vec(), in_iptables(partial.to_vec())].concat();
        expected.sort();
        assert_eq!(lines(&all, "_failures_total"), expected);
        let tables = ["filter", "nat"];
        let rules = |of: &str, count| {
            let line = |table, family| format!("{}{{table=\"{table}\",ip_family=\"{family}\"}} {count}", name(of));
            tables.into_iter().flat_map(|table| ["IPv4", "IPv6"].map(|family| line(table, family))).collect()
        };
        assert_eq!(lines(&all, "iptables_total{"), in_iptables(rules("iptables_total", 30)));
        assert_eq!(lines(&all, "iptables_last{"), in_iptables(rules("iptables_last", 2)));
    }
}
