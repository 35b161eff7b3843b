//! Providers: one cipher each, with keys in order. The stored form is `k8s:enc:KIND:v1:KEY:` and what the cipher makes.
//!
//! | kind      | after the prefix                                              |
//! |-----------|---------------------------------------------------------------|
//! | aescbc    | IV (16 bytes), AES-CBC with PKCS#7                            |
//! | aesgcm    | nonce (12), AES-GCM, tag (16); the value's place authenticated |
//! | secretbox | nonce (24), tag (16), XSalsa20-Poly1305                       |

use super::MARK;
use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, Nonce, UnboundKey},
    cipher::{self, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey},
    iv::FixedLength,
};
use crypto_secretbox::{
    KeyInit, XSalsa20Poly1305,
    aead::{Aead, generic_array::GenericArray},
};
use std::{borrow::Cow, fmt};
use store::Plain;

const IV: usize = 16;
const GCM_NONCE: usize = 12;
const BOX_NONCE: usize = 24;

/// A value that has a key's name on it and is not that key's.
#[derive(Debug)]
pub(super) struct Broken;

#[derive(Debug)]
pub(super) enum Provider {
    /// Values stay as they are; reads only what is not encrypted.
    Identity,
    /// Values are encrypted.
    Keys {
        /// `aescbc`, `aesgcm`, `secretbox`.
        kind: &'static str,
        /// The first one writes.
        keys: Vec<Key>,
    },
}

/// A named key, ready for use.
pub(super) struct Key {
    name: String,
    cipher: Cipher,
}

enum Cipher {
    Cbc(Box<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)>),
    Gcm(Box<LessSafeKey>),
    Secretbox(Box<XSalsa20Poly1305>),
}

impl fmt::Debug for Key {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Key {
    /// A key of `kind`; none when the secret's length does not fit.
    pub(super) fn new(kind: &str, name: &str, secret: &[u8]) -> Option<Self> {
        let cipher = match kind {
            "aescbc" => {
                let algorithm = match secret.len() {
                    16 => &cipher::AES_128,
                    24 => &cipher::AES_192,
                    32 => &cipher::AES_256,
                    _ => return None,
                };
                let key = || UnboundCipherKey::new(algorithm, secret).ok();
                let pair = (
                    PaddedBlockEncryptingKey::cbc_pkcs7(key()?).ok()?,
                    PaddedBlockDecryptingKey::cbc_pkcs7(key()?).ok()?,
                );
                Cipher::Cbc(Box::new(pair))
            }
            "aesgcm" => {
                let algorithm = match secret.len() {
                    16 => &aead::AES_128_GCM,
                    24 => &aead::AES_192_GCM,
                    32 => &aead::AES_256_GCM,
                    _ => return None,
                };
                Cipher::Gcm(Box::new(LessSafeKey::new(UnboundKey::new(algorithm, secret).ok()?)))
            }
            _ => Cipher::Secretbox(Box::new(XSalsa20Poly1305::new_from_slice(secret).ok()?)),
        };
        Some(Self { name: name.to_owned(), cipher })
    }

    fn seal(&self, storage_key: &str, value: &[u8]) -> Option<Vec<u8>> {
        match &self.cipher {
            Cipher::Cbc(pair) => {
                let mut sealed = value.to_vec();
                let DecryptionContext::Iv128(iv) = pair.0.encrypt(&mut sealed).ok()? else { return None };
                Some([&iv.as_ref()[..], &sealed].concat())
            }
            Cipher::Gcm(key) => {
                let nonce: [u8; GCM_NONCE] = random()?;
                let mut sealed = value.to_vec();
                let aad = Aad::from(storage_key.as_bytes());
                key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
                Some([&nonce[..], &sealed].concat())
            }
            Cipher::Secretbox(key) => {
                let nonce: [u8; BOX_NONCE] = random()?;
                let sealed = key.encrypt(GenericArray::from_slice(&nonce), value).ok()?;
                Some([&nonce[..], &sealed].concat())
            }
        }
    }

    fn open(&self, storage_key: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        match &self.cipher {
            Cipher::Cbc(pair) => {
                let (iv, sealed) = sealed.split_first_chunk::<IV>()?;
                let mut value = sealed.to_vec();
                let length = pair.1.decrypt(&mut value, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?.len();
                value.truncate(length);
                Some(value)
            }
            Cipher::Gcm(key) => {
                let (nonce, sealed) = sealed.split_first_chunk::<GCM_NONCE>()?;
                let mut value = sealed.to_vec();
                let aad = Aad::from(storage_key.as_bytes());
                let length = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut value).ok()?.len();
                value.truncate(length);
                Some(value)
            }
            Cipher::Secretbox(key) => {
                let (nonce, sealed) = sealed.split_first_chunk::<BOX_NONCE>()?;
                key.decrypt(GenericArray::from_slice(nonce), sealed).ok()
            }
        }
    }
}

impl Provider {
    /// The stored form of a value that is kept at `storage_key`.
    pub(super) fn seal<'a>(&self, storage_key: &str, value: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let (kind, key) = match self {
            Self::Identity => return Ok(Cow::Borrowed(value)),
            Self::Keys { kind, keys } => (kind, keys.first().ok_or_else(|| format!("{kind} has no key"))?),
        };
        let sealed = key.seal(storage_key, value).ok_or_else(|| format!("{kind} could not encrypt it"))?;
        Ok(Cow::Owned([format!("k8s:enc:{kind}:v1:{}:", key.name).as_bytes(), &sealed].concat()))
    }

    /// The value, stale unless this provider's first key wrote it; none when it is another provider's.
    pub(super) fn open<'a>(&self, storage_key: &str, stored: &'a [u8]) -> Result<Option<Plain<'a>>, Broken> {
        let (kind, keys) = match self {
            Self::Identity => {
                let plain = Plain { value: Cow::Borrowed(stored), stale: false };
                return Ok((!stored.starts_with(MARK)).then_some(plain));
            }
            Self::Keys { kind, keys } => (kind, keys),
        };
        let Some(rest) = stored.strip_prefix(format!("k8s:enc:{kind}:v1:").as_bytes()) else { return Ok(None) };
        let mut named = false;
        for (index, key) in keys.iter().enumerate() {
            let Some(sealed) = rest.strip_prefix(format!("{}:", key.name).as_bytes()) else { continue };
            if let Some(value) = key.open(storage_key, sealed) {
                return Ok(Some(Plain { value: Cow::Owned(value), stale: index > 0 }));
            }
            named = true;
        }
        if named { Err(Broken) } else { Ok(None) }
    }
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}
