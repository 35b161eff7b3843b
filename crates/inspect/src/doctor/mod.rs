//! Looks at a snapshot and says what is wrong, why, and what to do. The worst comes first.

mod custom;
mod nodes;
mod pods;
mod policies;
mod services;
mod views;

use crate::{Snapshot, families};
use net::Families;
use serde::Serialize;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody is not served now.
    Error,
    /// Somebody will not be, or not as was asked for.
    Warning,
    /// As it was asked for, but perhaps not as it was meant.
    Hint,
}

/// One thing that is not as it could be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    pub about: About,
    pub problem: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What to do: mostly a command.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

/// An object, as kubectl names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct About {
    /// `service`.
    pub kind: String,
    /// Empty for what is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Empty for the cluster as a whole.
    pub name: String,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace.as_str(), self.name.as_str()) {
            (_, "") => write!(f, "{}", self.kind),
            ("", name) => write!(f, "{}/{name}", self.kind),
            (namespace, name) => write!(f, "{}/{name} in {namespace}", self.kind),
        }
    }
}

impl About {
    fn of(kind: &str, metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { kind: kind.to_owned(), namespace: text(&metadata.namespace), name: text(&metadata.name) }
    }

    fn cluster() -> Self {
        Self { kind: "cluster".to_owned(), namespace: String::new(), name: String::new() }
    }
}

/// Which families there could be.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// Those of Services.
    services: Option<Families>,
    /// Those of pods.
    pods: Option<Families>,
}

impl Cluster {
    /// Both families work, or are meant to.
    fn is_dual(self) -> bool {
        self.services.is_some_and(Families::is_dual)
    }
}

/// Everything that is found.
#[must_use]
pub fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let cluster = Cluster { services: families::of_services(snapshot), pods: families::of_pods(snapshot) };
    let mut found = whole(cluster);
    found.extend(nodes::check(snapshot, cluster));
    found.extend(pods::check(snapshot));
    found.extend(services::check(snapshot, cluster));
    found.extend(policies::check(snapshot, cluster));
    found.extend(custom::check(snapshot));
    found.extend(views::check(snapshot));
    found.sort();
    found.dedup();
    found
}

/// Services and pods have the same families.
fn whole(cluster: Cluster) -> Vec<Finding> {
    let (Some(services), Some(pods)) = (cluster.services, cluster.pods) else { return Vec::new() };
    if services.is_dual() == pods.is_dual() {
        return Vec::new();
    }
    let (has, lacks, flag) = match services.is_dual() {
        true => ("Services", "pods", "--cluster-cidr of the controller manager"),
        false => ("pods", "Services", "--service-cluster-ip-range of the API server and the controller manager"),
    };
    let one = if services.is_dual() { pods.primary() } else { services.primary() };
    vec![Finding {
        severity: Severity::Warning,
        about: About::cluster(),
        problem: format!("{has} have both families, {lacks} only {one}"),
        why: String::new(),
        mend: format!("give {flag} a range of {} too", one.other()),
    }]
}

#[cfg(test)]
mod tests;
