//! What `twinstack controller-manager` may do when it runs as one user. Upstream gives each controller an account with a role of its own
//! (`--use-service-account-credentials`); here one process with one identity has what its controllers need together.

use super::{named, rule};
use crate::kinds::certificates::{CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER};
use serde_json::json;

const CERTIFICATES: &str = "certificates.k8s.io";

/// Where nodes say that they are alive.
const NODE_LEASES: &str = "kube-node-lease";

/// `twinstack controller-manager`, beside the ClusterRole `system:kube-controller-manager` that every cluster has: it may list and watch
/// everything, tell events and lead.
#[must_use]
pub fn controller_manager() -> super::Rights {
    let everywhere = vec![
        // Namespaces that end, and owners that are gone, take along objects of every kind, also of kinds that come later.
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "patch", "delete", "deletecollection"]}),
        rule("", &["pods", "persistentvolumeclaims"], &["create"]),
        rule("", &["pods/binding"], &["create"]),
        rule("", &["pods/status", "nodes/status"], &["patch", "update"]),
        rule("", &["nodes"], &["create"]),
        rule("", &["services/status"], &["patch"]),
        rule("", &["replicationcontrollers/status"], &["update"]),
        rule("", &["endpoints"], &["create", "update"]),
        rule("", &["configmaps", "serviceaccounts"], &["create"]),
        rule("", &["persistentvolumes", "persistentvolumeclaims"], &["create"]),
        rule("", &["persistentvolumes/status", "persistentvolumeclaims/status"], &["patch"]),
        rule("storage.k8s.io", &["volumeattachments"], &["create"]),
        rule("storagemigration.k8s.io", &["storageversionmigrations/status"], &["patch"]),
        rule("resource.k8s.io", &["resourceclaims"], &["create"]),
        rule("resource.k8s.io", &["resourceclaims/status"], &["patch"]),
        rule("", &["namespaces/status", "namespaces/finalize"], &["update"]),
        rule("discovery.k8s.io", &["endpointslices"], &["create", "update"]),
        rule("apps", &["replicasets", "controllerrevisions"], &["create", "update"]),
        rule(
            "apps",
            &["deployments/status", "replicasets/status", "daemonsets/status", "statefulsets/status"],
            &["update"],
        ),
        rule("batch", &["jobs"], &["create"]),
        rule("batch", &["jobs/status", "cronjobs/status"], &["update"]),
        rule("policy", &["poddisruptionbudgets/status"], &["update"]),
        rule("", &["resourcequotas/status"], &["update"]),
        rule("autoscaling", &["horizontalpodautoscalers/status"], &["update"]),
        rule("networking.k8s.io", &["servicecidrs/status"], &["patch"]),
        rule(CERTIFICATES, &["certificatesigningrequests/approval", "certificatesigningrequests/status"], &["update"]),
        named(CERTIFICATES, &["signers"], &[KUBELET_CLIENT_SIGNER], &["approve"]),
        rule(CERTIFICATES, &["clustertrustbundles"], &["create"]),
        named(CERTIFICATES, &["signers"], &["kubernetes.io/kube-apiserver-serving"], &["attest"]),
        named(
            CERTIFICATES,
            &["signers"],
            &[CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER],
            &["sign"],
        ),
        // Where owners are protected, whoever names one as the owner that blocks must be allowed to change its finalizers.
        rule(
            "",
            &[
                "services/finalizers",
                "endpoints/finalizers",
                "nodes/finalizers",
                "pods/finalizers",
                "replicationcontrollers/finalizers",
            ],
            &["update"],
        ),
        rule(
            "apps",
            &["deployments/finalizers", "replicasets/finalizers", "daemonsets/finalizers", "statefulsets/finalizers"],
            &["update"],
        ),
        rule("batch", &["jobs/finalizers", "cronjobs/finalizers"], &["update"]),
    ];
    // Of hollow nodes; real ones have their own.
    let within = vec![(NODE_LEASES, vec![rule("coordination.k8s.io", &["leases"], &["create", "update"])])];
    super::Rights { everywhere, within }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn only_what_takes_objects_away_holds_for_every_kind() {
        let rights = controller_manager();
        let has = |rule: &Value, field: &str, word: &str| {
            rule[field].as_array().is_some_and(|all| all.contains(&json!(word)))
        };
        let rules = || rights.everywhere.iter().chain(rights.within.iter().flat_map(|(_, rules)| rules));
        let all: Vec<&Value> =
            rules().filter(|rule| has(rule, "resources", "*") || has(rule, "apiGroups", "*")).collect();
        assert_eq!(all.len(), 1);
        for verb in ["*", "create", "update", "impersonate", "escalate", "bind"] {
            assert!(!has(all[0], "verbs", verb), "{verb}");
        }
        assert!(rules().all(|rule| !has(rule, "verbs", "*") && !has(rule, "resources", "secrets")));
    }
}
