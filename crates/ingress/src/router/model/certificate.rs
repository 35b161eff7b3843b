//! Certificates of claims: read, checked against their key, and written anew, so that HAProxy never sees bytes of a user.

use crate::router::text;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::{fmt, sync::Arc};

/// A chain with its key, as HAProxy reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    pem: Arc<str>,
    fingerprint: String,
}

/// Never shows the key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.fingerprint).finish()
    }
}

impl Certificate {
    /// Reads PEM of a chain, its key, and certificates to append. The error completes a sentence about the field.
    pub fn read(chain: &str, key: &str, more: &str) -> Result<Self, String> {
        let mut all = certificates(chain)?;
        if all.is_empty() {
            return Err("holds no certificate".to_owned());
        }
        all.extend(certificates(more).map_err(|error| format!("has CA certificates that cannot be read: {error}"))?);
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| "has no private key that can be read".to_owned())?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        CertifiedKey::from_der(all.clone(), key.clone_key(), &provider)
            .map_err(|error| format!("does not fit its private key: {error}"))?;
        let label = match &key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let chain: String = all.iter().map(|certificate| encoded("CERTIFICATE", certificate)).collect();
        let pem = format!("{chain}{}", encoded(label, key.secret_der()));
        Ok(Self { fingerprint: text::digest(&pem), pem: pem.into() })
    }

    /// Chain and key.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The same for the same content; names the file.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// PEM of certificates alone, read and written anew.
pub(super) fn authorities(pem: &str) -> Result<String, String> {
    let all = certificates(pem)?;
    if all.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    Ok(all.iter().map(|certificate| encoded("CERTIFICATE", certificate)).collect())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|_| "is no PEM".to_owned())?;
    for certificate in &read {
        let whole = x509_parser::parse_x509_certificate(certificate).is_ok_and(|(rest, _)| rest.is_empty());
        if !whole {
            return Err("holds a certificate that cannot be read".to_owned());
        }
    }
    Ok(read)
}

fn encoded(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::model::testing;

    #[test]
    fn a_certificate_must_fit_its_key() {
        let (one, two) = (testing::certificate("a.test"), testing::certificate("b.test"));
        let good = Certificate::read(&one.0, &one.1, "").unwrap();
        assert_eq!(Certificate::read(&format!("noise\n{}", one.0), &one.1, "").unwrap(), good);
        assert!(!format!("{good:?}").contains("PRIVATE"));
        for (chain, key, more, error) in [
            ("", one.1.as_str(), "", "holds no certificate"),
            (one.0.as_str(), two.1.as_str(), "", "does not fit its private key"),
            (one.0.as_str(), "", "", "has no private key"),
            (
                one.0.as_str(),
                one.1.as_str(),
                "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
                "has CA certificates",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                one.1.as_str(),
                "",
                "holds a certificate",
            ),
        ] {
            let found = Certificate::read(chain, key, more).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
