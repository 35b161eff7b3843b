//! The file of `--admission-control-config-file`: `apiserver.config.k8s.io/v1` AdmissionConfiguration, a list of plugins with
//! their configuration inside it or in a file beside it.

use super::pod_security::PodSecurity;
use crate::webhook::Credentials;
use api::{error::FieldError, path::Path as FieldPath};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

const ENVELOPE: Envelope = Envelope {
    api_versions: &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"],
    kind: "AdmissionConfiguration",
};

/// Why the file is not accepted. Not retryable.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// Not there, not YAML, or not of this shape.
    #[error("{0}")]
    Unreadable(String),
    /// Fields that break rules.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

/// What the file says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AdmissionConfiguration {
    /// Of the plugin PodSecurity.
    pub pod_security: Option<PodSecurity>,
    /// Of the plugin MutatingAdmissionWebhook.
    pub mutating_webhooks: Option<Credentials>,
    /// Of the plugin ValidatingAdmissionWebhook.
    pub validating_webhooks: Option<Credentials>,
}

const PLUGINS: [&str; 3] = ["MutatingAdmissionWebhook", "PodSecurity", "ValidatingAdmissionWebhook"];
const WEBHOOKS: Envelope = Envelope {
    api_versions: &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"],
    kind: "WebhookAdmissionConfiguration",
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawWebhooks {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    kube_config_file: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    plugins: Vec<RawPlugin>,
}

/// What a configuration must call itself: its kind, in one of these versions.
pub(super) struct Envelope {
    pub(super) api_versions: &'static [&'static str],
    pub(super) kind: &'static str,
}

