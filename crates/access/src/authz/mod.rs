//! Who may do what: every request is put as `Attributes` to a chain of authorizers, and the first that knows decides.
//!
//! `system:masters` -> `node` (kubelets) -> `rbac` (roles and bindings). The engine asks `Authorizer::authorize` before a
//! request runs; `escalation` and `node_restriction` are asked at admission; `reviews` answers the review kinds;
//! `bootstrap` holds the default roles.

pub mod bootstrap;
pub mod escalation;
pub mod impersonate;
pub mod node;
pub mod node_restriction;
pub mod pod_graph;
pub mod rbac;
pub mod reviews;
pub mod rule;

pub use rule::PolicyRule;

use crate::authn::{User, user::MASTERS};
use api::error::ApiError;
use std::sync::Arc;

/// What is asked, and by whom. Borrowed from the request.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    /// `get`, `list`, `create`, ...; the HTTP method in lower case for a path.
    pub verb: &'a str,
    /// Namespace, or empty for the whole cluster.
    pub namespace: &'a str,
    /// API group, empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural of the resource.
    pub resource: &'a str,
    /// `status`, `log`, ..., or empty.
    pub subresource: &'a str,
    /// Name of the object, or empty.
    pub name: &'a str,
    /// The field selector of a list or watch as it stands in the request; node rules look at it.
    pub field_selector: &'a str,
    /// Set for everything that is not a resource (`/healthz`); the fields above are empty then.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// A question about a resource; the other fields start empty.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { group, resource, path: None, ..Self::path(user, verb, "") }
    }

    /// A question about a path.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self {
            user,
            verb,
            namespace: "",
            group: "",
            version: "",
            resource: "",
            subresource: "",
            name: "",
            field_selector: "",
            path: Some(path),
        }
    }

    /// The name that a list or watch is held to by its field selector, as upstream lets roles with `resourceNames` and
    /// nodes use it. Empty without one; a selector with escapes, which no name needs, has none.
    pub fn selected_name(field_selector: &str) -> &str {
        if field_selector.contains('\\') {
            return "";
        }
        let mut found = "";
        for term in field_selector.split(',') {
            // `!=` leaves a `!` at the end of the field, which then is another field.
            let parts = term.split_once("==").or_else(|| term.split_once('='));
            if let Some((field, value)) = parts
                && field.trim() == "metadata.name"
            {
                found = value;
                break;
            }
        }
        if matches!(found, "." | "..") || found.contains(['/', '%']) { "" } else { found }
    }

    /// `pods/log`, `pods`.
    pub fn combined_resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            sub => format!("{}/{sub}", self.resource),
        }
    }
}

/// Why; may be empty.
pub type Reason = Arc<str>;

/// The answer of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes; nobody else is asked.
    Allow(Reason),
    /// No; nobody else is asked.
    Deny(Reason),
    /// Somebody else may say yes. If nobody does, the answer is no, and the reasons are told.
    NoOpinion(Reason),
}

impl Decision {
    /// No opinion and nothing to say.
    pub fn none() -> Self {
        Self::NoOpinion(Reason::default())
    }

    /// Whether the answer is yes.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The reason, whatever the answer.
    pub fn reason(&self) -> &str {
        let (Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason)) = self;
        reason
    }
}

/// What a user may do in a namespace, as far as authorizers can list it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rules {
    /// Rules that apply.
    pub rules: Vec<PolicyRule>,
    /// Whether some authorizer allows things it cannot list.
    pub incomplete: bool,
    /// What went wrong on the way.
    pub errors: Vec<String>,
}

