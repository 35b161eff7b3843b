//! ClusterTrustBundle: authorities that workloads may trust, named after the signer that they belong to.

use super::{pem, signer_name};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, NAME},
        edit::in_version,
        names,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;
use std::borrow::Cow;

/// Bytes of a bundle.
const MOST: usize = 1024 * 1024;

/// Rules of certificates.k8s.io/v1 ClusterTrustBundle.
pub(in crate::kinds) struct ClusterTrustBundle;

impl Rules for ClusterTrustBundle {
    fn validate(&self, bundle: &Value) -> Errors {
        let mut errors = about_names(bundle);
        anchors(&mut errors, bundle.str_at("spec.trustBundle"));
        errors
    }

    fn validate_update(&self, bundle: &Value, old: &Value) -> Errors {
        let mut errors = match bundle.at("spec.trustBundle") == old.at("spec.trustBundle") {
            true => about_names(bundle),
            false => self.validate(bundle),
        };
        let path = Path::new("spec").child("signerName");
        check::immutable(&mut errors, &path, bundle.at("spec.signerName"), old.at("spec.signerName"));
        errors
    }

    /// With a signer the name has its colons; `about_names` has the rest.
    fn name_mistakes(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_subdomain(name.rsplit_once(':').map_or(name, |(_, name)| name), prefix)
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        in_version(object, "certificates.k8s.io/v1beta1")
    }

    fn show_stored(&self, object: &mut Value) {
        object.set("apiVersion", "certificates.k8s.io/v1");
    }

    fn shows_as_stored(&self, _revision: u64) -> bool {
        false
    }

    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("certificates.k8s.io", "v1beta1"))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("SignerName", "string", 0, "Whose authorities these are")])
    }

    fn cells(&self, bundle: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(bundle), columns::or(bundle.str_at("spec.signerName"), "<none>").into()]
    }
}

fn about_names(bundle: &Value) -> Errors {
    let mut errors = Errors::new();
    let (name, signer) = (bundle.str_at("metadata.name"), bundle.str_at("spec.signerName"));
    let path = Path::new("metadata").child("name");
    if signer.is_empty() {
        if name.contains(':') {
            let text = "ClusterTrustBundle without signer name must not have \":\" in its name";
            errors.push(FieldError::invalid(&path, name, text));
        }
        return errors;
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    if !name.starts_with(&prefix) {
        let text = format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}");
        errors.push(FieldError::invalid(&path, name, text));
    }
    signer_name(&mut errors, &Path::new("spec").child("signerName"), signer);
    errors
}

fn anchors(errors: &mut Errors, text: &str) {
    let path = Path::new("spec").child("trustBundle");
    let mut wrong = |text: String| errors.push(FieldError::invalid(&path, "<value omitted>", text));
    let blocks = pem::blocks(text);
    match () {
        () if text.len() > MOST => errors.push(FieldError::too_long(&path, MOST)),
        () if blocks.is_empty() => wrong("at least one trust anchor must be provided".to_owned()),
        () => {
            for (i, block) in blocks.iter().enumerate() {
                let first = blocks[..i].iter().position(|other| other == block);
                match first {
                    _ if block.label != "CERTIFICATE" => {
                        wrong(format!("entry {i} has bad block type: {}", block.label))
                    }
                    _ if block.has_headers => wrong(format!("entry {i} has PEM block headers")),
                    Some(first) => wrong(format!("duplicate trust anchor (indices [{first} {i}])")),
                    None => {}
                }
            }
        }
    }
}
