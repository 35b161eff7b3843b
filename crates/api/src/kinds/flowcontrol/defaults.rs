//! The FlowSchemas and PriorityLevelConfigurations that every cluster has: two of each it cannot be without, and those that
//! upstream suggests. Names and numbers are upstream's.

use serde_json::{Value, json};

/// `"true"` on an object whose spec the server keeps as it is here.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// `group/version` of both kinds.
pub const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// Whether the server works without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It does not: whatever is done to the object, its spec comes back.
    Mandatory,
    /// It does: an administrator may take it over, or delete it where it is not wanted.
    Suggested,
}

/// Queues, hand size and queue length limit; none means that what does not fit is turned away.
type Queuing = Option<(u32, u32, u32)>;

/// Name, shares, percentage that others may borrow, queues.
const LIMITED: [(Need, &str, u32, u32, Queuing); 7] = [
    (Need::Mandatory, "catch-all", 5, 0, None),
    (Need::Suggested, "system", 30, 33, Some((64, 6, 50))),
    (Need::Suggested, "node-high", 40, 25, Some((64, 6, 50))),
    (Need::Suggested, "leader-election", 10, 0, Some((16, 4, 50))),
    (Need::Suggested, "workload-high", 40, 50, Some((128, 6, 50))),
    (Need::Suggested, "workload-low", 100, 90, Some((128, 6, 50))),
    (Need::Suggested, "global-default", 20, 50, Some((128, 6, 50))),
];

/// Every default PriorityLevelConfiguration.
pub fn levels() -> Vec<(Need, Value)> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut levels = vec![(Need::Mandatory, object("PriorityLevelConfiguration", "exempt", &exempt))];
    levels.extend(LIMITED.map(|(need, name, shares, lendable, queuing)| {
        let response = match queuing {
            None => json!({"type": "Reject"}),
            Some((queues, hand, length)) => json!({
                "type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }),
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        (need, object("PriorityLevelConfiguration", name, &json!({"type": "Limited", "limited": limited})))
    }));
    levels
}

/// Every default FlowSchema.
pub fn schemas() -> Vec<(Need, Value)> {
    use Need::{Mandatory, Suggested};
    let everybody = || groups(&["system:unauthenticated", "system:authenticated"]);
    let nodes = || groups(&["system:nodes"]);
    let everything = || json!([resources(&["*"], "*", &["*"], true)]);
    let anywhere = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let probes = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]);
    let leases = resources(&["*"], "coordination.k8s.io", &["leases"], false);
    let elections = resources(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false);
    let own_nodes = resources(&["*"], "", &["nodes", "nodes/status"], true);
    let kube_system = || json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    let (manager, scheduler) = (user("system:kube-controller-manager"), user("system:kube-scheduler"));
    let all =
        |subjects: Value| json!({"subjects": subjects, "resourceRules": everything(), "nonResourceRules": anywhere});
    let on = |subjects: Value, rules: Value| json!({"subjects": subjects, "resourceRules": rules});
    let rows = [
        (Mandatory, "exempt", "exempt", 1, "", all(groups(&["system:masters"]))),
        (Suggested, "probes", "exempt", 2, "", json!({"subjects": everybody(), "nonResourceRules": probes})),
        (
            Suggested,
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            on(json!([manager, scheduler, kube_system()]), json!([elections])),
        ),
        (Suggested, "system-node-high", "node-high", 400, "ByUser", on(nodes(), json!([own_nodes, leases]))),
        (Suggested, "system-nodes", "system", 500, "ByUser", all(nodes())),
        (Suggested, "kube-controller-manager", "workload-high", 800, "ByNamespace", all(json!([manager]))),
        (Suggested, "kube-scheduler", "workload-high", 800, "ByNamespace", all(json!([scheduler]))),
        (Suggested, "kube-system-service-accounts", "workload-high", 900, "ByNamespace", all(json!([kube_system()]))),
        (Suggested, "service-accounts", "workload-low", 9000, "ByUser", all(groups(&["system:serviceaccounts"]))),
        (Suggested, "global-default", "global-default", 9900, "ByUser", all(everybody())),
        (Mandatory, "catch-all", "catch-all", 10_000, "ByUser", all(everybody())),
    ];
    rows.map(|(need, name, level, precedence, flow, rule)| {
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
        });
        if !flow.is_empty() {
            spec["distinguisherMethod"] = json!({"type": flow});
        }
        (need, object("FlowSchema", name, &spec))
    })
    .into()
}

/// The FlowSchema of this name, if it is one that cannot be changed.
pub fn mandatory_schema(name: &str) -> Option<Value> {
    mandatory(schemas(), name)
}

/// The PriorityLevelConfiguration of this name, if it is one that cannot be changed.
pub fn mandatory_level(name: &str) -> Option<Value> {
    mandatory(levels(), name)
}

fn mandatory(objects: Vec<(Need, Value)>, name: &str) -> Option<Value> {
    let named = |object: &Value| object["metadata"]["name"] == name;
    objects.into_iter().find(|(need, object)| *need == Need::Mandatory && named(object)).map(|(_, object)| object)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind,
        "metadata": {"name": name, "annotations": {AUTOUPDATE: "true"}}, "spec": spec,
    })
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}
