//! A key for which a certificate is asked of somebody else (PKCS#10), and the certificate that comes for it. Called by the kubelet.

use super::{
    bundle::{damaged, read},
    detached::sha256_hex,
    error::PkiError,
    identity::{Identity, fresh_key},
};
use crate::{atomic_file, secret::Secret};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType};
use std::{net::IpAddr, path::Path};

/// What a certificate is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// CN.
    pub user: String,
    /// O.
    pub group: String,
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// A key without a certificate.
#[derive(Debug)]
pub struct PendingKey {
    key: KeyPair,
}

impl PendingKey {
    const EXPECTED: &str = "a PEM private key";

    /// A fresh one.
    pub fn generate() -> Result<Self, PkiError> {
        Ok(Self { key: fresh_key()? })
    }

    /// The key in `path`, or a fresh one put there: whoever is stopped while it waits asks for the same certificate again.
    pub fn load_or_create(path: &Path) -> Result<Self, PkiError> {
        if !path.exists() {
            let failed = |source| PkiError::Write { path: path.to_owned(), source };
            if let Some(directory) = path.parent() {
                atomic_file::private_directory(directory).map_err(failed)?;
            }
            let pem = fresh_key()?.serialize_pem();
            atomic_file::write(path, pem.as_bytes(), atomic_file::PRIVATE).map_err(failed)?;
        }
        let key = KeyPair::from_pem(&read(path)?);
        Ok(Self { key: key.map_err(|error| damaged(path, error.to_string(), Self::EXPECTED))? })
    }

    /// The key as PEM.
    #[must_use]
    pub fn pem(&self) -> Secret<String> {
        Secret::new(self.key.serialize_pem())
    }

    /// A text that is the same for the same key and wish, and for nothing else.
    #[must_use]
    pub fn digest(&self, wish: &Wish, signer: &str) -> String {
        let Wish { user, group, names, addresses } = wish;
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let words = [signer, user, group, &names.join(","), &addresses.join(",")].join("\n");
        sha256_hex(&[self.key.der_bytes(), words.as_bytes()].concat())
    }

    /// The request, as PEM.
    pub fn request(&self, wish: &Wish) -> Result<String, PkiError> {
        let mut params = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, wish.group.as_str());
        subject.push(DnType::CommonName, wish.user.as_str());
        params.distinguished_name = subject;
        for name in &wish.names {
            let name = name.as_str().try_into().map_err(|_| PkiError::Name(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(wish.addresses.iter().map(|address| SanType::IpAddress(*address)));
        Ok(params.serialize_request(&self.key)?.pem()?)
    }

    /// The key with the certificate that came for it.
    pub fn with_certificate(&self, chain_pem: &str) -> Result<Identity, PkiError> {
        Identity::from_pem(chain_pem, self.pem().expose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Authority, CertificateRequest};
    use std::time::{Duration, SystemTime};

    fn wish() -> Wish {
        Wish {
            user: "system:node:a".to_owned(),
            group: "system:nodes".to_owned(),
            names: vec!["a".to_owned()],
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        }
    }

    #[test]
    fn what_is_asked_for_can_be_signed_and_fits_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pki/key.tmp");
        let key = PendingKey::load_or_create(&path).unwrap();
        let request = CertificateRequest::from_pem(&key.request(&wish()).unwrap()).unwrap();
        assert_eq!(
            (request.common_name.as_str(), request.organizations.as_slice()),
            ("system:node:a", &["system:nodes".to_owned()][..])
        );
        assert_eq!(
            (request.dns_names.as_slice(), request.addresses.as_slice()),
            (&["a".to_owned()][..], &wish().addresses[..])
        );
        let authority = Authority::create("test", SystemTime::now()).unwrap();
        let usages = ["digital signature".to_owned(), "server auth".to_owned()];
        let pem = authority.sign(&request, &usages, Duration::from_secs(3600), SystemTime::now()).unwrap();
        // Stopped in between.
        let key = PendingKey::load_or_create(&path).unwrap();
        let identity = key.with_certificate(&pem).unwrap();
        assert_eq!(
            identity.purpose(),
            Some(crate::pki::Purpose::Serving { names: wish().names, addresses: wish().addresses })
        );
        assert!(PendingKey::generate().unwrap().with_certificate(&pem).is_err(), "another's certificate");
    }

    #[test]
    fn the_same_wish_with_the_same_key_has_one_digest() {
        let key = PendingKey::generate().unwrap();
        assert_eq!(key.digest(&wish(), "s"), key.digest(&wish(), "s"));
        let other = Wish { addresses: Vec::new(), ..wish() };
        assert_ne!(key.digest(&wish(), "s"), key.digest(&other, "s"));
        assert_ne!(key.digest(&wish(), "s"), key.digest(&wish(), "t"));
        assert_ne!(key.digest(&wish(), "s"), PendingKey::generate().unwrap().digest(&wish(), "s"));
    }
}
