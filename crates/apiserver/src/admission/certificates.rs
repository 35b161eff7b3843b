//! What requests for certificates and bundles of authorities ask of the server: who asks, who may approve, sign and attest, and
//! whether what they carry can be read.
//!
//! Mirrors upstream's plugins CertificateApproval, CertificateSigning, CertificateSubjectRestriction and ClusterTrustBundleAttest.

use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
    verbs::write,
};
use access::authz::Attributes;
use api::{
    error::{ApiError, FieldError},
    kinds::certificates::{CLIENT_SIGNER, pem},
    object::{Fields, timestamp},
    path::Path,
    resource::differs_beyond_status,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use runtime::pki::CertificateRequest;
use serde_json::{Value, json};
use x509_parser::parse_x509_certificate;

/// Those who may do everything; nobody becomes one of them by a certificate that was asked for here.
const MASTERS: &str = "system:masters";

/// CertificateSigningRequests.
pub(crate) struct CertificateRequestKind;

impl ServerRules for CertificateRequestKind {
    fn admit_new<'a>(&self, call: &'a Call, request: &'a mut Value) -> Later<'a, ()> {
        let user = &call.user;
        for field in ["username", "uid", "groups", "extra"] {
            request.remove(&format!("spec.{field}"));
        }
        if request.at("spec").is_object() {
            let spec = request.at_mut("spec");
            spec.set("username", user.name.as_str());
            if !user.uid.is_empty() {
                spec.set("uid", user.uid.as_str());
            }
            if !user.groups.is_empty() {
                spec.set("groups", json!(user.groups));
            }
            if !user.extra.is_empty() {
                spec.set("extra", json!(user.extra));
            }
        }
        done(Ok(()))
    }

    fn admit_change<'a>(&self, call: &'a Call, request: &'a mut Value, old: &'a Value) -> Later<'a, ()> {
        if !call.request.subresource.is_empty() {
            let now = timestamp(call.server.now());
            for condition in api::kinds::edit::items(request, "status.conditions") {
                date(condition, old, &now);
            }
        }
        done(Ok(()))
    }

    fn check<'a>(&self, call: &'a Call, request: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(match (old, call.request.subresource.as_str()) {
            (None, _) => check_request(call, request),
            (Some(old), "approval") => {
                let signer = old.str_at("spec.signerName");
                may(call, "approve", signer, || {
                    format!("user not permitted to approve requests with signerName {signer:?}")
                })
            }
            (Some(old), "status") => check_status(call, request, old),
            _ => Ok(()),
        })
    }
}

/// A condition says when it was set, and when it became what it is.
fn date(condition: &mut Value, old: &Value, now: &str) {
    condition.set_default("lastUpdateTime", now);
    let same = |known: &&Value| ["type", "status"].iter().all(|field| known.at(field) == condition.at(field));
    let known = old.list_at("status.conditions").iter().find(same).map(|known| known.str_at("lastTransitionTime"));
    let since = known.filter(|time| !time.is_empty()).unwrap_or(now).to_owned();
    condition.set_default("lastTransitionTime", since);
}

fn check_request(call: &Call, request: &Value) -> Result<(), ApiError> {
    let encoded = request.str_at("spec.request");
    let text = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let path = Path::new("spec").child("request");
    let parsed = match CertificateRequest::from_pem(&text) {
        Ok(parsed) => parsed,
        Err(error) => {
            return write::refuse(call, request, &[FieldError::invalid(&path, encoded, error.to_string())]);
        }
    };
    if request.str_at("spec.signerName") == CLIENT_SIGNER && parsed.organizations.iter().any(|group| group == MASTERS) {
        let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
        return Err(forbidden(call, request, why));
    }
    Ok(())
}

fn check_status(call: &Call, request: &Value, old: &Value) -> Result<(), ApiError> {
    let differs = |field: &str| request.at(field) != old.at(field);
    if !differs("status.certificate") && !differs("status.conditions") {
        return Ok(());
    }
    let signer = old.str_at("spec.signerName");
    may(call, "sign", signer, || format!("user not permitted to sign requests with signerName {signer:?}"))?;
    if !differs("status.certificate") {
        return Ok(());
    }
    let text = STANDARD.decode(request.str_at("status.certificate")).unwrap_or_default();
    let blocks = pem::blocks(&String::from_utf8_lossy(&text));
    let wrong = blocks.iter().find_map(|block| parse_x509_certificate(&block.der).err());
    let errors: Vec<FieldError> = wrong
        .map(|error| {
            FieldError::invalid(&Path::new("status").child("certificate"), "<certificate data>", error.to_string())
        })
        .into_iter()
        .collect();
    write::refuse(call, request, &errors)
}

/// ClusterTrustBundles.
pub(crate) struct TrustBundleKind;

impl ServerRules for TrustBundleKind {
    fn check<'a>(&self, call: &'a Call, bundle: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(check_bundle(call, bundle, old))
    }
}