/// Decides about requests.
pub trait Authorizer: Send + Sync {
    /// Whether the request may run.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Rules for SelfSubjectRulesReview; an authorizer without rules has none.
    fn rules_for(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

/// Lets `system:masters` do anything, even when all roles are gone.
#[derive(Clone, Copy, Debug)]
pub struct Masters;

impl Authorizer for Masters {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(MASTERS) { Decision::Allow(Reason::default()) } else { Decision::none() }
    }
}

/// Asks one authorizer after the other.
pub struct Chain(Vec<Arc<dyn Authorizer>>);

impl Chain {
    /// `Masters`, then these.
    pub fn new(authorizers: impl IntoIterator<Item = Arc<dyn Authorizer>>) -> Self {
        let masters: Arc<dyn Authorizer> = Arc::new(Masters);
        Self(std::iter::once(masters).chain(authorizers).collect())
    }
}

impl Authorizer for Chain {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut reasons: Vec<Reason> = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes) {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n").into())
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for authorizer in &self.0 {
            let Rules { rules, incomplete, errors } = authorizer.rules_for(user, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            all.errors.extend(errors);
        }
        all
    }
}

/// The 403 for a request that nobody allowed, in upstream's words.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let Attributes { user, verb, namespace, group, resource, name, path, .. } = attributes;
    let what = match path {
        Some(path) => format!("User {:?} cannot {verb} path {path:?}", user.name),
        None => {
            let scope = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let resource = attributes.combined_resource();
            format!("User {:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}", user.name)
        }
    };
    // Nothing that a browser could take for markup.
    let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let why = if reason.is_empty() { what } else { format!("{what}: {reason}") };
    match path {
        // Without a resource there is nothing to name before the colon.
        Some(_) => ApiError::new(403, "Forbidden", format!("forbidden: {why}")).with_details(serde_json::json!({})),
        None => ApiError::forbidden(resource, group, name, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Decision);

    impl Authorizer for Fixed {
        fn authorize(&self, _: &Attributes<'_>) -> Decision {
            self.0.clone()
        }
    }

    fn chain(decisions: &[Decision]) -> Chain {
        Chain::new(decisions.iter().map(|d| Arc::new(Fixed(d.clone())) as Arc<dyn Authorizer>))
    }

    #[test]
    fn the_first_authorizer_with_an_opinion_decides() {
        let (yes, no) = (Decision::Allow("yes".into()), Decision::Deny("no".into()));
        let user = User::new("bob", ["dev"]);
        let asked = Attributes::resource(&user, "get", "", "pods");
        for (decisions, want) in [
            (vec![Decision::none(), yes.clone(), no.clone()], yes.clone()),
            (vec![no.clone(), yes.clone()], no),
            (vec![], Decision::none()),
            (
                vec![Decision::NoOpinion("a".into()), Decision::none(), Decision::NoOpinion("b".into())],
                Decision::NoOpinion("a\nb".into()),
            ),
        ] {
            assert_eq!(chain(&decisions).authorize(&asked), want);
        }
        let master = User::new("root", ["system:masters"]);
        let asked = Attributes::resource(&master, "get", "", "pods");
        assert!(chain(&[Decision::Deny("no".into())]).authorize(&asked).allowed());
    }

    #[test]
    fn a_field_selector_may_name_one_object() {
        for (selector, want) in [
            ("metadata.name=a", "a"),
            ("metadata.name==a", "a"),
            ("status.phase=Running,metadata.name=a", "a"),
            ("metadata.name!=a", ""),
            ("metadata.namespace=a", ""),
            (r"spec.x=y\,metadata.name=a", ""),
            ("metadata.name=a/b", ""),
            ("metadata.name=..", ""),
            ("metadata.name", ""),
            ("", ""),
        ] {
            assert_eq!(Attributes::selected_name(selector), want, "{selector}");
        }
    }

    #[test]
    fn the_message_of_a_refusal_is_upstreams() {
        let user = User::new("x", ["dev"]);
        let pods = Attributes::resource(&user, "list", "", "pods");
        for (asked, reason, want) in [
            (
                Attributes { namespace: "y", ..pods },
                "",
                r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "y""#,
            ),
            (
                Attributes { subresource: "log", verb: "get", name: "p", namespace: "y", ..pods },
                "",
                r#"pods "p" is forbidden: User "x" cannot get resource "pods/log" in API group "" in the namespace "y""#,
            ),
            (
                Attributes::resource(&user, "list", "apps", "deployments"),
                "RBAC: something",
                r#"deployments.apps is forbidden: User "x" cannot list resource "deployments" in API group "apps" at the cluster scope: RBAC: something"#,
            ),
            (Attributes::path(&user, "get", "/metrics"), "", r#"forbidden: User "x" cannot get path "/metrics""#),
        ] {
            let error = forbidden(&asked, reason);
            assert_eq!((error.code, error.message.as_str()), (403, want));
        }
        let odd = User::new("<b>&", ["dev"]);
        let error = forbidden(&Attributes::path(&odd, "get", "/x"), "");
        assert_eq!(error.message, r#"forbidden: User "&lt;b&gt;&amp;" cannot get path "/x""#);
    }
}
