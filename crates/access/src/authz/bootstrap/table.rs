//! How the tables of default roles are written: words in one string, `core` for the empty group.

use crate::authz::PolicyRule;

/// Reading verbs.
pub(super) const READ: &str = "get list watch";
/// Writing verbs.
pub(super) const WRITE: &str = "create delete deletecollection patch update";
/// Both.
pub(super) const ALL: &str = "create delete deletecollection get list patch update watch";
/// Every controller tells what it does.
pub(super) const EVENTS: Rule = on("core events.k8s.io", "events", "create patch update");

/// A rule as words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    groups: &'static str,
    resources: &'static str,
    urls: &'static str,
    names: &'static str,
    verbs: &'static str,
}

pub(super) const fn on(groups: &'static str, resources: &'static str, verbs: &'static str) -> Rule {
    Rule { groups, resources, urls: "", names: "", verbs }
}

/// Verbs on resources of certain names.
pub(super) const fn named(
    groups: &'static str,
    resources: &'static str,
    verbs: &'static str,
    names: &'static str,
) -> Rule {
    Rule { groups, resources, urls: "", names, verbs }
}

/// Verbs on paths.
pub(super) const fn urls(urls: &'static str, verbs: &'static str) -> Rule {
    Rule { groups: "", resources: "", urls, names: "", verbs }
}

impl Rule {
    /// As roles carry it.
    pub(super) fn policy(&self) -> PolicyRule {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let groups = self.groups.split_whitespace().map(|group| if group == "core" { "" } else { group }.to_owned());
        PolicyRule {
            verbs: words(self.verbs),
            groups: groups.collect(),
            resources: words(self.resources),
            names: words(self.names),
            urls: words(self.urls),
        }
    }
}
