//! Which flow a request belongs to: FlowSchemas read once, and tried in their order for every request.

use access::authz::Attributes;
use api::object::Fields;
use serde_json::Value;

/// Who is meant by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// `*` is everybody.
    User(String),
    /// `*` is everybody.
    Group(String),
    /// `system:serviceaccount:NAMESPACE:`, for all of a namespace, or with a name.
    ServiceAccounts { prefix: String, all: bool },
}

impl Subject {
    fn read(given: &Value) -> Option<Self> {
        match given.str_at("kind") {
            "User" => Some(Self::User(given.at("user.name").as_str()?.to_owned())),
            "Group" => Some(Self::Group(given.at("group.name").as_str()?.to_owned())),
            "ServiceAccount" => {
                let (namespace, name) = (given.str_at("serviceAccount.namespace"), given.str_at("serviceAccount.name"));
                let all = name == "*";
                let name = if all { "" } else { name };
                Some(Self::ServiceAccounts { prefix: format!("system:serviceaccount:{namespace}:{name}"), all })
            }
            _ => None,
        }
    }

    fn matches(&self, asked: &Attributes<'_>) -> bool {
        match self {
            Self::User(name) => name == "*" || *name == asked.user.name,
            Self::Group(name) => name == "*" || asked.user.in_group(name),
            Self::ServiceAccounts { prefix, all: true } => asked.user.name.starts_with(prefix),
            Self::ServiceAccounts { prefix, all: false } => asked.user.name == *prefix,
        }
    }
}

/// A list in which `*` stands for everything.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Words {
    All,
    These(Vec<String>),
}

impl Words {
    fn read(rule: &Value, field: &str) -> Self {
        let words: Vec<String> = rule.list_at(field).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if words.iter().any(|word| word == "*") { Self::All } else { Self::These(words) }
    }

