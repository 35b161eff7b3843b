//! What the Infrastructure and the FeatureGate say, from the moment that they say it.

use super::{
    cluster::{Cluster, NAMED},
    texts::{DEFAULTS, with_gate},
};
use e2e::account;
use serde_json::json;

#[test]
fn the_gate_of_the_right_version_counts() {
    let Some(cluster) = Cluster::start() else { return };
    let managed = with_gate(DEFAULTS);
    cluster.gates(&["4.21"], &["4.20"]);
    for (release, expected) in
        [("4.20", DEFAULTS), ("4.21", &managed), ("4.22", DEFAULTS), ("4.21", &managed), ("", DEFAULTS)]
    {
        let flag = format!("--release-version={release}");
        let flags = [flag.as_str()];
        let sync = cluster.sync_alone(if release.is_empty() { &[] } else { &flags });
        cluster.until_text(&sync, expected);
    }
    // Without a restart and without a change of the source.
    let sync = cluster.sync_alone(&[]);
    cluster.until_text(&sync, DEFAULTS);
    cluster.gates(&["4.20", "4.21"], &[]);
    cluster.until_text(&sync, &managed);
    cluster.gates(&["4.20"], &["4.21"]);
    cluster.until_text(&sync, DEFAULTS);
}

#[test]
fn kinds_that_come_later_are_noticed_and_may_go_again() {
    for cluster in Cluster::all_without_kinds() {
        cluster.put(NAMED, "mine", &json!({"config": "[Global]\nVPC = vpc-1\n"}));
        let named = |text: &str| {
            text.replacen("[Global]\n", "[Global]\nVPC                                             = vpc-1\n", 1)
        };
        let sync = cluster.sync_alone(&[]);
        cluster.until_text(&sync, DEFAULTS);
        cluster.define();
        cluster.gates(&["4.21"], &[]);
        cluster.until_text(&sync, &with_gate(DEFAULTS));
        cluster.infrastructure("AWS", "mine", "config");
        cluster.until_text(&sync, &named(&with_gate(DEFAULTS)));
        // An object goes, and a whole kind.
        cluster.kubectl.ok(&["delete", "featuregate", "cluster"]);
        cluster.until_text(&sync, &named(DEFAULTS));
        cluster.kubectl.ok(&["delete", "crd", "infrastructures.config.openshift.io"]);
        cluster.until_text(&sync, DEFAULTS);
        account::nothing_was_forbidden(&sync.output());
        assert!(!sync.output().contains("watch failed"), "kinds that are not there are no error:\n{}", sync.output());
    }
}
