//! The key pair that signs service account tokens (ES256: ECDSA P-256, SHA-256). Used by the API server's token code.

use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, EcdsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::bundle::{damaged, read};
use super::error::PkiError;
use super::identity::fresh_key;
use crate::atomic_file;
use crate::secret::Secret;

/// Signs.
#[derive(Debug)]
pub struct SigningKey {
    pem: Secret<String>,
    pair: EcdsaKeyPair,
    public: VerifyingKey,
}

impl SigningKey {
    const EXPECTED: &str = "an ECDSA P-256 private key as PEM (PKCS#8)";

    /// A fresh key.
    pub fn generate() -> Result<Self, PkiError> {
        Self::parse(&fresh_key()?.serialize_pem()).map_err(PkiError::Key)
    }

    /// Reads PEM text.
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        Self::parse(pem).map_err(|problem| PkiError::Key(format!("{problem}; expected {}", Self::EXPECTED)))
    }

    /// The key in `path`, or a fresh one put there.
    pub fn load_or_create(path: &Path) -> Result<Self, PkiError> {
        let failed = |source| PkiError::Write { path: path.to_owned(), source };
        if !path.exists() {
            if let Some(directory) = path.parent() {
                atomic_file::private_directory(directory).map_err(failed)?;
            }
            match atomic_file::create(path, Self::generate()?.pem.expose().as_bytes(), atomic_file::PRIVATE) {
                // Another process was faster: its key is used.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(failed)?,
            }
        }
        Self::parse(&read(path)?).map_err(|problem| damaged(path, problem, Self::EXPECTED))
    }

    fn parse(pem: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(pem).map_err(|error| error.to_string())?;
        let pair = EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, key.serialized_der())
            .map_err(|error| error.to_string())?;
        let public = VerifyingKey::parse(&key.public_key_pem())?;
        Ok(Self { pem: Secret::new(pem.to_owned()), pair, public })
    }

    /// The private key as PEM.
    #[must_use]
    pub fn pem(&self) -> &Secret<String> {
        &self.pem
    }

    /// The 64 bytes that JWS wants: both numbers of the signature, 32 bytes each.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        let signed = self.pair.sign(&SystemRandom::new(), message);
        signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| PkiError::Key("signing failed".to_owned()))
    }

    /// The half that may be shown to everyone.
    #[must_use]
    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.public
    }
}

/// Verifies, and names the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    spki: Vec<u8>,
    point: Vec<u8>,
}

impl VerifyingKey {
    const P256_POINT: usize = 65;

    /// Reads a PEM public key (`--service-account-key-file`).
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        Self::parse(pem)
            .map_err(|problem| PkiError::Key(format!("{problem}; expected an ECDSA P-256 public key as PEM")))
    }

    fn parse(pem: &str) -> Result<Self, String> {
        let spki = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
        let (_, parsed) = SubjectPublicKeyInfo::from_der(&spki).map_err(|error| error.to_string())?;
        let point = parsed.subject_public_key.data.to_vec();
        // An uncompressed point: 4, x, y. Other curves and RSA have other lengths.
        if point.len() != Self::P256_POINT || point[0] != 4 {
            return Err("not a P-256 key".to_owned());
        }
        Ok(Self { spki: spki.to_vec(), point })
    }

    /// Whether `signature` is this key's for `message`.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, &self.point).verify(message, signature).is_ok()
    }

    /// The key's name in tokens and in the JWKS, made as the Kubernetes API server makes it.
    #[must_use]
    pub fn key_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.spki))
    }

    /// The two coordinates, 32 bytes each, for the JWKS.
    #[must_use]
    pub fn coordinates(&self) -> (&[u8], &[u8]) {
        self.point[1..].split_at(32)
    }

    /// The key as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        super::pem::encode("PUBLIC KEY", &self.spki)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_verifies_and_nothing_else_does() {
        let key = SigningKey::generate().unwrap();
        let signature = key.sign(b"header.payload").unwrap();
        assert_eq!(signature.len(), 64);
        assert!(key.verifying_key().verify(b"header.payload", &signature));
        assert!(!key.verifying_key().verify(b"header.payl0ad", &signature));
        assert!(!SigningKey::generate().unwrap().verifying_key().verify(b"header.payload", &signature));
    }

    #[test]
    fn both_halves_survive_pem() {
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(key.pem().expose()).unwrap();
        assert_eq!(again.verifying_key(), key.verifying_key());
        let public = VerifyingKey::from_pem(&key.verifying_key().pem()).unwrap();
        assert_eq!(&public, key.verifying_key());
        assert_eq!(public.key_id().len(), 43);
        assert_eq!((public.coordinates().0.len(), public.coordinates().1.len()), (32, 32));
    }

    #[test]
    fn a_kept_key_is_loaded_and_a_damaged_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pki/sa.key");
        let made = SigningKey::load_or_create(&path).unwrap();
        assert_eq!(SigningKey::load_or_create(&path).unwrap().verifying_key(), made.verifying_key());
        std::fs::write(&path, "nonsense").unwrap();
        let message = SigningKey::load_or_create(&path).unwrap_err().to_string();
        assert!(
            message.starts_with(&path.display().to_string()) && message.contains(SigningKey::EXPECTED),
            "{message}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nonsense");
    }

    #[test]
    fn keys_of_other_kinds_are_refused() {
        let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        assert!(SigningKey::from_pem(&p384.serialize_pem()).is_err());
        assert!(VerifyingKey::from_pem(&p384.public_key_pem()).is_err());
    }

    #[test]
    fn debug_text_hides_the_key() {
        let key = SigningKey::generate().unwrap();
        let middle = key.pem().expose().lines().nth(1).unwrap();
        assert!(!format!("{key:?}").contains(middle));
    }
}