impl Envelope {
    /// Refuses what calls itself something else; `path` is where it stands.
    pub(super) fn check(&self, path: &FieldPath, api_version: &str, kind: &str, errors: &mut Vec<FieldError>) {
        if !self.api_versions.contains(&api_version) {
            errors.push(FieldError::not_supported(&path.child("apiVersion"), api_version, self.api_versions));
        }
        if kind != self.kind {
            errors.push(FieldError::not_supported(&path.child("kind"), kind, &[self.kind]));
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPlugin {
    #[serde(default)]
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    configuration: Option<Value>,
}

impl AdmissionConfiguration {
    /// Reads the file, and those that it names; paths in it start at its own folder.
    pub fn load(file: &Path) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(file).map_err(|error| ConfigurationError::Unreadable(error.to_string()))?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, folder)
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, ConfigurationError> {
        let open = |path: &str| std::fs::read_to_string(folder.join(path)).map_err(|error| error.to_string());
        let raw: Raw =
            serde_saphyr::from_str(text).map_err(|error| ConfigurationError::Unreadable(error.to_string()))?;
        let Raw { api_version, kind, plugins } = raw;
        let mut errors = Vec::new();
        ENVELOPE.check(&FieldPath::root(), &api_version, &kind, &mut errors);
        let mut read = Self::default();
        let mut seen = BTreeSet::new();
        for (index, RawPlugin { name, path, configuration }) in plugins.into_iter().enumerate() {
            let at = FieldPath::new("plugins").index(index);
            if !PLUGINS.contains(&name.as_str()) {
                errors.push(FieldError::not_supported(&at.child("name"), name, &PLUGINS));
                continue;
            }
            if !seen.insert(name.clone()) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
                continue;
            }
            let given = match (configuration, path.as_str()) {
                (Some(_), path) if !path.is_empty() => {
                    errors.push(FieldError::forbidden(&at.child("path"), "configuration is given too; one of both"));
                    continue;
                }
                (Some(value), _) => Ok(value),
                (None, "") => {
                    errors.push(FieldError::required(&at.child("configuration"), "or path"));
                    continue;
                }
                (None, path) => {
                    open(path).and_then(|text| serde_saphyr::from_str(&text).map_err(|error| error.to_string()))
                }
            };
            let inside = at.child("configuration");
            let taken = match (given, name.as_str()) {
                (Err(why), _) => Err(vec![FieldError::invalid(&at.child("path"), path, why)]),
                (Ok(value), "PodSecurity") => {
                    PodSecurity::read(value, &inside).map(|config| read.pod_security = Some(config))
                }
                (Ok(value), "MutatingAdmissionWebhook") => {
                    webhooks(value, &inside, folder).map(|config| read.mutating_webhooks = config)
                }
                (Ok(value), _) => webhooks(value, &inside, folder).map(|config| read.validating_webhooks = config),
            };
            errors.extend(taken.err().into_iter().flatten());
        }
        if errors.is_empty() { Ok(read) } else { Err(ConfigurationError::Invalid(errors)) }
    }
}

/// What webhooks are shown, from the file that their configuration names.
fn webhooks(value: Value, path: &FieldPath, folder: &Path) -> Result<Option<Credentials>, Vec<FieldError>> {
    let RawWebhooks { api_version, kind, kube_config_file: file } = serde_json::from_value(value.clone())
        .map_err(|error| vec![FieldError::invalid(path, value, error.to_string())])?;
    let mut errors = Vec::new();
    WEBHOOKS.check(path, &api_version, &kind, &mut errors);
    let read = match file.as_str() {
        "" => Ok(None),
        file => Credentials::load(&folder.join(file)).map(Some),
    };
    let read = read.map_err(|why| errors.push(FieldError::invalid(&path.child("kubeConfigFile"), file, why)));
    read.ok().filter(|_| errors.is_empty()).ok_or(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::pod_security::{Level, Standard, Version};

    const INSIDE: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.26, warn: restricted}
    exemptions: {usernames: [system:admin], namespaces: [kube-system], runtimeClasses: [gvisor]}
";

    #[test]
    fn a_configuration_is_read_from_the_file_or_from_one_beside_it() {
        let read = AdmissionConfiguration::parse(INSIDE, Path::new("")).unwrap();
        let config = read.pod_security.clone().unwrap();
        assert_eq!(config.defaults.enforce, Standard { level: Level::Baseline, version: Version::Minor(26) });
        assert_eq!(config.defaults.warn, Standard { level: Level::Restricted, version: Version::Latest });
        assert_eq!(config.exemptions.runtime_classes, ["gvisor"]);

        let folder = tempfile::tempdir().unwrap();
        let (head, inner) = INSIDE.split_once("  configuration:\n").unwrap();
        std::fs::write(folder.path().join("psa.yaml"), inner.replace("\n    ", "\n").trim_start()).unwrap();
        let file = folder.path().join("admission.yaml");
        std::fs::write(&file, format!("{head}  path: psa.yaml\n")).unwrap();
        assert_eq!(AdmissionConfiguration::load(&file), Ok(read));
    }

    #[test]
    fn every_mistake_is_told_with_its_field() {
        let wrong = INSIDE
            .replace("enforce: baseline", "enforce: Baseline")
            .replace("v1.26", "1.26.0")
            .replace("[kube-system]", "[kube-system, kube-system]")
            .replace("[system:admin]", "['']")
            + "- name: ResourceQuota\n  configuration: {}\n";
        let message = AdmissionConfiguration::parse(&wrong, Path::new("")).unwrap_err().to_string();
        let at = "plugins[0].configuration";
        assert_eq!(
            message,
            format!(
                "{at}.defaults.enforce: Invalid value: \"Baseline\": must be one of privileged, baseline, restricted; \
                 {at}.defaults.enforce-version: Invalid value: \"1.26.0\": must be \"latest\" or \"v1.x\"; \
                 {at}.exemptions.usernames[0]: Invalid value: \"\": must not be empty; \
                 {at}.exemptions.namespaces[1]: Duplicate value: \"kube-system\"; \
                 plugins[1].name: Unsupported value: \"ResourceQuota\": supported values: \"MutatingAdmissionWebhook\", \"PodSecurity\", \"ValidatingAdmissionWebhook\""
            )
        );
        let strange = INSIDE.replace("defaults:", "default:");
        let message = AdmissionConfiguration::parse(&strange, Path::new("")).unwrap_err().to_string();
        assert!(message.contains(at) && message.contains("default"), "{message}");
    }
}
