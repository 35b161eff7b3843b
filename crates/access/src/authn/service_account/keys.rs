//! Keys of service account tokens: read from PEM, named by `kid`, published as a JWKS document.
//!
//! Signing keys are ECDSA P-256 or RSA (`sa.key` of kubeadm); the `kid` is upstream's: SHA-256 over the public key's DER.

use aws_lc_rs::{
    digest::{SHA256, digest},
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents, UnparsedPublicKey,
    },
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use serde_json::{Value, json};
use std::fmt;
use x509_parser::{
    oid_registry::OID_EC_P256, parse_x509_certificate, pem::Pem, prelude::FromDer, public_key::PublicKey as Parsed,
    x509::SubjectPublicKeyInfo,
};

/// Why PEM text gives no key. Not retryable; shows no key material.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No PEM block at all.
    #[error("no PEM block in the service account key")]
    NoPem,
    /// A PEM block cannot be decoded.
    #[error("service account key: PEM block {0} cannot be decoded")]
    BadPem(usize),
    /// A label that is no key.
    #[error(
        "service account key: PEM block {0:?} is not a key; PRIVATE KEY, EC PRIVATE KEY, RSA PRIVATE KEY, PUBLIC KEY and CERTIFICATE are accepted"
    )]
    Label(String),
    /// A key of another kind, curve or size.
    #[error("service account key is neither ECDSA P-256 nor RSA of 2048 to 8192 bits")]
    Kind,
    /// A public key where a private one is needed.
    #[error("service account signing key is a public key; a private key is needed to issue tokens")]
    NotPrivate,
    /// The library refused to sign.
    #[error("signing failed")]
    Sign,
}

/// The signature algorithms accepted; there is no `none` and no HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA, P-256, SHA-256.
    Es256,
    /// RSA PKCS #1 v1.5, SHA-256.
    Rs256,
}

impl Algorithm {
    /// The `alg` of a header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

/// A key that checks signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    /// The uncompressed point: 4, x, y.
    Ec(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

impl PublicKey {
    /// Every key in PEM text; of private keys the public half.
    pub fn from_pem(text: &str) -> Result<Vec<Self>, KeyError> {
        blocks(text)?
            .into_iter()
            .map(|block| match block.label.as_str() {
                "PUBLIC KEY" => Self::from_spki(&block.contents),
                "CERTIFICATE" => {
                    let (_, certificate) = parse_x509_certificate(&block.contents).map_err(|_| KeyError::Kind)?;
                    Self::from_spki(certificate.public_key().raw)
                }
                _ => Ok(SigningKey::from_block(&block)?.public),
            })
            .collect()
    }

    /// The name of the key in headers and in the JWKS.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The one algorithm this key is for.
    pub fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Ec(_) => Algorithm::Es256,
            Material::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// Whether `signature` is this key's for `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Ec(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        }
        .is_ok()
    }

    /// As an entry of a JWKS document.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let alg = self.algorithm().name();
        match &self.material {
            Material::Ec(point) => {
                let (x, y) = point[1..].split_at(32);
                json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": alg, "x": text(x), "y": text(y)})
            }
            Material::Rsa { n, e } => {
                json!({"use": "sig", "kty": "RSA", "kid": self.id, "alg": alg, "n": text(n), "e": text(e)})
            }
        }
    }

    fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::Kind)?;
        if !rest.is_empty() {
            return Err(KeyError::Kind);
        }
        let material = match info.parsed().map_err(|_| KeyError::Kind)? {
            Parsed::EC(point) if is_p256(&info) && point.data().len() == 65 && point.data()[0] == 4 => {
                Material::Ec(point.data().to_vec())
            }
            Parsed::RSA(key) if (2048..=8192).contains(&key.key_size()) => {
                Material::Rsa { n: unpadded(key.modulus), e: unpadded(key.exponent) }
            }
            _ => return Err(KeyError::Kind),
        };
        Ok(Self { id: BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, der)), material })
    }
}

/// A key that signs. Its private half never leaves it.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// The first private key in PEM text.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let blocks = blocks(text)?;
        let private = blocks.iter().find(|block| block.label != "PUBLIC KEY").ok_or(KeyError::NotPrivate)?;
        Self::from_block(private)
    }

    /// The half that checks.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message in the form JWS wants.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => Ok(pair.sign(&random, message).map_err(|_| KeyError::Sign)?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| KeyError::Sign)?;
                Ok(signature)
            }
        }
    }

    fn from_block(block: &Pem) -> Result<Self, KeyError> {
        let der = &block.contents;
        let ec = || EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(Pair::Ec);
        let pair = match block.label.as_str() {
            "PRIVATE KEY" => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
                .map(Pair::Ec)
                .or_else(|_| RsaKeyPair::from_pkcs8(der).map(Pair::Rsa)),
            "EC PRIVATE KEY" => ec(),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).map(Pair::Rsa),
            other => return Err(KeyError::Label(other.to_owned())),
        }
        .map_err(|_| KeyError::Kind)?;
        let spki: PublicKeyX509Der<'_> = match &pair {
            Pair::Ec(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Kind)?;
        Ok(Self { public: PublicKey::from_spki(spki.as_ref())?, pair })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({} {}, ***)", self.public.algorithm().name(), self.public.id)
    }
}

/// PEM blocks with a key in them; `EC PARAMETERS`, which openssl writes beside a key, is passed over.
fn blocks(text: &str) -> Result<Vec<Pem>, KeyError> {
    let mut blocks = Vec::new();
    for (index, block) in Pem::iter_from_buffer(text.as_bytes()).enumerate() {
        let block = block.map_err(|_| KeyError::BadPem(index))?;
        if block.label != "EC PARAMETERS" {
            blocks.push(block);
        }
    }
    if blocks.is_empty() { Err(KeyError::NoPem) } else { Ok(blocks) }
}

fn is_p256(info: &SubjectPublicKeyInfo<'_>) -> bool {
    let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    curve == Some(OID_EC_P256)
}

/// A DER integer without its sign byte.
fn unpadded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}
