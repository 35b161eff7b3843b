//! A certificate as part of a projected volume: what a pod asks of its kubelet, which makes a PodCertificateRequest of it.

use super::{longest, pod_request::SHORTEST, signer_name};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        meta::ANNOTATIONS_MAX,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// The files that it may be written to.
pub(in crate::kinds) const FILES: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];

/// Mistakes in one, but for the names of its files.
pub(in crate::kinds) fn projected(errors: &mut Errors, path: &Path, certificate: &Value) {
    let signer = certificate.str_at("signerName");
    signer_name(errors, &path.child("signerName"), signer);
    user_annotations(errors, &path.child("userAnnotations"), certificate.at("userAnnotations"));
    check::one_of(errors, &path.child("keyType"), certificate.str_at("keyType"), &KEY_TYPES);
    if let Some(seconds) = certificate.int_at("maxExpirationSeconds") {
        let at = path.child("maxExpirationSeconds");
        if seconds < SHORTEST {
            let why = format!("if provided, maxExpirationSeconds must be >= {SHORTEST}");
            errors.push(FieldError::invalid(&at, seconds, why));
        }
        let most = longest(signer);
        if seconds > most {
            errors.push(FieldError::invalid(
                &at,
                seconds,
                format!("if provided, maxExpirationSeconds must be <= {most}"),
            ));
        }
    }
    if FILES.iter().all(|field| certificate.str_at(field).is_empty()) {
        errors.push(FieldError::required(path, format!("at least one of {}", FILES.join(", "))));
    }
}

/// What a pod tells a signer: keys with a domain before them.
pub(super) fn user_annotations(errors: &mut Errors, path: &Path, annotations: &Value) {
    let given = || annotations.as_object().into_iter().flatten();
    for (key, _) in given() {
        let before = errors.len();
        check::qualified_name(errors, path, &key.to_lowercase());
        if errors.len() == before && !key.contains('/') {
            errors.push(FieldError::invalid(path, key.as_str(), "must have a domain before it, like example.com/name"));
        }
    }
    let size: usize = given().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
}
