//! Which source counts, and what a broken one does.

use super::cluster::{Cluster, MANAGED, NAMED, PATIENCE};
use e2e::{account, wait_for};
use serde_json::{Value, json};

#[test]
fn a_broken_source_leaves_the_target_and_says_why() {
    for cluster in Cluster::all() {
        cluster.source("[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n");
        let sync = cluster.sync_alone(&[]);
        let good =
            cluster.until(&sync, "made", |target| target["data"]["cloud.conf"].as_str().unwrap().contains("= ipv6"));
        for (text, why) in [
            (
                "[Global]\nVPC = \"vpc-2\n",
                "cloud.conf is not accepted: line 2: a quote is not closed; cloud-conf is left as it is",
            ),
            ("VPC = vpc-2\n", "line 1: \"VPC = vpc-2\" stands before any section"),
            (
                "[Global]\nNLBSecurityGroupMode = managed\n",
                "NLBSecurityGroupMode: \"managed\" is not accepted; did you mean \"Managed\"?",
            ),
            ("[Global]\nNodeIPFamilies = ipv4,ipv6\n", "NodeIPFamilies: \"ipv4,ipv6\" is no family"),
            ("[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv6\n", "NodeIPFamilies: \"ipv6\" is given twice"),
        ] {
            cluster.source(text);
            cluster.until_told(&sync, MANAGED, "kube-cloud-config", why);
            assert_eq!(cluster.target().unwrap(), good, "{text}");
        }
        // Bytes are no text.
        cluster.kubectl.ok(&["-n", MANAGED, "delete", "configmap", "kube-cloud-config"]);
        let bytes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-cloud-config", "namespace": MANAGED},
        "binaryData": {"cloud.conf": "/w=="}});
        cluster.kubectl.ok_with(&["create", "-f", "-"], &bytes.to_string());
        cluster.until_told(
            &sync,
            MANAGED,
            "kube-cloud-config",
            "has cloud.conf in binaryData; it has to be text, in data",
        );
        cluster.source("[Global]\nVPC = vpc-3\n");
        cluster.until(&sync, "mended", |target| target["data"]["cloud.conf"].as_str().unwrap().contains("vpc-3"));
        // With a broken source it starts, and leaves what is there.
        cluster.source("[Global\n");
        cluster.until_told(&sync, MANAGED, "kube-cloud-config", "the section has no closing bracket");
        drop(sync);
        let before = cluster.target().unwrap();
        let sync = cluster.sync_alone(&[]);
        let seen = wait_for(PATIENCE, || sync.output().contains("no closing bracket").then_some(()));
        assert!(seen.is_some(), "{}", sync.output());
        assert_eq!(cluster.target().unwrap(), before);
        account::nothing_was_forbidden(&sync.output());
    }
}

#[test]
fn the_source_is_chosen_as_upstream_chooses_it_and_all_of_it_goes_along() {
    for cluster in Cluster::all() {
        cluster.infrastructure("AWS", "mine", "config");
        let sync = cluster.sync_alone(&[]);
        let holds = |part: &'static str| {
            move |target: &Value| target["data"]["cloud.conf"].as_str().is_some_and(|text| text.contains(part))
        };
        // What is named is not there: nothing is made, and the Infrastructure has an event.
        cluster.until_told(
            &sync,
            "default",
            "cluster",
            "ConfigMap mine that the Infrastructure names is not in openshift-config",
        );
        assert_eq!(cluster.target(), None);
        cluster.put(NAMED, "mine", &json!({"other": "x"}));
        cluster.until_told(
            &sync,
            NAMED,
            "mine",
            "ConfigMap mine has no key config, which the Infrastructure names, and no cloud.conf",
        );
        assert_eq!(cluster.target(), None);
        cluster.put(NAMED, "mine", &json!({"config": "[Global]\nVPC = vpc-1\n", "ca-bundle.pem": "one"}));
        let target = cluster.until(&sync, "the named one", holds("vpc-1"));
        let keys: Vec<&String> = target["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["ca-bundle.pem", "cloud.conf"]);
        assert_eq!(target["data"]["ca-bundle.pem"], "one");
        cluster.put(
            NAMED,
            "mine",
            &json!({"config": "[Global]\nVPC = vpc-1\n", "cloud.conf": "[Global]\nVPC = vpc-2\n"}),
        );
        let target = cluster.until(&sync, "cloud.conf wins", holds("vpc-2"));
        assert!(target["data"]["ca-bundle.pem"].is_null(), "{target:#}");
        cluster.put(
            MANAGED,
            "kube-cloud-config",
            &json!({"cloud.conf": "[Global]\nVPC = vpc-3\n", "ca-bundle.pem": "two"}),
        );
        let target = cluster.until(&sync, "the managed one wins", holds("vpc-3"));
        assert_eq!(target["data"]["ca-bundle.pem"], "two");
        // Sources go, one after the other; what is left of them counts.
        cluster.kubectl.ok(&["-n", MANAGED, "delete", "configmap", "kube-cloud-config"]);
        let before = cluster.until(&sync, "the named one again", holds("vpc-2"));
        cluster.kubectl.ok(&["-n", NAMED, "delete", "configmap", "mine"]);
        let reported =
            wait_for(PATIENCE, || (sync.output().matches("is not in openshift-config").count() > 1).then_some(()));
        assert!(reported.is_some(), "{}", sync.output());
        assert_eq!(cluster.target().unwrap(), before, "one that is named and gone leaves the target");
        // On another platform the target is somebody else's.
        cluster.infrastructure("Azure", "mine", "config");
        let reported = wait_for(PATIENCE, || sync.output().contains("the platform is Azure and not AWS").then_some(()));
        assert!(reported.is_some(), "{}", sync.output());
        cluster.source("[Global]\nVPC = vpc-9\n");
        assert_eq!(cluster.target().unwrap(), before);
        cluster.infrastructure("AWS", "mine", "config");
        cluster.until(&sync, "it is AWS again", holds("vpc-9"));
        account::nothing_was_forbidden(&sync.output());
    }
}
