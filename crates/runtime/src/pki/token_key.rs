//! The key file of service account tokens (ECDSA P-256): made once, and kept. What signs and verifies is `access`.

use super::{
    bundle::{damaged, read},
    error::PkiError,
    identity::fresh_key,
};
use crate::{atomic_file, secret::Secret};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use std::path::Path;

/// A private key and its public half, as PEM.
#[derive(Debug)]
pub struct TokenKey {
    private: Secret<String>,
    public: String,
}

impl TokenKey {
    const EXPECTED: &str = "an ECDSA P-256 private key as PEM (PKCS#8)";

    /// A fresh key.
    pub fn generate() -> Result<Self, PkiError> {
        Self::parse(&fresh_key()?.serialize_pem()).map_err(PkiError::Key)
    }

    /// The key in `path`, or a fresh one put there.
    pub fn load_or_create(path: &Path) -> Result<Self, PkiError> {
        let failed = |source| PkiError::Write { path: path.to_owned(), source };
        if !path.exists() {
            if let Some(directory) = path.parent() {
                atomic_file::private_directory(directory).map_err(failed)?;
            }
            match atomic_file::create(path, Self::generate()?.private.expose().as_bytes(), atomic_file::PRIVATE) {
                // Another process was faster: its key is used.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(failed)?,
            }
        }
        Self::parse(&read(path)?).map_err(|problem| damaged(path, problem, Self::EXPECTED))
    }

    fn parse(pem: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(pem).map_err(|error| error.to_string())?;
        if !key.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            return Err("not a P-256 key".to_owned());
        }
        Ok(Self { private: Secret::new(pem.to_owned()), public: key.public_key_pem() })
    }

    /// The private key.
    #[must_use]
    pub fn private_pem(&self) -> &Secret<String> {
        &self.private
    }

    /// The half that may be shown to everyone.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        &self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_is_loaded_and_a_damaged_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pki/sa.key");
        let made = TokenKey::load_or_create(&path).unwrap();
        assert_eq!(TokenKey::load_or_create(&path).unwrap().public_pem(), made.public_pem());
        std::fs::write(&path, "nonsense").unwrap();
        let message = TokenKey::load_or_create(&path).unwrap_err().to_string();
        assert!(message.starts_with(&path.display().to_string()) && message.contains(TokenKey::EXPECTED), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nonsense");
    }

    #[test]
    fn keys_of_other_kinds_are_refused() {
        let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        assert!(TokenKey::parse(&p384.serialize_pem()).is_err());
    }

    #[test]
    fn debug_text_hides_the_key() {
        let key = TokenKey::generate().unwrap();
        let middle = key.private_pem().expose().lines().nth(1).unwrap();
        assert!(!format!("{key:?}").contains(middle));
    }
}
