//! The private certificate authority: made once, loaded afterwards, signs for servers and clients.

use super::{
    bundle::{Bundle, damaged, read},
    error::PkiError,
    identity::{Identity, belongs, fresh_key},
    purpose::{self, Purpose},
    subject,
    validity::{Validity, rotation_due},
};
use crate::atomic_file;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use std::{
    io,
    net::IpAddr,
    path::Path,
    time::{Duration, SystemTime},
};
use x509_parser::certificate::X509Certificate;

const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);
const IDENTITY_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// An authority's certificate and key.
#[derive(Debug)]
pub struct Authority {
    certificate_pem: String,
    certificate: Bundle,
    issuer: Issuer<'static, KeyPair>,
    validity: Validity,
}

impl Authority {
    const EXPECTED: &str = "one PEM certificate of an authority";

    /// A new authority that is kept nowhere.
    pub fn create(name: &str, now: SystemTime) -> Result<Self, PkiError> {
        let key = fresh_key()?;
        let certificate_pem = self_signed(name, &key, now)?;
        Self::assemble(certificate_pem, key, Path::new("new authority"))
    }

    /// The authority in `directory` (`ca.crt`, `ca.key`), or a new one called `name` put there. Several processes may
    /// do this at once: they all end with the same one.
    pub fn load_or_create(directory: &Path, name: &str, now: SystemTime) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| PkiError::Write { path, source }
        };
        atomic_file::private_directory(directory).map_err(failed(directory))?;
        if !key_path.exists() {
            if certificate_path.exists() {
                return Err(PkiError::KeyMissing { certificate: certificate_path, key: key_path });
            }
            let pem = fresh_key()?.serialize_pem();
            unless_there(atomic_file::create(&key_path, pem.as_bytes(), atomic_file::PRIVATE))
                .map_err(failed(&key_path))?;
        }
        let key = load_key(&key_path)?;
        // The key is written first: where it stands alone, a process stopped here, and going on from it loses nothing.
        if !certificate_path.exists() {
            let pem = self_signed(name, &key, now)?;
            unless_there(atomic_file::create(&certificate_path, pem.as_bytes(), atomic_file::PUBLIC))
                .map_err(failed(&certificate_path))?;
        }
        let authority = Self::assemble(read(&certificate_path)?, key, &certificate_path)?;
        if now > authority.validity.not_after {
            return Err(PkiError::Expired { path: certificate_path, not_after: authority.validity.not_after });
        }
        Ok(authority)
    }

    /// The authority in a pair of files (`--cluster-signing-cert-file`, `--cluster-signing-key-file`).
    pub fn load_pair(certificate: &Path, key: &Path) -> Result<Self, PkiError> {
        let authority = Self::assemble(read(certificate)?, load_key(key)?, certificate);
        authority.map_err(|error| match error {
            PkiError::Mismatch { certificate, .. } => PkiError::Mismatch { certificate, key: key.to_owned() },
            other => other,
        })
    }

    fn assemble(certificate_pem: String, key: KeyPair, path: &Path) -> Result<Self, PkiError> {
        let wrong = |problem: &str| damaged(path, problem, Self::EXPECTED);
        let certificate = Bundle::parse(certificate_pem.as_bytes()).map_err(|problem| wrong(&problem))?;
        if certificate.certificates().len() != 1 {
            return Err(wrong("holds several certificates"));
        }
        let der = certificate.first().clone();
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|error| wrong(&error.to_string()))?;
        if !parsed.is_ca() {
            return Err(wrong("the certificate is not an authority's"));
        }
        if !belongs(&parsed, &key) {
            return Err(PkiError::Mismatch { certificate: path.to_owned(), key: path.with_extension("key") });
        }
        if has_repeated_entries(&parsed) {
            return Err(wrong("its subject has two entries of one kind, which cannot be copied into what it signs"));
        }
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        let validity = Validity::of(&parsed);
        Ok(Self { certificate_pem, certificate, issuer, validity })
    }

    /// The authority's certificate as PEM, for kubeconfigs and for `kube-root-ca.crt`.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The authority's certificate, for `tls`.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.certificate
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    pub(super) fn validity(&self) -> Validity {
        self.validity
    }

    /// A fresh key with a certificate for `purpose`, valid for a year or as long as the authority.
    pub fn issue(&self, purpose: &Purpose, now: SystemTime) -> Result<Identity, PkiError> {
        self.issue_for(purpose, now, IDENTITY_LIFETIME)
    }

    /// As [`Authority::issue`], for another length of time.
    pub fn issue_for(&self, purpose: &Purpose, now: SystemTime, lifetime: Duration) -> Result<Identity, PkiError> {
        let key = fresh_key()?;
        let mut params = parameters(Validity::starting(now, lifetime, Some(self.validity.not_after)))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let der = match purpose {
            Purpose::Serving { names, addresses } => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                params.subject_alt_names = alternative_names(names, addresses)?;
                let common_name = names.first().cloned().or_else(|| addresses.first().map(IpAddr::to_string));
                params.distinguished_name = named(&common_name.unwrap_or_default());
                params.signed_by(&key, &self.issuer)?.der().clone()
            }
            Purpose::Client { user, groups } => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                let plain = params.signed_by(&key, &self.issuer)?;
                subject::with_groups(plain.der(), user, groups, self.issuer.key())?
            }
        };
        Identity::new(pem_of(&der), key.serialize_pem()).map_err(|flaw| PkiError::Key(flaw.to_string()))
    }

    /// The identity kept in `path` if it is for `purpose` and not due for rotation, else a new one, put there. One that
    /// is damaged or signed by another authority is an error.
    pub fn keep(&self, path: &Path, purpose: &Purpose, now: SystemTime) -> Result<Identity, PkiError> {
        if path.exists() {
            let kept = Identity::load(path)?;
            let (_, certificate) = x509_parser::parse_x509_certificate(kept.leaf())
                .map_err(|error| damaged(path, error.to_string(), "a certificate"))?;
            if !self.signed(&certificate) {
                return Err(PkiError::Foreign { path: path.to_owned() });
            }
            let fits = purpose::of(&certificate).as_ref() == Some(purpose);
            if fits && !rotation_due(kept.validity(), now) {
                return Ok(kept);
            }
            tracing::info!(path = %path.display(), fits, "certificate is replaced");
        }
        let identity = self.issue(purpose, now)?;
        identity.save(path)?;
        Ok(identity)
    }

    /// Whether this authority's key is the one the certificate names as its issuer's.
    fn signed(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok((_, own)) = x509_parser::parse_x509_certificate(self.certificate.first()) else { return false };
        let own_key = purpose::subject_key(&own);
        certificate.issuer().as_raw() == own.subject().as_raw()
            && own_key.is_some()
            && purpose::authority_key(certificate) == own_key
    }
}

