//! The target is put right, and waited for.

use super::{
    cluster::{Cluster, PATIENCE, TARGET},
    texts::DEFAULTS,
};
use e2e::wait_for;
use serde_json::{Value, json};

#[test]
fn what_others_do_to_the_target_is_put_right() {
    for cluster in Cluster::all() {
        cluster.source("[Global]\nVPC = vpc-1\n");
        let text =
            DEFAULTS.replacen("[Global]\n", "[Global]\nVPC                                             = vpc-1\n", 1);
        let sync = cluster.sync_alone(&[]);
        let made = cluster.until_text(&sync, &text);
        let patch = |patch: Value| {
            cluster.kubectl.ok(&[
                "-n",
                TARGET,
                "patch",
                "configmap",
                "cloud-conf",
                "--type=merge",
                "-p",
                &patch.to_string(),
            ])
        };
        for change in [
            json!({"data": {"cloud.conf": "[Global]\n"}}),
            json!({"data": {"cloud.conf": null}}),
            json!({"data": {"more": "x"}, "metadata": {"labels": {"mine": "yes"}}}),
            json!({"data": null}),
            json!({"binaryData": {"bytes": "/w=="}}),
        ] {
            patch(change);
            let target = cluster.until(&sync, "put right", |target| {
                target["data"] == json!({"cloud.conf": text}) && target["binaryData"].is_null()
            });
            assert_eq!(target["metadata"]["uid"], made["metadata"]["uid"]);
        }
        assert_eq!(
            cluster.target().unwrap()["metadata"]["labels"],
            json!({"mine": "yes"}),
            "what is not its own is left"
        );
        // One that cannot be changed any more is made anew, as is one that is gone.
        patch(json!({"immutable": true, "data": {"cloud.conf": "[Global]\n"}}));
        let anew = cluster.until_text(&sync, &text);
        assert_ne!(anew["metadata"]["uid"], made["metadata"]["uid"]);
        assert!(anew["immutable"].is_null());
        cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf"]);
        cluster.until_text(&sync, &text);
    }
}

#[test]
fn it_waits_for_its_rights_and_its_namespaces() {
    let Some(cluster) = Cluster::without_namespaces() else { return };
    let mut sync = cluster.sync_alone(&[]);
    let refused = wait_for(PATIENCE, || sync.output().contains("orbidden").then_some(()));
    assert!(refused.is_some(), "{}", sync.output());
    cluster.make_namespaces();
    cluster.until_text(&sync, DEFAULTS);
    assert!(sync.terminate(PATIENCE).unwrap().success(), "{}", sync.output());
}
