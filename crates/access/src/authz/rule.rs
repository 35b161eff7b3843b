//! One rule of a role: what it matches, what it covers, how it prints. Mirrors rbac/v1 PolicyRule and its helpers.

use super::Attributes;
use api::object::Fields;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Verbs on resources, or on paths. `*` means all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PolicyRule {
    pub verbs: Vec<String>,
    /// API groups; empty text is core.
    pub groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Names of objects; none means every object.
    pub names: Vec<String>,
    /// Paths, or path prefixes that end in `*`.
    pub urls: Vec<String>,
}

impl PolicyRule {
    /// From an element of `rules`. What is not text is passed over: validation has refused it before it was stored.
    pub fn from_json(rule: &Value) -> Self {
        let list = |field: &str| rule.list_at(field).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    /// The rules of a Role or ClusterRole.
    pub fn all_from_json(role: &Value) -> Vec<Self> {
        role.list_at("rules").iter().map(Self::from_json).collect()
    }

    /// As an element of `rules`.
    pub fn to_json(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        for (field, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !list.is_empty() {
                rule[field] = list.clone().into();
            }
        }
        rule
    }

    /// Whether the rule allows what is asked.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, asked.verb)
            && match asked.path {
                Some(path) => self.urls.iter().any(|url| url_covers(url, path)),
                None => {
                    has_or_all(&self.groups, asked.group)
                        && self.resources.iter().any(|rule| resource_matches(rule, asked.resource, asked.subresource))
                        && (self.names.is_empty() || has(&self.names, asked.name))
                }
            }
    }

    /// The rule as many rules of one verb and one resource (and name), or one verb and one path.
    fn broken_down(&self) -> Vec<Self> {
        let mut atoms = Vec::new();
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> =
            if self.names.is_empty() { vec![Vec::new()] } else { self.names.iter().map(one).collect() };
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    for names in &names {
                        let (verbs, groups, resources) = (one(verb), one(group), one(resource));
                        atoms.push(Self { verbs, groups, resources, names: names.clone(), urls: Vec::new() });
                    }
                }
            }
        }
        for url in &self.urls {
            for verb in &self.verbs {
                atoms.push(Self { verbs: one(verb), urls: one(url), ..Self::default() });
            }
        }
        atoms
    }

    /// Whether everything `atom` allows is allowed by this rule too.
    fn covers(&self, atom: &Self) -> bool {
        let resource_covered = |wanted: &String| {
            has_or_all(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        atom.verbs.iter().all(|verb| has_or_all(&self.verbs, verb))
            && atom.groups.iter().all(|group| has_or_all(&self.groups, group))
            && atom.resources.iter().all(resource_covered)
            && atom.urls.iter().all(|wanted| self.urls.iter().any(|url| url_covers(url, wanted)))
            && (self.names.is_empty()
                || (!atom.names.is_empty() && atom.names.iter().all(|name| has(&self.names, name))))
    }

    /// As escalation messages print it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    pub fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown = parts.iter().filter(|(_, list)| !list.is_empty());
        let shown: Vec<String> = shown.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// What `wanted` allows and `owned` does not, broken down. Empty when everything is covered.
pub fn uncovered(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let atoms = wanted.iter().flat_map(PolicyRule::broken_down);
    atoms.filter(|atom| !owned.iter().any(|rule| rule.covers(atom))).collect()
}

/// Joins atoms that differ in their verb alone, and prints each group of them once, sorted.
pub fn summary(atoms: &[PolicyRule]) -> Vec<String> {
    let mut joined: BTreeMap<[&[String]; 3], PolicyRule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for atom in atoms {
        if !atom.urls.is_empty() {
            lines.insert(atom.compact());
            continue;
        }
        joined
            .entry([&atom.groups, &atom.resources, &atom.names])
            .and_modify(|rule| rule.verbs.extend_from_slice(&atom.verbs))
            .or_insert_with(|| atom.clone());
    }
    lines.extend(joined.values().map(PolicyRule::compact));
    lines.into_iter().collect()
}

/// A list as Go prints it with %q.
pub fn quoted(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|text| text == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|text| text == "*" || text == wanted)
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" || subresource.is_empty() {
        return rule == "*" || rule == resource;
    }
    let of = rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    of.is_some_and(|of| of == "*" || of == resource)
}

