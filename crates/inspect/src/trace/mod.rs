//! How a request of each family travels to a Service or a Route, step by step, and where it ends.

mod route;
mod service;

use crate::Snapshot;
use net::Family;
use serde::Serialize;

/// The way of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    #[serde(serialize_with = "in_words")]
    pub family: Family,
    /// What it passes, in this order.
    pub steps: Vec<Step>,
    /// Why it goes no further; nothing if it arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
}

/// One thing on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `DNS`, `load balancer`, `node port`, `cluster IP`, `endpoint`.
    pub what: &'static str,
    /// In words.
    pub detail: String,
}

/// Where a request is to go.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// `service` or `route`.
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The domain of Services.
    pub domain: &'a str,
}

/// The way of each family; nothing if there is no such object.
#[must_use]
pub fn trace(snapshot: &Snapshot, target: Target<'_>) -> Option<Vec<Trace>> {
    match target.kind {
        "service" => service::traces(snapshot, target),
        "route" => route::traces(snapshot, target),
        _ => None,
    }
}

fn in_words<S: serde::Serializer>(family: &Family, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(family)
}

/// A way that is being walked.
struct Walk {
    family: Family,
    steps: Vec<Step>,
}

impl Walk {
    fn new(family: Family) -> Self {
        Self { family, steps: Vec::new() }
    }

    fn pass(&mut self, what: &'static str, detail: impl Into<String>) {
        self.steps.push(Step { what, detail: detail.into() });
    }

    fn ends(self, why: impl Into<String>) -> Trace {
        Trace { family: self.family, steps: self.steps, ends: Some(why.into()) }
    }

    fn arrives(self) -> Trace {
        Trace { family: self.family, steps: self.steps, ends: None }
    }
}

#[cfg(test)]
mod tests;
