//! The default ClusterRoles of controllers that work here. Each is bound to the service account of its name in `kube-system`.
//! Facts of Kubernetes 1.37; controllers of devices are left out.

use super::table::{EVENTS, READ, Rule, named, on};

/// Name after `system:controller:`, and rules.
pub(super) const CONTROLLER_ROLES: &[(&str, &[Rule])] = &[
    (
        "attachdetach-controller",
        &[
            on("core", "persistentvolumeclaims persistentvolumes", "list watch"),
            on("core", "nodes", READ),
            on("core", "nodes/status", "patch update"),
            on("core", "pods", "list watch"),
            EVENTS,
            on("storage.k8s.io", "csidrivers csinodes", READ),
            on("storage.k8s.io", "volumeattachments", "create delete get list watch"),
        ],
    ),
    (
        "certificate-controller",
        &[
            on("certificates.k8s.io", "certificatesigningrequests", "delete get list watch"),
            on(
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
                "update",
            ),
            named("certificates.k8s.io", "signers", "approve", "kubernetes.io/kube-apiserver-client-kubelet"),
            named(
                "certificates.k8s.io",
                "signers",
                "sign",
                "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
            ),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            EVENTS,
        ],
    ),
    (
        "clusterrole-aggregation-controller",
        &[on("rbac.authorization.k8s.io", "clusterroles", "escalate get list patch update watch")],
    ),
    (
        "cronjob-controller",
        &[
            on("batch", "cronjobs", "get list update watch"),
            on("batch", "jobs", "create delete get list patch update watch"),
            on("batch", "cronjobs/status", "update"),
            on("batch", "cronjobs/finalizers", "update"),
            on("core", "pods", "delete list watch"),
            EVENTS,
        ],
    ),
    (
        "daemon-set-controller",
        &[
            on("apps", "daemonsets", READ),
            on("apps", "daemonsets/status", "update"),
            on("apps", "daemonsets/finalizers", "update"),
            on("core", "nodes", "list watch"),
            on("core", "pods", "create delete list patch watch"),
            on("core", "pods/binding", "create"),
            on("apps", "controllerrevisions", "create delete get list patch update watch"),
            EVENTS,
        ],
    ),
    (
        "deployment-controller",
        &[
            on("apps", "deployments", "get list update watch"),
            on("apps", "deployments/status", "update"),
            on("apps", "deployments/finalizers", "update"),
            on("apps", "replicasets", "create delete get list patch update watch"),
            on("core", "pods", "get list update watch"),
            EVENTS,
        ],
    ),
    (
        "disruption-controller",
        &[
            on("apps", "deployments", READ),
            on("apps", "replicasets", READ),
            on("core", "replicationcontrollers", READ),
            on("policy", "poddisruptionbudgets", READ),
            on("apps", "statefulsets", READ),
            on("policy", "poddisruptionbudgets/status", "update"),
            on("core", "pods/status", "patch update"),
            on("*", "*/scale", "get"),
            EVENTS,
        ],
    ),
    (
        "endpoint-controller",
        &[
            on("core", "pods services", READ),
            on("core", "endpoints", "create delete get list update watch"),
            on("core", "endpoints/restricted", "create"),
            EVENTS,
        ],
    ),
    (
        "endpointslice-controller",
        &[
            on("core", "nodes pods services", READ),
            on("core", "services/finalizers", "update"),
            on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
            EVENTS,
        ],
    ),
    (
        "endpointslicemirroring-controller",
        &[
            on("core", "endpoints services", READ),
            on("core", "services/finalizers", "update"),
            on("core", "endpoints/finalizers", "update"),
            on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
            EVENTS,
        ],
    ),
    (
        "ephemeral-volume-controller",
        &[
            on("core", "pods/finalizers", "update"),
            on("core", "pods", READ),
            on("core", "persistentvolumeclaims", "create get list watch"),
            EVENTS,
        ],
    ),
    (
        "expand-controller",
        &[
            on("core", "persistentvolumes", "get list patch update watch"),
            on("core", "persistentvolumeclaims/status", "patch update"),
            on("core", "persistentvolumeclaims", READ),
            on("storage.k8s.io", "storageclasses", READ),
            EVENTS,
        ],
    ),
    ("generic-garbage-collector", &[on("*", "*", "delete get list patch update watch"), EVENTS]),
    (
        "horizontal-pod-autoscaler",
        &[
            on("autoscaling", "horizontalpodautoscalers", READ),
            on("autoscaling", "horizontalpodautoscalers/status", "update"),
            on("*", "*/scale", "get update"),
            on("core", "pods", "list watch"),
            on("metrics.k8s.io", "pods", "list watch"),
            on("custom.metrics.k8s.io", "*", READ),
            on("external.metrics.k8s.io", "*", READ),
            EVENTS,
        ],
    ),
    (
        "job-controller",
        &[
            on("batch", "jobs", "get list patch update watch"),
            on("batch", "jobs/status", "update"),
            on("batch", "jobs/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            EVENTS,
        ],
    ),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        &[
            named("certificates.k8s.io", "signers", "attest", "kubernetes.io/kube-apiserver-serving"),
            on("certificates.k8s.io", "clustertrustbundles", "create delete get list update watch"),
            EVENTS,
        ],
    ),
    (
        "namespace-controller",
        &[
            on("core", "namespaces", "delete get list watch"),
            on("core", "namespaces/finalize namespaces/status", "update"),
            on("*", "*", "delete deletecollection get list watch"),
        ],
    ),
    (
        "node-controller",
        &[
            on("core", "nodes", "delete get list patch update watch"),
            on("core", "nodes/status", "patch update"),
            on("core", "pods/status", "patch update"),
            on("core", "pods", "delete get list watch"),
            on("coordination.k8s.io", "leases", READ),
            EVENTS,
        ],
    ),
    (
        "persistent-volume-binder",
        &[
            on("core", "persistentvolumes", "create delete get list update watch"),
            on("core", "persistentvolumes/status", "update"),
            on("core", "persistentvolumeclaims", "get list update watch"),
            on("core", "persistentvolumeclaims/status", "update"),
            on("core", "pods", "create delete get list watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "nodes", "get list"),
            EVENTS,
        ],
    ),
    (
        "pod-garbage-collector",
        &[on("core", "pods", "delete list watch"), on("core", "nodes", READ), on("core", "pods/status", "patch")],
    ),
    ("podcertificaterequestcleaner", &[on("certificates.k8s.io", "podcertificaterequests", "delete get list watch")]),
    ("pv-protection-controller", &[on("core", "persistentvolumes", "get list update watch"), EVENTS]),
    (
        "pvc-protection-controller",
        &[on("core", "persistentvolumeclaims", "get list update watch"), on("core", "pods", READ), EVENTS],
    ),
    (
        "replicaset-controller",
        &[
            on("apps", "replicasets", "get list update watch"),
            on("apps", "replicasets/status", "update"),
            on("apps", "replicasets/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            EVENTS,
        ],
    ),
    (
        "replication-controller",
        &[
            on("core", "replicationcontrollers", "get list update watch"),
            on("core", "replicationcontrollers/status", "update"),
            on("core", "replicationcontrollers/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            EVENTS,
        ],
    ),
    ("resourcequota-controller", &[on("*", "*", "list watch"), on("core", "resourcequotas/status", "update"), EVENTS]),
    ("root-ca-cert-publisher", &[on("core", "configmaps", "create update"), EVENTS]),
    ("route-controller", &[on("core", "nodes", "list watch"), on("core", "nodes/status", "patch"), EVENTS]),
    ("service-account-controller", &[on("core", "serviceaccounts", "create"), EVENTS]),
    (
        "service-cidrs-controller",
        &[
            on("networking.k8s.io", "servicecidrs", "get list patch update watch"),
            on("networking.k8s.io", "servicecidrs/finalizers", "patch update"),
            on("networking.k8s.io", "servicecidrs/status", "patch update"),
            on("networking.k8s.io", "ipaddresses", READ),
            EVENTS,
        ],
    ),
    (
        "service-controller",
        &[
            on("core", "services", READ),
            on("core", "services/status", "patch update"),
            on("core", "nodes", "list watch"),
            EVENTS,
        ],
    ),
    (
        "statefulset-controller",
        &[
            on("core", "pods", "list watch"),
            on("apps", "statefulsets", READ),
            on("apps", "statefulsets/status", "update"),
            on("apps", "statefulsets/finalizers", "update"),
            on("core", "pods", "create delete get patch update"),
            on("apps", "controllerrevisions", "create delete get list patch update watch"),
            on("core", "persistentvolumeclaims", "create get list watch"),
            on("core", "persistentvolumeclaims", "delete update"),
            on("core", "pods/finalizers", "update"),
            EVENTS,
        ],
    ),
    ("ttl-after-finished-controller", &[on("batch", "jobs", "delete get list watch"), EVENTS]),
    ("ttl-controller", &[on("core", "nodes", "list patch update watch"), EVENTS]),
];
