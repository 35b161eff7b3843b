//! Whose rules hold: `--service-family-rules`.

use std::{fmt, str::FromStr};

/// Which of two sets of rules decides where they differ.
///
/// Everything that [`Upstream`](Self::Upstream) accepts, [`Seed`](Self::Seed) accepts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RuleSet {
    /// The dual-stack proposal: two families or two addresses mean that both are required, `clusterIPs` may stand without
    /// `clusterIP`, ExternalName loses family fields, headless Services without selector keep what they were given, and an
    /// update that leaves families and addresses alone passes though the cluster has lost a family.
    #[default]
    Seed,
    /// Exactly what kube-apiserver does.
    Upstream,
}

/// The text names no set of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a set of rules; accepted are seed and upstream")]
pub struct UnknownRules(pub String);

impl FromStr for RuleSet {
    type Err = UnknownRules;

    fn from_str(text: &str) -> Result<Self, UnknownRules> {
        match text {
            "seed" => Ok(Self::Seed),
            "upstream" => Ok(Self::Upstream),
            _ => Err(UnknownRules(text.to_owned())),
        }
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Seed => "seed",
            Self::Upstream => "upstream",
        })
    }
}
