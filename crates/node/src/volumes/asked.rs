//! Projected sources that the cluster must be asked for: tokens of the service account, bundles of authorities.

use super::{
    Volumes, claims,
    file::{DEFAULT_MODE, File, Files, file, inside},
    tokens::Wanted,
};
use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, Pod, ProjectedVolumeSource};
use kube::api::ApiResource;
use runtime::controller::matches_labels;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Volumes {
    /// Files by the place of their source in the list.
    pub(super) async fn asked(
        &self,
        pod: &Pod,
        source: &ProjectedVolumeSource,
    ) -> Result<BTreeMap<usize, Files>, String> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let mut found = BTreeMap::new();
        for (at, source) in source.sources.iter().flatten().enumerate() {
            if let Some(token) = &source.service_account_token {
                inside(&token.path)?;
                let wanted = Wanted::new(pod, token.audience.as_deref(), token.expiration_seconds);
                let (text, _) = self.tokens.get(&wanted).await?;
                found.insert(at, Files::from([(token.path.clone(), of_token(pod, text, mode))]));
            } else if let Some(bundle) = &source.cluster_trust_bundle {
                inside(&bundle.path)?;
                let text = self.bundle(bundle).await?;
                found.insert(at, Files::from([(bundle.path.clone(), file(text, mode))]));
            } else if source.pod_certificate.is_some() {
                return Err("podCertificate: certificates for Pods are not issued by this kubelet".to_owned());
            }
        }
        Ok(found)
    }

    /// The authorities of one bundle, or of all of a signer that are selected; an empty file if there is none and that is fine.
    async fn bundle(&self, wanted: &ClusterTrustBundleProjection) -> Result<String, String> {
        let optional = wanted.optional.unwrap_or_default();
        let mut text = String::new();
        // Before 1.37 there is only the second.
        for version in ["v1", "v1beta1"] {
            let kind = claims::resource("certificates.k8s.io", version, "ClusterTrustBundle", "clustertrustbundles");
            text = merged(&self.chosen(&kind, wanted).await?);
            if !text.is_empty() {
                break;
            }
        }
        if text.is_empty() && !optional {
            let name = wanted.name.as_deref().or(wanted.signer_name.as_deref()).unwrap_or_default();
            return Err(format!("clustertrustbundle {name:?} not found"));
        }
        Ok(text)
    }

    async fn chosen(&self, kind: &ApiResource, wanted: &ClusterTrustBundleProjection) -> Result<Vec<Value>, String> {
        let signer = match (&wanted.name, &wanted.signer_name) {
            (Some(name), _) => return Ok(claims::get(&self.client, kind, None, name).await?.into_iter().collect()),
            (None, Some(signer)) => signer.as_str(),
            (None, None) => return Ok(Vec::new()),
        };
        let fits = |one: &Value| {
            let labels: BTreeMap<String, String> =
                serde_json::from_value(one["metadata"]["labels"].clone()).unwrap_or_default();
            let selector = wanted.label_selector.as_ref();
            one["spec"]["signerName"] == signer
                && selector.is_some_and(|selector| matches_labels(selector, Some(&labels)))
        };
        Ok(claims::list(&self.client, kind).await?.into_iter().filter(fits).collect())
    }
}

/// A token is for the Pod's user alone: 0600 where a group or a user is known, and the user's own if all containers have the same.
fn of_token(pod: &Pod, text: String, mode: i32) -> File {
    let owner = user(pod);
    let group = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.fs_group);
    let mode = if owner.is_some() || group.is_some() { 0o600 } else { mode };
    File { owner, ..file(text, mode) }
}

/// The user that all containers run as, if that is said and the same for all.
fn user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let users: BTreeSet<Option<i64>> =
        all.map(|one| one.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)).collect();
    match users.into_iter().collect::<Vec<_>>()[..] {
        [Some(user)] => u32::try_from(user).ok(),
        _ => None,
    }
}

/// Each certificate once, in a fixed order.
fn merged(bundles: &[Value]) -> String {
    let mut found = BTreeSet::new();
    for bundle in bundles {
        let text = bundle["spec"]["trustBundle"].as_str().unwrap_or_default();
        for part in text.split_inclusive("-----END CERTIFICATE-----") {
            if let Some(at) = part.find("-----BEGIN CERTIFICATE-----") {
                found.insert(part[at..].trim().to_owned());
            }
        }
    }
    found.into_iter().map(|one| one + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: Value) -> Pod {
        objects::from_value(&json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_token_belongs_to_the_one_user_of_the_pod() {
        for (spec, want) in [
            (json!({"containers": [{"name": "a"}]}), (None, 0o644)),
            (json!({"containers": [{"name": "a"}], "securityContext": {"fsGroup": 5}}), (None, 0o600)),
            (json!({"containers": [{"name": "a"}], "securityContext": {"runAsUser": 7}}), (Some(7), 0o600)),
            (
                json!({"containers": [{"name": "a", "securityContext": {"runAsUser": 8}}, {"name": "b"}], "securityContext": {"runAsUser": 7}}),
                (None, 0o644),
            ),
        ] {
            let file = of_token(&pod(spec.clone()), "t".into(), 0o644);
            assert_eq!((file.owner, file.mode), want, "{spec}");
        }
    }

    #[test]
    fn bundles_are_merged_without_doubles() {
        let one = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----";
        let two = "-----BEGIN CERTIFICATE-----\nBB\n-----END CERTIFICATE-----";
        let bundle = |text: String| json!({"spec": {"trustBundle": text}});
        let all = [bundle(format!("comment\n{two}\n{one}\n")), bundle(format!("{one}\n"))];
        assert_eq!(merged(&all), format!("{one}\n{two}\n"));
    }
}
