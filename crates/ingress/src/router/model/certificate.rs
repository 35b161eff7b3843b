//! Certificates of claims: read, checked against their key, and written anew, so that HAProxy never sees bytes of a user.

use crate::router::text;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
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
    /// When the first of the chain ends, in seconds since 1970.
    ends: i64,
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
        let ends = first_end(&all)?;
        let more_read =
            certificates(more).map_err(|error| format!("has CA certificates that cannot be read: {error}"))?;
        if more_read.is_empty() && !more.trim().is_empty() {
            return Err("has CA certificates that cannot be read: there is no certificate among them".to_owned());
        }
        all.extend(more_read);
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
        Ok(Self { fingerprint: text::digest(&pem), pem: pem.into(), ends })
    }

    /// Refused when it has ended: clients would refuse it too, and its Route should say so.
    pub(super) fn valid_at(self, now: Timestamp) -> Result<Self, String> {
        if self.ends >= now.as_second() {
            return Ok(self);
        }
        let when = Timestamp::from_second(self.ends).map(|end| end.to_string()).unwrap_or_default();
        Err(format!("has expired, at {when}"))
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

/// When the first certificate ends. Its key must be one that HAProxy and clients take.
fn first_end(chain: &[CertificateDer<'static>]) -> Result<i64, String> {
    let unread = || "holds a certificate that cannot be read".to_owned();
    let first = chain.first().ok_or_else(unread)?;
    let (_, first) = x509_parser::parse_x509_certificate(first).map_err(|_| unread())?;
    let key = first.public_key().parsed().map_err(|_| unread())?;
    if let x509_parser::public_key::PublicKey::RSA(rsa) = key
        && rsa.key_size() < FEWEST_RSA_BITS
    {
        return Err(format!("has an RSA key of {} bits, and {FEWEST_RSA_BITS} are the least", rsa.key_size()));
    }
    Ok(first.validity().not_after.timestamp())
}

/// As OpenSSL wants by default, and upstream.
const FEWEST_RSA_BITS: usize = 2048;

/// PEM of certificates alone, read and written anew.
pub(crate) fn authorities(pem: &str) -> Result<String, String> {
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
            (one.0.as_str(), one.1.as_str(), "garbage", "has CA certificates"),
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
    #[test]
    fn one_that_has_ended_is_refused() {
        let (chain, key) = testing::certificate("a.test");
        let good = Certificate::read(&chain, &key, "").unwrap();
        let end = Timestamp::from_second(good.ends).unwrap();
        assert!(good.clone().valid_at(end).is_ok());
        let later = end + jiff::SignedDuration::from_secs(1);
        assert_eq!(good.valid_at(later).unwrap_err(), format!("has expired, at {end}"));
    }

    /// Made by `openssl req -x509 -newkey rsa:1024 -nodes -days 36500 -subj /CN=short.test`.
    #[test]
    fn a_short_key_is_named_as_such() {
        let error = Certificate::read(SHORT, "", "").unwrap_err();
        assert_eq!(error, "has an RSA key of 1024 bits, and 2048 are the least");
    }

    const SHORT: &str = include_str!("testdata/rsa-1024.pem");
}