fn self_signed(name: &str, key: &KeyPair, now: SystemTime) -> Result<String, PkiError> {
    let mut params = parameters(Validity::starting(now, AUTHORITY_LIFETIME, None))?;
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(pem_of(params.self_signed(key)?.der()))
}

/// What all certificates have: a time, a random serial number, an empty subject.
pub(super) fn parameters(validity: Validity) -> Result<CertificateParams, PkiError> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial)?;
    // A positive number of full length, so that its encoding is always the same size.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn alternative_names(names: &[String], addresses: &[IpAddr]) -> Result<Vec<SanType>, PkiError> {
    let names = names.iter().map(|name| match name.as_str().try_into() {
        Ok(dns) if !name.is_empty() && name.parse::<IpAddr>().is_err() => Ok(SanType::DnsName(dns)),
        _ => Err(PkiError::Name(name.clone())),
    });
    names.chain(addresses.iter().map(|address| Ok(SanType::IpAddress(*address)))).collect()
}

fn has_repeated_entries(certificate: &X509Certificate<'_>) -> bool {
    let kinds: Vec<String> =
        certificate.subject().iter_attributes().map(|entry| entry.attr_type().to_id_string()).collect();
    kinds.iter().enumerate().any(|(position, kind)| kinds[..position].contains(kind))
}

fn load_key(path: &Path) -> Result<KeyPair, PkiError> {
    KeyPair::from_pem(&read(path)?).map_err(|error| damaged(path, error.to_string(), "a PEM private key (PKCS#8)"))
}

/// Another process was faster: what it wrote is used.
fn unless_there(created: io::Result<()>) -> io::Result<()> {
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

pub(super) fn pem_of(certificate: &CertificateDer<'_>) -> String {
    super::pem::encode("CERTIFICATE", certificate)
}
