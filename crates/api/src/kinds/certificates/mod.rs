//! Kinds of certificates.k8s.io: requests for certificates, bundles of authorities, certificates of pods.
//!
//! What needs to read a certificate is checked by the server (`apiserver::admission::certificates`).

mod bundle;
pub mod pem;
mod pod_request;
pub(super) mod projected;
mod request;

pub(super) use bundle::ClusterTrustBundle;
pub(super) use pod_request::PodCertificateRequest;
pub(super) use request::CertificateSigningRequest;

use super::{
    check::{self, Errors},
    names,
};
use crate::{error::FieldError, path::Path};

/// Signers of clients of the API server.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Signers of kubelets as clients of the API server.
pub const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signers of kubelets as servers.
pub const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Signers that promise nothing.
pub const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const DAY: i64 = 86_400;

/// How long certificates of pods may hold, in seconds: signers of Kubernetes itself give a day, others a quarter of a year.
fn longest(signer: &str) -> i64 {
    if signer.starts_with("kubernetes.io/") || signer.contains(".kubernetes.io/") { DAY } else { 91 * DAY }
}

/// A domain, a slash, a path: `example.com/signer-name`.
fn signer_name(errors: &mut Errors, path: &Path, name: &str) {
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        errors.push(match name {
            "" => FieldError::required(path, ""),
            name => FieldError::invalid(
                path,
                name,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ),
        });
        return;
    };
    if domain.len() > names::SUBDOMAIN_MAX {
        errors.push(FieldError::too_long(path, names::SUBDOMAIN_MAX));
    }
    for (segment, check) in [(domain, names::dns_label as fn(&str, bool) -> Vec<String>), (rest, names::dns_subdomain)]
    {
        let wrong = segment.split('.').map(|label| (label, check(label, false))).find(|(_, wrong)| !wrong.is_empty());
        if let Some((label, wrong)) = wrong {
            let wrong = wrong.into_iter().map(|why| format!("validating label {label:?}: {why}")).collect();
            check::all_of(errors, path, segment, wrong);
        }
    }
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, why));
    }
    // A domain, a slash, a label, a dot and a subdomain.
    let most = names::SUBDOMAIN_MAX + 1 + names::LABEL_MAX + 1 + names::SUBDOMAIN_MAX;
    if name.len() > most {
        errors.push(FieldError::too_long(path, most));
    }
}

#[cfg(test)]
mod tests;
