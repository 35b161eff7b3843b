//! A certificate with its key: what a server or a client proves itself with. Made by `authority`, used by `tls` and
//! `kubeconfig`.

use super::{
    bundle::{Bundle, damaged, read},
    error::PkiError,
    purpose::{self, Purpose},
    validity::Validity,
};
use crate::{atomic_file, secret::Secret};
use rcgen::{KeyPair, PublicKeyData};
use rustls::{
    InconsistentKeys,
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::path::Path;

/// A certificate chain and the private key of its first certificate; they always belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    chain_pem: String,
    key_pem: Secret<String>,
    chain: Bundle,
}

impl Identity {
    const EXPECTED: &str = "a PEM certificate and its private key";

    pub(super) fn new(chain_pem: String, key_pem: String) -> Result<Self, Flaw> {
        let chain = Bundle::parse(chain_pem.as_bytes()).map_err(Flaw::Certificate)?;
        let identity = Self { chain_pem, key_pem: Secret::new(key_pem), chain };
        let certified = identity.certified_key().map_err(|error| Flaw::Key(error.to_string()))?;
        match certified.keys_match() {
            Ok(()) => Ok(identity),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Flaw::Mismatch),
            Err(error) => Err(Flaw::Key(error.to_string())),
        }
    }

    /// Reads certificate and key from one PEM file, as [`Identity::save`] writes it.
    pub fn load(path: &Path) -> Result<Self, PkiError> {
        let pem = read(path)?;
        Self::new(only(&pem, "CERTIFICATE"), only(&pem, "PRIVATE KEY"))
            .map_err(|flaw| damaged(path, flaw.to_string(), Self::EXPECTED))
    }

    /// Reads both from text.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, PkiError> {
        Self::new(chain.to_owned(), key.to_owned()).map_err(|flaw| PkiError::Key(flaw.to_string()))
    }

    /// Reads a pair of files (`--tls-cert-file`, `--tls-private-key-file`).
    pub fn load_pair(certificate: &Path, key: &Path) -> Result<Self, PkiError> {
        let (chain_pem, key_pem) = (read(certificate)?, read(key)?);
        Self::new(chain_pem, key_pem).map_err(|flaw| match &flaw {
            Flaw::Mismatch => PkiError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() },
            Flaw::Key(_) => damaged(key, flaw.to_string(), "a PEM private key"),
            Flaw::Certificate(_) => damaged(certificate, flaw.to_string(), "one or more PEM certificates"),
        })
    }

    /// Writes both into one private file. One file, so that a crash can never leave a new certificate with an old key;
    /// HAProxy reads this form as well.
    pub fn save(&self, path: &Path) -> Result<(), PkiError> {
        let failed = |source| PkiError::Write { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            atomic_file::private_directory(directory).map_err(failed)?;
        }
        let pem = format!("{}{}", self.chain_pem, self.key_pem.expose());
        atomic_file::write(path, pem.as_bytes(), atomic_file::PRIVATE).map_err(failed)
    }

    /// The certificate chain as PEM.
    #[must_use]
    pub fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// The private key as PEM.
    #[must_use]
    pub fn key_pem(&self) -> &Secret<String> {
        &self.key_pem
    }

    /// The certificate's own time.
    #[must_use]
    pub fn validity(&self) -> Validity {
        let (_, certificate) = x509_parser::parse_x509_certificate(self.chain.first())
            .expect("a bundle holds only certificates that were parsed");
        Validity::of(&certificate)
    }

    /// What the certificate is for; `None` if that is neither a server nor a client.
    #[must_use]
    pub fn purpose(&self) -> Option<Purpose> {
        let (_, certificate) = x509_parser::parse_x509_certificate(self.chain.first()).ok()?;
        purpose::of(&certificate)
    }

    /// The certificate chain for rustls.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.certificates().to_vec()
    }

    /// The private key for rustls.
    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, PkiError> {
        PrivateKeyDer::from_pem_slice(self.key_pem.expose().as_bytes())
            .map_err(|error| PkiError::Key(error.to_string()))
    }

    /// Both, ready to serve with.
    pub fn certified_key(&self) -> Result<CertifiedKey, PkiError> {
        Ok(CertifiedKey::new(self.chain(), any_supported_type(&self.private_key()?)?))
    }

    pub(super) fn leaf(&self) -> &CertificateDer<'static> {
        self.chain.first()
    }
}

/// Why certificate and key are no identity.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error("{0}")]
    Certificate(String),
    #[error("bad private key: {0}")]
    Key(String),
    #[error("the certificate does not belong to the key")]
    Mismatch,
}

/// The PEM sections of `text` whose label ends with `label`, e.g. `EC PRIVATE KEY`.
fn only(text: &str, label: &str) -> String {
    let mut sections = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("-----BEGIN ") {
            inside = line.trim_end_matches('-').ends_with(label);
        }
        if inside {
            sections.push_str(line);
            sections.push('\n');
        }
        if line.starts_with("-----END ") {
            inside = false;
        }
    }
    sections
}

/// A fresh ECDSA P-256 key pair.
pub(super) fn fresh_key() -> Result<KeyPair, PkiError> {
    Ok(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?)
}

/// Whether `key` is the private half of the certificate's key.
pub(super) fn belongs(certificate: &x509_parser::certificate::X509Certificate<'_>, key: &KeyPair) -> bool {
    *certificate.public_key().subject_public_key.data == *key.der_bytes()
}
