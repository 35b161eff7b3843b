//! Which admission plugins run: what is on anyhow, what can be switched, and what does not exist here.
//!
//! Read from `--enable-admission-plugins` and `--disable-admission-plugins`; names are upstream's.

use super::{configuration::AdmissionConfiguration, pod_security::PodSecurity};
use crate::webhook::Credentials;
use std::sync::Arc;

/// Always on: their work is part of the server.
const ALWAYS: [&str; 13] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "NamespaceLifecycle",
    "NodeRestriction",
    "PersistentVolumeClaimResize",
    "Priority",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
];
/// Can be switched.
const SWITCHED: [&str; 10] = [
    "DenyServiceExternalIPs",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "PodSecurity",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];
/// Upstream's others. Asking for one of them is a mistake, for it would protect nothing; doing without is what happens anyway.
const ABSENT: [&str; 14] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "PodTopologyLabels",
];

/// A choice of plugins that cannot be had. Not retryable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PluginsError {
    /// No such name.
    #[error("there is no plugin {0:?}; here are {list}", list = [&ALWAYS[..], &SWITCHED].concat().join(", "))]
    Unknown(String),
    /// Upstream has it, this server does not.
    #[error("{0} is not built here; it would protect nothing")]
    Absent(String),
    /// On for good.
    #[error("{0} cannot be switched off; {list} can", list = SWITCHED.join(", "))]
    Always(String),
    /// Both on and off.
    #[error("{0} is both enabled and disabled; choose one")]
    Both(String),
}

/// What runs beside the rules of each kind.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// Pods get a service account and its token.
    pub service_account: bool,
    /// Pods keep to the standard of their namespace.
    pub pod_security: Option<Arc<PodSecurity>>,
    /// Services get no new external IPs.
    pub deny_service_external_ips: bool,
    /// Pods and claims keep to the limit ranges of their namespace.
    pub limit_ranger: bool,
    /// Namespaces keep to their quotas.
    pub resource_quota: bool,
    /// Pods cost what their runtime class says.
    pub runtime_class: bool,
    /// Policies that change objects are asked.
    pub mutating_policies: bool,
    /// Policies that refuse are asked.
    pub validating_policies: bool,
    /// Webhooks that change objects are asked.
    pub mutating_webhooks: bool,
    /// Webhooks that refuse are asked.
    pub validating_webhooks: bool,
    /// What webhooks that change objects are shown.
    pub mutating_credentials: Option<Arc<Credentials>>,
    /// What webhooks that refuse are shown.
    pub validating_credentials: Option<Arc<Credentials>>,
}

impl Default for Plugins {
    /// Upstream's choice.
    fn default() -> Self {
        Self {
            service_account: true,
            pod_security: Some(Arc::default()),
            deny_service_external_ips: false,
            limit_ranger: true,
            resource_quota: true,
            runtime_class: true,
            mutating_policies: true,
            validating_policies: true,
            mutating_webhooks: true,
            validating_webhooks: true,
            mutating_credentials: None,
            validating_credentials: None,
        }
    }
}