fn check_bundle(call: &Call, bundle: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let text = bundle.str_at("spec.trustBundle");
    let mut errors = Vec::new();
    if old.is_none_or(|old| old.str_at("spec.trustBundle") != text) {
        for (i, block) in pem::blocks(text).iter().enumerate() {
            let why = match parse_x509_certificate(&block.der) {
                Err(_) => "does not parse as X.509",
                Ok((_, certificate)) if !certificate.is_ca() => "does not have the CA bit set",
                Ok(_) => continue,
            };
            let path = Path::new("spec").child("trustBundle");
            errors.push(FieldError::invalid(&path, "<value omitted>", format!("entry {i} {why}")));
        }
    }
    write::refuse(call, bundle, &errors)?;
    let signer = bundle.str_at("spec.signerName");
    // What a migration or the garbage collector writes says nothing new.
    if signer.is_empty() || old.is_some_and(|old| !differs_beyond_status(bundle, old)) {
        return Ok(());
    }
    may(call, "attest", signer, || format!("user not permitted to attest for signerName {signer:?}"))
}

/// PodCertificateRequests.
pub(crate) struct PodCertificateKind;

impl ServerRules for PodCertificateKind {
    fn check<'a>(&self, call: &'a Call, request: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(match old {
            None => check_stub(call, request),
            Some(old) if call.request.subresource == "status" => check_issued(call, request, old),
            Some(_) => Ok(()),
        })
    }
}

fn stub(request: &Value) -> Result<CertificateRequest, String> {
    let der = STANDARD.decode(request.str_at("spec.stubPKCS10Request")).unwrap_or_default();
    CertificateRequest::from_der(&der).map_err(|error| error.to_string())
}

fn check_stub(call: &Call, request: &Value) -> Result<(), ApiError> {
    let path = Path::new("spec").child("stubPKCS10Request");
    let wrong = match stub(request) {
        Err(why) => Some(FieldError::invalid(&path, "<value omitted>", why)),
        Ok(stub) => stub.rsa_bits().filter(|bits| ![3072, 4096].contains(bits)).map(|bits| {
            let why = "RSA keys must have modulus size 3072 or 4096";
            FieldError::invalid(&path, format!("{bits}-bit modulus"), why)
        }),
    };
    write::refuse(call, request, wrong.as_slice())
}

fn check_issued(call: &Call, request: &Value, old: &Value) -> Result<(), ApiError> {
    if request.at("status") == old.at("status") {
        return Ok(());
    }
    let signer = old.str_at("spec.signerName");
    if !is_allowed(call, "sign", signer) {
        let why = format!("User {:?} is not permitted to \"sign\" for signer {signer:?}", call.user.name);
        let error = FieldError::forbidden(&Path::new("spec").child("signerName"), why);
        return write::refuse(call, request, &[error]);
    }
    let chain = request.str_at("status.certificateChain");
    if chain.is_empty() {
        return Ok(());
    }
    let errors: Vec<FieldError> = about_chain(request, chain, call.server.now()).into_iter().collect();
    write::refuse(call, request, &errors)
}

/// What is wrong with the certificates that were issued, the first mistake.
fn about_chain(request: &Value, chain: &str, now: jiff::Timestamp) -> Option<FieldError> {
    let path = Path::new("status");
    let about = |why: &str| Some(FieldError::invalid(&path.child("certificateChain"), chain, why));
    let blocks = pem::blocks(chain);
    if blocks.iter().skip(1).any(|block| parse_x509_certificate(&block.der).is_err()) {
        return about("intermediate certificate does not parse as valid X.509");
    }
    let Some(Ok((_, leaf))) = blocks.first().map(|block| parse_x509_certificate(&block.der)) else {
        return about("leaf certificate does not parse as valid X.509");
    };
    if !stub(request).is_ok_and(|stub| stub.is_for(&leaf)) {
        return about("leaf certificate was not issued to the requested public key");
    }
    let (from, until) = (leaf.validity().not_before.timestamp(), leaf.validity().not_after.timestamp());
    for (field, seconds, name) in [("notBefore", from, "NotBefore"), ("notAfter", until, "NotAfter")] {
        let given = request.str_at(&format!("status.{field}"));
        if given.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second) != Some(seconds) {
            let why = format!("must be set to the {name} time encoded in the leaf certificate");
            return Some(FieldError::invalid(&path.child(field), given, why));
        }
    }
    if (now.as_second() - from).abs() > 300 {
        let given = request.str_at("status.notBefore");
        let why = "must be set to within 5 minutes of kube-apiserver's current time";
        return Some(FieldError::invalid(&path.child("notBefore"), given, why));
    }
    let most = request.int_at("spec.maxExpirationSeconds").unwrap_or_default();
    match until - from {
        short if short < 3600 => about("leaf certificate lifetime must be >= 1 hour"),
        long if long > most => {
            about(&format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"))
        }
        _ => None,
    }
}

fn may(call: &Call, verb: &str, signer: &str, why: impl Fn() -> String) -> Result<(), ApiError> {
    if is_allowed(call, verb, signer) {
        return Ok(());
    }
    Err(ApiError::forbidden(&call.resource.plural, &call.resource.group, &call.request.name, why()))
}

/// A right to a signer, or to all of its domain.
fn is_allowed(call: &Call, verb: &str, signer: &str) -> bool {
    let all = signer.split_once('/').map(|(domain, _)| format!("{domain}/*")).unwrap_or_default();
    [signer, &all].into_iter().any(|name| {
        let asked = Attributes {
            version: "*",
            name,
            ..Attributes::resource(&call.user, verb, "certificates.k8s.io", "signers")
        };
        call.server.access.chain().authorize(&asked).allowed()
    })
}

fn forbidden(call: &Call, object: &Value, why: String) -> ApiError {
    ApiError::forbidden(&call.resource.plural, &call.resource.group, object.str_at("metadata.name"), why)
}
