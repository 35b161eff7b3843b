//! Certificates of authorities, one or many in a PEM file (`--client-ca-file`, `ca.crt`). Used by `tls` to decide whom
//! to trust.

use super::{error::PkiError, validity::Validity};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::{path::Path, time::SystemTime};

/// At least one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
}

impl Bundle {
    /// What a bundle must be, for messages.
    const EXPECTED: &str = "one or more PEM certificates";

    /// Reads a PEM file.
    pub fn load(path: &Path) -> Result<Self, PkiError> {
        let pem = read(path)?;
        Self::parse(pem.as_bytes()).map_err(|problem| damaged(path, problem, Self::EXPECTED))
    }

    /// Reads PEM text. Everything in it that is a certificate must be a good one; keys and text between them are passed
    /// over.
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        Self::parse(pem.as_bytes()).map_err(PkiError::Key)
    }

    /// The certificates, in the file's order.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// The last second of the first one.
    #[must_use]
    pub fn ends(&self) -> Option<SystemTime> {
        let (_, certificate) = x509_parser::parse_x509_certificate(self.first()).ok()?;
        Some(Validity::of(&certificate).not_after)
    }

    /// These and those of another.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self { certificates: self.certificates.iter().chain(&other.certificates).cloned().collect() }
    }

    /// The first one: of an identity's chain, its own.
    pub(super) fn first(&self) -> &CertificateDer<'static> {
        &self.certificates[0]
    }

    pub(super) fn parse(pem: &[u8]) -> Result<Self, String> {
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("bad PEM: {error}"))?;
        for certificate in &certificates {
            let (rest, _) = x509_parser::parse_x509_certificate(certificate)
                .map_err(|error| format!("bad certificate: {error}"))?;
            if !rest.is_empty() {
                return Err("bad certificate: bytes after its end".to_owned());
            }
        }
        if certificates.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(Self { certificates }) }
    }
}

pub(super) fn read(path: &Path) -> Result<String, PkiError> {
    std::fs::read_to_string(path).map_err(|source| PkiError::Read { path: path.to_owned(), source })
}

pub(super) fn damaged(path: &Path, problem: impl Into<String>, expected: &'static str) -> PkiError {
    PkiError::Damaged { path: path.to_owned(), problem: problem.into(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            inside in proptest::collection::vec(any::<u8>(), 0..80),
            around in ".{0,20}",
        ) {
            use base64::Engine;
            let text = base64::engine::general_purpose::STANDARD.encode(&inside);
            let pem = format!("{around}\n-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
            prop_assert!(Bundle::parse(pem.as_bytes()).is_err());
            prop_assert!(Bundle::parse(&inside).is_err());
        }
    }
}
