//! The configuration of Pod Security: what holds where a namespace says nothing, and who is exempt.
//!
//! `pod-security.admission.config.k8s.io/v1` PodSecurityConfiguration, inside the file of `--admission-control-config-file`.

use super::{
    super::configuration::Envelope,
    policy::{Level, Policy, Version},
};
use api::{error::FieldError, kinds::names, path::Path};
use serde::Deserialize;
use serde_json::Value;

const ENVELOPE: Envelope = Envelope {
    api_versions: &[
        "pod-security.admission.config.k8s.io/v1",
        "pod-security.admission.config.k8s.io/v1beta1",
        "pod-security.admission.config.k8s.io/v1alpha1",
    ],
    kind: "PodSecurityConfiguration",
};

/// What an administrator decides about Pod Security.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PodSecurity {
    /// Where labels do not say otherwise.
    pub defaults: Policy,
    /// Who is not looked at.
    pub exemptions: Exemptions,
}

/// Who is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Exemptions {
    /// By the name of the user who writes.
    pub usernames: Vec<String>,
    /// By namespace.
    pub namespaces: Vec<String>,
    /// By the pod's `runtimeClassName`.
    pub runtime_classes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Exemptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

impl PodSecurity {
    /// Reads the configuration; `path` is where in the file it stands, and every mistake is told.
    pub(crate) fn read(value: Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        let raw: Raw = serde_json::from_value(value.clone())
            .map_err(|error| vec![FieldError::invalid(path, Value::Null, error.to_string())])?;
        let Raw { api_version, kind, defaults, exemptions } = raw;
        let mut errors = Vec::new();
        ENVELOPE.check(path, &api_version, &kind, &mut errors);
        let policy = defaults.policy(&path.child("defaults"), &mut errors);
        exemptions.check(&path.child("exemptions"), &mut errors);
        if errors.is_empty() { Ok(Self { defaults: policy, exemptions }) } else { Err(errors) }
    }
}

impl Defaults {
    fn policy(&self, path: &Path, errors: &mut Vec<FieldError>) -> Policy {
        let mut policy = Policy::default();
        for (mode, name, level, version) in [
            (&mut policy.enforce, "enforce", &self.enforce, &self.enforce_version),
            (&mut policy.audit, "audit", &self.audit, &self.audit_version),
            (&mut policy.warn, "warn", &self.warn, &self.warn_version),
        ] {
            if !level.is_empty() {
                match Level::parse(level) {
                    Ok(level) => mode.level = level,
                    Err(why) => errors.push(FieldError::invalid(&path.child(name), level.as_str(), why)),
                }
            }
            if !version.is_empty() {
                let path = path.child(&format!("{name}-version"));
                match Version::parse(version) {
                    Ok(version) => mode.version = version,
                    Err(why) => errors.push(FieldError::invalid(&path, version.as_str(), why)),
                }
            }
        }
        policy
    }
}

impl Exemptions {
    fn check(&self, path: &Path, errors: &mut Vec<FieldError>) {
        check_names(&path.child("usernames"), &self.usernames, errors, |name| match name {
            "" => vec!["must not be empty".to_owned()],
            _ => Vec::new(),
        });
        check_names(&path.child("namespaces"), &self.namespaces, errors, |name| names::dns_label(name, false));
        let classes = path.child("runtimeClasses");
        check_names(&classes, &self.runtime_classes, errors, |name| names::dns_subdomain(name, false));
    }

    pub(super) fn of_user(&self, name: &str) -> bool {
        self.usernames.iter().any(|exempt| exempt == name)
    }

    pub(super) fn of_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == name)
    }

    pub(super) fn of_runtime_class(&self, name: &str) -> bool {
        self.runtime_classes.iter().any(|exempt| exempt == name)
    }
}

/// Each name once, and without what `mistakes` finds.
fn check_names(path: &Path, list: &[String], errors: &mut Vec<FieldError>, mistakes: impl Fn(&str) -> Vec<String>) {
    for (index, name) in list.iter().enumerate() {
        let path = path.index(index);
        let wrong = mistakes(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path, name.as_str(), wrong.join(", ")));
        } else if list[..index].contains(name) {
            errors.push(FieldError::duplicate(&path, name.as_str()));
        }
    }
}
