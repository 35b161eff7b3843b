//! The default ClusterRoles that are not a controller's. Facts of Kubernetes 1.37, without groups that are not served
//! (`extensions`, `resource.k8s.io`); `admin`, `edit` and `view` gather theirs by label.

use super::table::{ALL, EVENTS, READ, Rule, WRITE, named, on, urls};

/// Name and rules.
pub(super) const CLUSTER_ROLES: &[(&str, &[Rule])] = &[
    ("cluster-admin", &[on("*", "*", "*"), urls("*", "*")]),
    (
        "system:aggregate-to-admin",
        &[
            on("authorization.k8s.io", "localsubjectaccessreviews", "create"),
            on("rbac.authorization.k8s.io", "rolebindings roles", ALL),
        ],
    ),
    (
        "system:aggregate-to-edit",
        &[
            on("core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ),
            on("core", "serviceaccounts", "impersonate"),
            on("core", "pods pods/attach pods/exec pods/portforward pods/proxy", WRITE),
            on("core", "pods/eviction", "create"),
            on(
                "core",
                "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
                WRITE,
            ),
            on("core", "serviceaccounts/token", "create"),
            on("core events.k8s.io", "events", WRITE),
            on(
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
                WRITE,
            ),
            on("autoscaling", "horizontalpodautoscalers", WRITE),
            on("batch", "cronjobs jobs", WRITE),
            on("policy", "poddisruptionbudgets", WRITE),
            on("networking.k8s.io", "ingresses networkpolicies", WRITE),
            on("coordination.k8s.io", "leases", ALL),
        ],
    ),
    (
        "system:aggregate-to-view",
        &[
            on(
                "core",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
                READ,
            ),
            on(
                "core",
                "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
                READ,
            ),
            on("core", "namespaces", READ),
            on("core events.k8s.io", "events", READ),
            on("discovery.k8s.io", "endpointslices", READ),
            on(
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
                READ,
            ),
            on("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
            on("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
            on("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
            on("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
        ],
    ),
    (
        "system:auth-delegator",
        &[
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
        ],
    ),
    (
        "system:basic-user",
        &[
            on("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
            on("authentication.k8s.io", "selfsubjectreviews", "create"),
        ],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("certificates.k8s.io", "certificatesigningrequests/nodeclient", "create")],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create")],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named("certificates.k8s.io", "signers", "approve", "kubernetes.io/kube-apiserver-client")],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named("certificates.k8s.io", "signers", "approve", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    (
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named("certificates.k8s.io", "signers", "approve", "kubernetes.io/kubelet-serving")],
    ),
    (
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named("certificates.k8s.io", "signers", "approve", "kubernetes.io/legacy-unknown")],
    ),
    ("system:cluster-trust-bundle-discovery", &[on("certificates.k8s.io", "clustertrustbundles", READ)]),
    (
        "system:discovery",
        &[urls("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/", "get")],
    ),
    ("system:kube-aggregator", &[on("core", "endpoints services", READ)]),
    (
        "system:kube-controller-manager",
        &[
            EVENTS,
            on("coordination.k8s.io", "leases", "create"),
            named("coordination.k8s.io", "leases", "get update", "kube-controller-manager"),
            on("core", "secrets serviceaccounts", "create"),
            on("core", "secrets", "delete"),
            on("core", "configmaps namespaces secrets serviceaccounts", "get"),
            on("core", "secrets serviceaccounts", "update"),
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            on("*", "*", "list watch"),
            on("core", "serviceaccounts/token", "create"),
        ],
    ),
    ("system:kube-dns", &[on("core", "endpoints services", "list watch")]),
    (
        "system:kube-scheduler",
        &[
            EVENTS,
            on("coordination.k8s.io", "leases", "create"),
            named("coordination.k8s.io", "leases", "get list update watch", "kube-scheduler"),
            on("coordination.k8s.io", "leasecandidates", ALL),
            on("core", "nodes", READ),
            on("core", "pods", "delete get list watch"),
            on("core", "bindings pods/binding", "create"),
            on("core", "pods/status", "patch update"),
            on("core", "replicationcontrollers services", READ),
            on("apps", "replicasets", READ),
            on("apps", "statefulsets", READ),
            on("policy", "poddisruptionbudgets", READ),
            on("core", "persistentvolumeclaims persistentvolumes", READ),
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            on("storage.k8s.io", "csinodes", READ),
            on("storage.k8s.io", "volumeattachments", READ),
            on("core", "namespaces", READ),
            on("storage.k8s.io", "csidrivers", READ),
            on("storage.k8s.io", "csistoragecapacities", READ),
            on("core", "pods/finalizers", "update"),
        ],
    ),
    (
        "system:kubelet-api-admin",
        &[
            on("core", "nodes", READ),
            on("core", "nodes", "proxy"),
            on("core", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
            on("core", "nodes/configz nodes/healthz nodes/pods", "*"),
        ],
    ),
    (
        "system:monitoring",
        &[
            urls("/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz", "get"),
            on("core", "nodes/metrics", "get"),
        ],
    ),
    (
        "system:node",
        &[
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
            on("core", "services", READ),
            on("core", "nodes", "create get list watch"),
            on("core", "nodes/status", "patch update"),
            on("core", "nodes", "patch update"),
            EVENTS,
            on("core", "pods", READ),
            on("core", "pods", "create delete"),
            on("core", "pods/status", "patch update"),
            on("core", "pods/eviction", "create"),
            on("core", "configmaps secrets", READ),
            on("core", "persistentvolumeclaims persistentvolumes", "get"),
            on("core", "endpoints", "get"),
            on("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
            on("coordination.k8s.io", "leases", "create delete get patch update"),
            on("storage.k8s.io", "volumeattachments", "get"),
            on("core", "serviceaccounts/token", "create"),
            on("core", "persistentvolumeclaims/status", "get patch update"),
            on("storage.k8s.io", "csidrivers", READ),
            on("storage.k8s.io", "csinodes", "create delete get patch update"),
            on("node.k8s.io", "runtimeclasses", READ),
            on("certificates.k8s.io", "clustertrustbundles", READ),
            on("core", "serviceaccounts", "get"),
            on("certificates.k8s.io", "podcertificaterequests", "create get list watch"),
        ],
    ),
    ("system:node-bootstrapper", &[on("certificates.k8s.io", "certificatesigningrequests", "create get list watch")]),
    ("system:node-problem-detector", &[on("core", "nodes", "get"), on("core", "nodes/status", "patch"), EVENTS]),
    (
        "system:node-proxier",
        &[
            on("core", "endpoints services", "list watch"),
            on("core", "nodes", READ),
            EVENTS,
            on("networking.k8s.io", "servicecidrs", "list watch"),
            on("discovery.k8s.io", "endpointslices", "list watch"),
        ],
    ),
    (
        "system:persistent-volume-provisioner",
        &[
            on("core", "persistentvolumes", "create delete get list watch"),
            on("core", "persistentvolumeclaims", "get list update watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "events", "watch"),
            EVENTS,
        ],
    ),
    ("system:public-info-viewer", &[urls("/healthz /livez /readyz /version /version/", "get")]),
    (
        "system:service-account-issuer-discovery",
        &[urls(
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            "get",
        )],
    ),
    (
        "system:volume-scheduler",
        &[
            on("core", "persistentvolumes", "get list patch update watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "persistentvolumeclaims", "get list patch update watch"),
        ],
    ),
];

/// Aggregated roles: name, the label they gather by, the label by which another gathers them.
pub(super) const AGGREGATED: &[(&str, &str, Option<&str>)] =
    &[("admin", "admin", None), ("edit", "edit", Some("admin")), ("view", "view", Some("edit"))];

/// Roles that carry a label to be gathered: name and into which.
pub(super) const GATHERED: &[(&str, &str)] = &[
    ("system:aggregate-to-admin", "admin"),
    ("system:aggregate-to-edit", "edit"),
    ("system:aggregate-to-view", "view"),
];

/// Bindings of these roles: the role, which is also the binding's name, and the subjects.
pub(super) const CLUSTER_BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["Group system:masters"]),
    ("system:basic-user", &["Group system:authenticated"]),
    ("system:cluster-trust-bundle-discovery", &["Group system:serviceaccounts"]),
    ("system:discovery", &["Group system:authenticated"]),
    ("system:kube-controller-manager", &["User system:kube-controller-manager"]),
    ("system:kube-dns", &["ServiceAccount kube-system/kube-dns"]),
    ("system:kube-scheduler", &["User system:kube-scheduler"]),
    ("system:monitoring", &["Group system:monitoring"]),
    ("system:node", &[]),
    ("system:node-proxier", &["User system:kube-proxy"]),
    ("system:public-info-viewer", &["Group system:authenticated", "Group system:unauthenticated"]),
    ("system:service-account-issuer-discovery", &["Group system:serviceaccounts"]),
    ("system:volume-scheduler", &["User system:kube-scheduler"]),
];

/// Roles in a namespace: namespace, name, rules.
pub(super) const ROLES: &[(&str, &str, &[Rule])] = &[
    (
        "kube-system",
        "extension-apiserver-authentication-reader",
        &[named("core", "configmaps", READ, "extension-apiserver-authentication")],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        &[
            on("coordination.k8s.io", "leases", "create get list update watch"),
            on("coordination.k8s.io", "leasecandidates", "create get list update watch"),
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        &[
            on("coordination.k8s.io", "leases", "create get list update watch"),
            on("coordination.k8s.io", "leasecandidates", "create get list update watch"),
        ],
    ),
    ("kube-system", "system:controller:cloud-provider", &[on("core", "configmaps", "create get list watch")]),
    ("kube-system", "system:controller:bootstrap-signer", &[on("core", "secrets", READ)]),
    ("kube-system", "system:controller:token-cleaner", &[on("core", "secrets", "delete get list watch"), EVENTS]),
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        &[on("core", "configmaps", READ), named("core", "configmaps", "patch update", "cluster-info"), EVENTS],
    ),
];

/// Their bindings: namespace, name, role, subjects.
pub(super) const ROLE_BINDINGS: &[(&str, &str, &str, &[&str])] = &[
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &["User system:kube-controller-manager", "User system:kube-scheduler"],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            "User system:kube-controller-manager",
            "ServiceAccount kube-system/kube-controller-manager",
            "ServiceAccount kube-system/leader-election-controller",
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &["User system:kube-scheduler", "ServiceAccount kube-system/kube-scheduler"],
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &["ServiceAccount kube-system/cloud-provider"],
    ),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["ServiceAccount kube-system/bootstrap-signer"],
    ),
    (
        "kube-system",
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        &["ServiceAccount kube-system/token-cleaner"],
    ),
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["ServiceAccount kube-system/bootstrap-signer"],
    ),
];