    fn any(&self, matches: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::These(words) => words.iter().any(|word| matches(word)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceRule {
    verbs: Words,
    groups: Words,
    resources: Words,
    namespaces: Words,
    cluster: bool,
}

impl ResourceRule {
    fn read(rule: &Value) -> Self {
        Self {
            verbs: Words::read(rule, "verbs"),
            groups: Words::read(rule, "apiGroups"),
            resources: Words::read(rule, "resources"),
            namespaces: Words::read(rule, "namespaces"),
            cluster: rule.is_true("clusterScope"),
        }
    }

    fn matches(&self, asked: &Attributes<'_>) -> bool {
        let resource = |word: &str| match (asked.subresource, word.split_once('/')) {
            ("", _) => word == asked.resource,
            (sub, Some((resource, wanted))) => resource == asked.resource && wanted == sub,
            _ => false,
        };
        self.verbs.any(|verb| verb == asked.verb)
            && self.groups.any(|group| group == asked.group)
            && self.resources.any(resource)
            && if asked.namespace.is_empty() {
                self.cluster
            } else {
                self.namespaces.any(|namespace| namespace == asked.namespace)
            }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PathRule {
    verbs: Words,
    paths: Words,
}

impl PathRule {
    fn read(rule: &Value) -> Self {
        Self { verbs: Words::read(rule, "verbs"), paths: Words::read(rule, "nonResourceURLs") }
    }

    fn matches(&self, verb: &str, path: &str) -> bool {
        // A path stands for all that is below it, with or without a star.
        let below = |rule: &str| {
            let prefix = rule.trim_end_matches('*').trim_end_matches('/');
            path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
        };
        self.verbs.any(|wanted| wanted == verb) && self.paths.any(|rule| rule == path || below(rule))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

impl Rule {
    fn matches(&self, asked: &Attributes<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.matches(asked))
            && match asked.path {
                Some(path) => self.paths.iter().any(|rule| rule.matches(asked.verb, path)),
                None => self.resources.iter().any(|rule| rule.matches(asked)),
            }
    }
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    /// Nothing: all requests are one flow.
    None,
    User,
    /// The namespace that is asked about.
    Namespace,
}

impl Distinguisher {
    /// The flow of a request.
    pub fn flow<'a>(self, asked: &Attributes<'a>) -> &'a str {
        match self {
            Self::None => "",
            Self::User => &asked.user.name,
            Self::Namespace => asked.namespace,
        }
    }
}

/// A FlowSchema, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSchema {
    pub name: String,
    /// `metadata.uid`, for a header of the answer.
    pub uid: String,
    /// Lower ones are asked first.
    pub precedence: i64,
    /// Where its requests wait and run.
    pub level: String,
    /// Which of its requests are one flow.
    pub distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

impl FlowSchema {
    /// Reads an object that was validated.
    pub fn read(schema: &Value) -> Self {
        let spec = schema.at("spec");
        let rules = spec.list_at("rules").iter().map(|rule| Rule {
            subjects: rule.list_at("subjects").iter().filter_map(Subject::read).collect(),
            resources: rule.list_at("resourceRules").iter().map(ResourceRule::read).collect(),
            paths: rule.list_at("nonResourceRules").iter().map(PathRule::read).collect(),
        });
        Self {
            name: schema.str_at("metadata.name").to_owned(),
            uid: schema.str_at("metadata.uid").to_owned(),
            precedence: spec.int_at("matchingPrecedence").unwrap_or_default(),
            level: spec.str_at("priorityLevelConfiguration.name").to_owned(),
            distinguisher: match spec.str_at("distinguisherMethod.type") {
                "ByUser" => Distinguisher::User,
                "ByNamespace" => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: rules.collect(),
        }
    }

    /// Whether a request is meant.
    pub fn matches(&self, asked: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(asked))
    }

    /// The order in which schemas are asked.
    pub fn order(&self) -> (i64, &str) {
        (self.precedence, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::authn::User;
    use api::kinds::flowcontrol::defaults;
    use serde_json::json;

    fn schemas() -> Vec<FlowSchema> {
        let mut all: Vec<FlowSchema> = defaults::schemas().iter().map(|(_, schema)| FlowSchema::read(schema)).collect();
        all.sort_by(|one, other| one.order().cmp(&other.order()));
        all
    }

    #[test]
    fn the_default_schemas_send_everybody_where_upstream_does() {
        let schemas = schemas();
        let authenticated = |name: &str, group: &str| User::new(name, [group, "system:authenticated"]);
        let admin = authenticated("admin", "system:masters");
        let node = authenticated("system:node:n1", "system:nodes");
        let manager = authenticated("system:kube-controller-manager", "x");
        let dns = User::service_account("kube-system", "dns", "1");
        let app = User::service_account("dev", "app", "1");
        let eve = authenticated("eve", "dev");
        let nobody = User::anonymous();
        let lease = |user, verb| Attributes {
            namespace: "kube-node-lease",
            ..Attributes::resource(user, verb, "coordination.k8s.io", "leases")
        };
        for (asked, schema, level, flow) in [
            (Attributes::resource(&admin, "list", "", "pods"), "exempt", "exempt", ""),
            (Attributes::path(&nobody, "get", "/healthz"), "probes", "exempt", ""),
            (Attributes::path(&nobody, "get", "/livez/ping"), "probes", "exempt", ""),
            (Attributes::path(&nobody, "get", "/healthzz"), "global-default", "global-default", "system:anonymous"),
            (Attributes::path(&nobody, "post", "/healthz"), "global-default", "global-default", "system:anonymous"),
            (lease(&manager, "update"), "system-leader-election", "leader-election", "system:kube-controller-manager"),
            (lease(&manager, "list"), "kube-controller-manager", "workload-high", "kube-node-lease"),
            (lease(&node, "update"), "system-node-high", "node-high", "system:node:n1"),
            (Attributes::resource(&node, "get", "", "nodes"), "system-node-high", "node-high", "system:node:n1"),
            (
                Attributes { subresource: "status", ..Attributes::resource(&node, "patch", "", "nodes") },
                "system-node-high",
                "node-high",
                "system:node:n1",
            ),
            (
                Attributes { subresource: "proxy", ..Attributes::resource(&node, "get", "", "nodes") },
                "system-nodes",
                "system",
                "system:node:n1",
            ),
            (Attributes::resource(&node, "list", "", "pods"), "system-nodes", "system", "system:node:n1"),
            (
                Attributes { namespace: "a", ..Attributes::resource(&dns, "list", "", "pods") },
                "kube-system-service-accounts",
                "workload-high",
                "a",
            ),
            (
                Attributes { namespace: "a", ..Attributes::resource(&app, "list", "", "pods") },
                "service-accounts",
                "workload-low",
                "system:serviceaccount:dev:app",
            ),
            (Attributes::resource(&eve, "list", "", "pods"), "global-default", "global-default", "eve"),
        ] {
            let found = schemas.iter().find(|schema| schema.matches(&asked)).unwrap();
            let got = (found.name.as_str(), found.level.as_str(), found.distinguisher.flow(&asked));
            assert_eq!(got, (schema, level, flow), "{asked:?}");
        }
    }

    #[test]
    fn a_rule_means_exactly_what_it_names() {
        let schema = FlowSchema::read(&json!({"spec": {"rules": [{
            "subjects": [
                {"kind": "User", "user": {"name": "ann"}}, {"kind": "Group", "group": {"name": "ops"}},
                {"kind": "ServiceAccount", "serviceAccount": {"namespace": "d", "name": "app"}},
            ],
            "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": ["d"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}],
        }]}}));
        let user = |name: &str, group: &str| User::new(name, [group]);
        let (ann, bob, ops) = (user("ann", ""), user("bob", ""), user("bob", "ops"));
        let (app, other) = (User::service_account("d", "app", ""), User::service_account("d", "app2", ""));
        let pods = |user| Attributes { namespace: "d", ..Attributes::resource(user, "list", "", "pods") };
        for (asked, want) in [
            (pods(&ann), true),
            (pods(&bob), false),
            (pods(&ops), true),
            (pods(&app), true),
            (pods(&other), false),
            (Attributes { namespace: "e", ..pods(&ann) }, false),
            (Attributes { namespace: "", ..pods(&ann) }, false),
            (Attributes { verb: "get", ..pods(&ann) }, false),
            (Attributes { group: "apps", ..pods(&ann) }, false),
            (Attributes { subresource: "log", ..pods(&ann) }, true),
            (Attributes { subresource: "exec", ..pods(&ann) }, false),
            (Attributes::path(&ann, "get", "/metrics/cadvisor"), true),
            (Attributes::path(&ann, "get", "/version"), false),
        ] {
            assert_eq!(schema.matches(&asked), want, "{asked:?}");
        }
    }
}