impl Plugins {
    /// The default choice, changed by both flags; every mistake is told with the flag it is in.
    pub fn choose(enable: &[String], disable: &[String]) -> Result<Self, Vec<(&'static str, PluginsError)>> {
        const ENABLE: &str = "enable-admission-plugins";
        const DISABLE: &str = "disable-admission-plugins";
        let mut mistakes = Vec::new();
        let is = |names: &[&str], name: &String| names.contains(&name.as_str());
        for (flag, names) in [(ENABLE, enable), (DISABLE, disable)] {
            for name in names {
                let mistake = match () {
                    () if is(&SWITCHED, name) => continue,
                    () if is(&ALWAYS, name) => (flag == DISABLE).then(|| PluginsError::Always(name.clone())),
                    () if is(&ABSENT, name) => (flag == ENABLE).then(|| PluginsError::Absent(name.clone())),
                    () => Some(PluginsError::Unknown(name.clone())),
                };
                mistakes.extend(mistake.map(|mistake| (flag, mistake)));
            }
        }
        let both = enable.iter().filter(|name| disable.contains(name));
        mistakes.extend(both.map(|name| (ENABLE, PluginsError::Both(name.clone()))));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut chosen = Self::default();
        for (names, on) in [(enable, true), (disable, false)] {
            for name in names {
                match name.as_str() {
                    "ServiceAccount" => chosen.service_account = on,
                    "PodSecurity" => chosen.pod_security = on.then(Arc::default),
                    "DenyServiceExternalIPs" => chosen.deny_service_external_ips = on,
                    "LimitRanger" => chosen.limit_ranger = on,
                    "ResourceQuota" => chosen.resource_quota = on,
                    "RuntimeClass" => chosen.runtime_class = on,
                    "MutatingAdmissionPolicy" => chosen.mutating_policies = on,
                    "ValidatingAdmissionPolicy" => chosen.validating_policies = on,
                    "MutatingAdmissionWebhook" => chosen.mutating_webhooks = on,
                    "ValidatingAdmissionWebhook" => chosen.validating_webhooks = on,
                    _ => {}
                }
            }
        }
        Ok(chosen)
    }

    /// Gives plugins their configuration: Pod Security if it runs, and webhooks what they are shown.
    pub fn configure(&mut self, configuration: AdmissionConfiguration) {
        let AdmissionConfiguration { pod_security, mutating_webhooks, validating_webhooks } = configuration;
        if let (Some(own), Some(given)) = (&mut self.pod_security, pod_security) {
            *own = Arc::new(given);
        }
        self.mutating_credentials = mutating_webhooks.map(Arc::new);
        self.validating_credentials = validating_webhooks.map(Arc::new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn plugins_are_chosen_by_name_and_mistakes_are_told_together() {
        let chosen = Plugins::choose(
            &words("NodeRestriction DenyServiceExternalIPs"),
            &words("ServiceAccount AlwaysPullImages"),
        )
        .unwrap();
        assert!(!chosen.service_account && chosen.deny_service_external_ips && chosen.pod_security.is_some());
        assert!(Plugins::choose(&[], &words("PodSecurity")).unwrap().pod_security.is_none());
        let mistakes =
            Plugins::choose(&words("PodSecurity EventRateLimit Podsecurity"), &words("PodSecurity NodeRestriction"))
                .unwrap_err();
        let text: Vec<String> = mistakes.iter().map(|(flag, mistake)| format!("--{flag}: {mistake}")).collect();
        assert_eq!(
            text,
            [
                "--enable-admission-plugins: EventRateLimit is not built here; it would protect nothing",
                "--enable-admission-plugins: there is no plugin \"Podsecurity\"; here are CertificateApproval, \
                 CertificateSigning, CertificateSubjectRestriction, ClusterTrustBundleAttest, DefaultIngressClass, DefaultStorageClass, \
                 DefaultTolerationSeconds, NamespaceLifecycle, NodeRestriction, PersistentVolumeClaimResize, Priority, \
                 StorageObjectInUseProtection, TaintNodesByCondition, DenyServiceExternalIPs, LimitRanger, \
                 MutatingAdmissionPolicy, MutatingAdmissionWebhook, PodSecurity, ResourceQuota, RuntimeClass, \
                 ServiceAccount, \
                 ValidatingAdmissionPolicy, ValidatingAdmissionWebhook",
                "--disable-admission-plugins: NodeRestriction cannot be switched off; DenyServiceExternalIPs, \
                 LimitRanger, MutatingAdmissionPolicy, MutatingAdmissionWebhook, PodSecurity, ResourceQuota, \
                 RuntimeClass, ServiceAccount, \
                 ValidatingAdmissionPolicy, ValidatingAdmissionWebhook can",
                "--enable-admission-plugins: PodSecurity is both enabled and disabled; choose one",
            ]
        );
    }
}
