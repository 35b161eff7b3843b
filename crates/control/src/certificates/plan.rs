//! Which requests a signer signs, which are approved without a person, and when one is cleared away. Pure.

use super::{CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use runtime::pki::CertificateRequest;
use std::{collections::BTreeSet, time::Duration};

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// How long a request stays that was answered.
const ANSWERED: SignedDuration = SignedDuration::from_hours(1);
/// How long one stays that nobody answered.
const PENDING: SignedDuration = SignedDuration::from_hours(24);
/// The shortest life of a certificate.
const SHORTEST: Duration = Duration::from_secs(600);

/// Whether it has this condition.
#[must_use]
pub fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    condition(request, kind).is_some()
}

/// Whether a person or the approver said yes, and nobody no.
#[must_use]
pub fn is_approved(request: &CertificateSigningRequest) -> bool {
    has(request, "Approved") && !has(request, "Denied")
}

/// Whether it has its certificate.
#[must_use]
pub fn is_issued(request: &CertificateSigningRequest) -> bool {
    certificate(request).is_some()
}

fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    Some(certificate.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

fn condition<'a>(request: &'a CertificateSigningRequest, kind: &str) -> Option<&'a CertificateSigningRequestCondition> {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == kind)
}

/// Why this signer does not sign it.
pub fn refusal(signer: &str, request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    let usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    match signer {
        KUBELET_SERVING_SIGNER => kubelet_serving(request, &usages),
        KUBELET_CLIENT_SIGNER => kubelet_client(request, &usages),
        CLIENT_SIGNER => client(&usages),
        // It promises nothing, and so it asks for nothing.
        _ => Ok(()),
    }
}

fn kubelet_serving(request: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    let wrong = match () {
        () if request.organizations != [NODES] => "subject organization is not system:nodes",
        () if request.dns_names.is_empty() && request.addresses.is_empty() => "DNS or IP subjectAltName is required",
        () if !request.emails.is_empty() => "Email subjectAltNames are not allowed",
        () if !request.uris.is_empty() => "URI subjectAltNames are not allowed",
        () if !are(usages, "server auth") => {
            return Err("usages did not match [digital signature key encipherment server auth]".to_owned());
        }
        () if !request.common_name.starts_with(NODE_PREFIX) => "subject common name does not begin with system:node:",
        () => return Ok(()),
    };
    Err(wrong.to_owned())
}

fn kubelet_client(request: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    let wrong = match () {
        () if request.organizations != [NODES] => "subject organization is not system:nodes",
        () if !request.dns_names.is_empty() => "DNS subjectAltNames are not allowed",
        () if !request.emails.is_empty() => "Email subjectAltNames are not allowed",
        () if !request.addresses.is_empty() => "IP subjectAltNames are not allowed",
        () if !request.uris.is_empty() => "URI subjectAltNames are not allowed",
        () if !request.common_name.starts_with(NODE_PREFIX) => "subject common name does not begin with system:node:",
        () if !are(usages, "client auth") => "usages did not match [client auth digital signature key encipherment]",
        () => return Ok(()),
    };
    Err(wrong.to_owned())
}

/// A signature and this purpose; with RSA keys also encipherment.
fn are(usages: &BTreeSet<&str>, purpose: &str) -> bool {
    let without = BTreeSet::from(["digital signature", purpose]);
    let with = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    *usages == without || *usages == with
}

fn client(usages: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(other) =
        usages.iter().find(|usage| !["digital signature", "key encipherment", "client auth"].contains(usage))
    {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    match usages.contains("client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

/// A right by which a request is approved without a person: the subresource that the asker may create, and what is said then.
pub type AutoApproval = (&'static str, &'static str);

/// The rights that would do for this request, the least first.
#[must_use]
pub fn auto_approvals(asked: &CertificateSigningRequest, request: &CertificateRequest) -> Vec<AutoApproval> {
    let spec = &asked.spec;
    let usages: BTreeSet<&str> = spec.usages.iter().flatten().map(String::as_str).collect();
    if spec.signer_name != KUBELET_CLIENT_SIGNER || kubelet_client(request, &usages).is_err() {
        return Vec::new();
    }
    let mut rights = vec![("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")];
    if spec.username.as_deref() == Some(&request.common_name) {
        let own = "Auto approving self kubelet client certificate after SubjectAccessReview.";
        rights.insert(0, ("selfnodeclient", own));
    }
    rights
}

/// How long a certificate lives: as asked, within what the signer gives.
#[must_use]
pub fn lifetime(asked_seconds: Option<i32>, longest: Duration) -> Duration {
    match asked_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs) {
        Some(asked) if asked <= longest => asked.max(SHORTEST),
        _ => longest,
    }
}

/// Whether a request has stayed long enough. `ends` is when its certificate runs out.
#[must_use]
pub fn is_stale(request: &CertificateSigningRequest, ends: Option<Timestamp>, now: Timestamp) -> bool {
    let older =
        |time: Option<Timestamp>, than: SignedDuration| time.is_some_and(|time| now.duration_since(time) > than);
    let set =
        |kind: &str| condition(request, kind).and_then(|known| known.last_update_time.as_ref()).map(|time| time.0);
    let approved = if is_issued(request) { ANSWERED } else { PENDING };
    let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let undecided = request.status.as_ref().and_then(|status| status.conditions.as_ref()).is_none_or(Vec::is_empty);
    older(set("Approved"), approved)
        || older(set("Denied"), ANSWERED)
        || older(set("Failed"), ANSWERED)
        || (undecided && older(created, PENDING))
        || (has(request, "Approved") && ends.is_some_and(|ends| now > ends))
}