fn url_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::User;
    use proptest::prelude::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
        let list = |text: &str| text.split(' ').map(|t| t.trim_matches('"').to_owned()).collect::<Vec<_>>();
        let names = if names.is_empty() { Vec::new() } else { list(names) };
        PolicyRule { verbs: list(verbs), groups: list(groups), resources: list(resources), names, urls: Vec::new() }
    }

    fn urls(verbs: &str, urls: &str) -> PolicyRule {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect();
        PolicyRule { verbs: list(verbs), urls: list(urls), ..PolicyRule::default() }
    }

    #[test]
    fn a_rule_allows_what_its_lists_name() {
        let user = User::new("u", ["g"]);
        // rule | verb, group, resource, subresource, name | allowed
        for (rule, (verb, group, resource, subresource, name), want) in [
            (rule("get", "\"\"", "pods", ""), ("get", "", "pods", "", "p"), true),
            (rule("get", "\"\"", "pods", ""), ("list", "", "pods", "", ""), false),
            (rule("get", "\"\"", "pods", ""), ("get", "apps", "pods", "", ""), false),
            (rule("get", "\"\"", "pods", ""), ("get", "", "pods", "log", "p"), false),
            (rule("get", "\"\"", "pods/log", ""), ("get", "", "pods", "log", "p"), true),
            (rule("get", "\"\"", "pods/log", ""), ("get", "", "pods", "", "p"), false),
            (rule("get", "apps", "*/scale", ""), ("get", "apps", "deployments", "scale", "d"), true),
            (rule("get", "apps", "*/scale", ""), ("get", "apps", "deployments", "status", "d"), false),
            (rule("get", "apps", "*/scale", ""), ("get", "apps", "deployments", "", "d"), false),
            (rule("get", "apps", "pods/*", ""), ("get", "apps", "pods", "log", "d"), false),
            (rule("*", "*", "*", ""), ("zap", "any", "thing", "sub", "x"), true),
            (rule("get", "\"\"", "pods", "a b"), ("get", "", "pods", "", "b"), true),
            (rule("get", "\"\"", "pods", "a b"), ("get", "", "pods", "", "c"), false),
            (rule("list", "\"\"", "pods", "a"), ("list", "", "pods", "", ""), false),
        ] {
            let asked = Attributes { subresource, name, ..Attributes::resource(&user, verb, group, resource) };
            assert_eq!(rule.allows(&asked), want, "{} {asked:?}", rule.compact());
        }
    }

    #[test]
    fn a_path_matches_as_a_whole_or_by_a_trailing_star() {
        let user = User::new("u", ["g"]);
        for (url, path, want) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", false),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/apis*", "/apis/apps", true),
            ("*", "/anything", true),
        ] {
            assert_eq!(urls("get", url).allows(&Attributes::path(&user, "get", path)), want, "{url} {path}");
            assert!(!urls("get", url).allows(&Attributes::path(&user, "post", path)), "verb");
        }
        assert!(!rule("*", "*", "*", "").allows(&Attributes::path(&user, "get", "/x")), "resources are not paths");
        assert!(!urls("*", "*").allows(&Attributes::resource(&user, "get", "", "pods")), "paths are not resources");
    }

    #[test]
    fn coverage_is_told_atom_by_atom() {
        for (owned, wanted, want) in [
            (vec![rule("*", "*", "*", "")], vec![rule("get list", "\"\" apps", "pods x/y", "n")], vec![]),
            (vec![rule("get", "\"\"", "pods", "")], vec![rule("get", "\"\"", "pods", "")], vec![]),
            (
                vec![rule("get", "\"\"", "pods", "")],
                vec![rule("get list watch", "\"\"", "pods", "")],
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#],
            ),
            (
                vec![rule("get", "\"\"", "pods", "a")],
                vec![rule("get", "\"\"", "pods", "")],
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#],
            ),
            (
                vec![rule("get", "\"\"", "pods", "a")],
                vec![rule("get", "\"\"", "pods", "a b")],
                vec![r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#],
            ),
            (vec![rule("get", "apps", "*/scale", "")], vec![rule("get", "apps", "deployments/scale", "")], vec![]),
            (
                vec![rule("get", "apps", "deployments/scale", "")],
                vec![rule("get", "apps", "*/scale", "")],
                vec![r#"{APIGroups:["apps"], Resources:["*/scale"], Verbs:["get"]}"#],
            ),
            (
                vec![rule("get", "\"\"", "pods", "")],
                vec![rule("*", "\"\"", "pods", "")],
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
            ),
            (vec![urls("get", "/apis/*")], vec![urls("get", "/apis/apps /apis/a*")], vec![]),
            (
                vec![urls("get", "/apis/*")],
                vec![urls("get post", "/api")],
                vec![r#"{NonResourceURLs:["/api"], Verbs:["get"]}"#, r#"{NonResourceURLs:["/api"], Verbs:["post"]}"#],
            ),
            (
                vec![rule("get", "\"\"", "pods", ""), rule("list", "\"\"", "pods", "")],
                vec![rule("get list", "\"\"", "pods", "")],
                vec![],
            ),
        ] {
            assert_eq!(summary(&uncovered(&owned, &wanted)), want, "{owned:?} {wanted:?}");
        }
    }

    #[test]
    fn a_rule_survives_json() {
        let json = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        assert_eq!(PolicyRule::from_json(&json).to_json(), json);
        assert_eq!(PolicyRule::from_json(&json!({"verbs": "get", "resources": [1]})), PolicyRule::default());
    }

    proptest! {
        /// What covers must allow everything the covered allows: otherwise the escalation check has a hole.
        #[test]
        fn a_covering_rule_allows_what_the_covered_allows(
            owned in rules(), wanted in rules(), verb in "[gl*]", group in "[ab*]", resource in "[pq*]", sub in "[s*]?", name in "[xy]?",
        ) {
            prop_assume!(uncovered(&owned, &wanted).is_empty());
            let user = User::new("u", ["g"]);
            let asked = Attributes { subresource: &sub, name: &name, ..Attributes::resource(&user, &verb, &group, &resource) };
            if wanted.iter().any(|rule| rule.allows(&asked)) {
                prop_assert!(owned.iter().any(|rule| rule.allows(&asked)), "{:?}", asked);
            }
        }
    }

    fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
        let list = |pattern: &'static str, least: usize| proptest::collection::vec(pattern, least..3);
        let rule = (list("[gl*]", 1), list("[ab*]", 1), list("[pq*](/[s])?|[*]", 1), list("[xy]", 0));
        let rule = rule.prop_map(|(verbs, groups, resources, names)| PolicyRule {
            verbs,
            groups,
            resources,
            names,
            urls: Vec::new(),
        });
        proptest::collection::vec(rule, 0..4)
    }
}
