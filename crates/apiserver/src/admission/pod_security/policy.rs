//! Which Pod Security Standard holds in a namespace: level and version for each of enforce, audit and warn.
//!
//! Read from the labels `pod-security.kubernetes.io/*` over the defaults of the configuration. A wrong label fails closed for
//! enforce (restricted, latest) and open for audit and warn (privileged), as upstream does.

use api::{error::FieldError, path::Path};
use serde_json::{Map, Value};
use std::fmt;

/// What all labels and audit annotations begin with.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much a pod may do, the most permissive first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Privileged,
    /// What has no known way out of a container.
    Baseline,
    /// What is best practice.
    Restricted,
}

impl Level {
    /// The level of that name.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

/// The Kubernetes release whose rules are meant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// `v1.MINOR`.
    Minor(u32),
    /// The newest rules known here.
    Latest,
}

impl Version {
    /// `latest` or `v1.MINOR`, without leading zeros.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const ACCEPTED: &str = "must be \"latest\" or \"v1.x\"";
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let digits = digits.filter(|digits| *digits == "0" || !digits.starts_with('0')).ok_or(ACCEPTED)?;
        digits.parse().map(Self::Minor).map_err(|_| ACCEPTED)
    }
}

/// A level as one release defined it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standard {
    pub level: Level,
    /// The release.
    pub version: Version,
}

impl Standard {
    /// Everything is allowed, whatever the version.
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    fn same(self, other: Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// What happens to pods: refused, noted in the audit log, warned of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// What is refused.
    pub enforce: Standard,
    /// What the audit log notes.
    pub audit: Standard,
    /// What the client is warned of.
    pub warn: Standard,
}

impl Default for Policy {
    fn default() -> Self {
        Self { enforce: Standard::PRIVILEGED, audit: Standard::PRIVILEGED, warn: Standard::PRIVILEGED }
    }
}

impl Policy {
    /// The policy of a namespace with these labels, and what is wrong with them.
    pub(super) fn of(labels: Option<&Map<String, Value>>, defaults: Self) -> (Self, Vec<FieldError>) {
        let mut policy = defaults;
        let mut errors = Vec::new();
        let label = |name: &str| labels.and_then(|labels| labels.get(&format!("{PREFIX}{name}"))?.as_str());
        let mut wrong = |name: &str, value: &str, why: &str| {
            let path = Path::new("metadata").child("labels").key(&format!("{PREFIX}{name}"));
            errors.push(FieldError::invalid(&path, value, why));
        };
        let mut level_given = [None; 3];
        let modes = [&mut policy.enforce, &mut policy.audit, &mut policy.warn];
        for (index, (mode, name)) in modes.into_iter().zip(["enforce", "audit", "warn"]).enumerate() {
            if let Some(text) = label(name) {
                let fallback = if name == "enforce" { Level::Restricted } else { Level::Privileged };
                let parsed = Level::parse(text).inspect_err(|why| wrong(name, text, why));
                level_given[index] = Some(parsed.is_ok());
                mode.level = parsed.unwrap_or(fallback);
            }
            let name = format!("{name}-version");
            if let Some(text) = label(&name) {
                let parsed = Version::parse(text).inspect_err(|why| wrong(&name, text, why));
                mode.version = parsed.unwrap_or(Version::Latest);
            }
        }
        // Who enforces more than is warned of hears of it at the workload, not only at its pods.
        let [enforce, _, warn] = level_given;
        if warn.is_none() && enforce == Some(true) && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Whether nothing is to be looked at.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    /// Whether two policies say the same.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.enforce.same(other.enforce) && self.audit.same(other.audit) && self.warn.same(other.warn)
    }
}
