//! Requests for certificates (PKCS#10) and what an authority makes of them. Called by the API server, which checks them, and by
//! the signers of the controller manager.

use super::{
    Authority,
    authority::{parameters, pem_of},
    error::PkiError,
    subject,
    validity::Validity,
};
use rcgen::{ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType, SubjectPublicKeyInfo};
use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
    public_key::PublicKey,
};

/// A request for a certificate whose signature holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// DER of the whole subject.
    subject: Vec<u8>,
    /// DER of the key that the certificate will be for.
    public_key: Vec<u8>,
    /// CN, the last one as Go has it.
    pub common_name: String,
    /// Every O.
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub emails: Vec<String>,
    pub uris: Vec<String>,
}

/// Why a request cannot be used. Not retryable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No PEM of a request.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    /// No PKCS#10, or a name in it that is none.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    /// Not signed by the key that it is for.
    #[error("the signature of the request does not hold")]
    Signature,
}

impl CertificateRequest {
    /// Reads the first PEM block.
    pub fn from_pem(pem: &str) -> Result<Self, RequestError> {
        let block = api::kinds::certificates::pem::blocks(pem).into_iter().next();
        let block = block.filter(|block| block.label == "CERTIFICATE REQUEST").ok_or(RequestError::NotPem)?;
        Self::from_der(&block.der)
    }

    /// Reads the encoding itself.
    pub fn from_der(der: &[u8]) -> Result<Self, RequestError> {
        let unreadable = |error: &dyn ToString| RequestError::Unreadable(error.to_string());
        let (rest, parsed) = X509CertificationRequest::from_der(der).map_err(|error| unreadable(&error))?;
        if !rest.is_empty() {
            return Err(unreadable(&"bytes after its end"));
        }
        parsed.verify_signature().map_err(|_| RequestError::Signature)?;
        let info = &parsed.certification_request_info;
        let texts = |entries: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
            let texts = entries.into_iter().map(|entry| entry.as_str().map(str::to_owned));
            texts.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(&error))
        };
        let mut request = Self {
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            common_name: texts(info.subject.iter_common_name().collect())?.pop().unwrap_or_default(),
            organizations: texts(info.subject.iter_organization().collect())?,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
        };
        for extension in parsed.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(name) => request.dns_names.push((*name).to_owned()),
                    GeneralName::RFC822Name(name) => request.emails.push((*name).to_owned()),
                    GeneralName::URI(name) => request.uris.push((*name).to_owned()),
                    GeneralName::IPAddress(bytes) => {
                        let address = super::purpose::address(bytes).ok_or_else(|| unreadable(&"bad address"))?;
                        request.addresses.push(address);
                    }
                    _ => {}
                }
            }
        }
        Ok(request)
    }

    /// Whether a certificate is for the key of this request.
    #[must_use]
    pub fn is_for(&self, certificate: &x509_parser::certificate::X509Certificate<'_>) -> bool {
        certificate.public_key().raw == self.public_key
    }

    /// The size of its key in bits, if it is an RSA key.
    #[must_use]
    pub fn rsa_bits(&self) -> Option<usize> {
        let (_, key) = x509_parser::x509::SubjectPublicKeyInfo::from_der(&self.public_key).ok()?;
        match key.parsed() {
            Ok(PublicKey::RSA(key)) => Some(key.key_size()),
            _ => None,
        }
    }

    fn names(&self) -> Result<Vec<SanType>, PkiError> {
        let text = |name: &String| name.as_str().try_into().map_err(|_| PkiError::Name(name.clone()));
        let mut names = Vec::new();
        for name in &self.dns_names {
            names.push(SanType::DnsName(text(name)?));
        }
        for name in &self.emails {
            names.push(SanType::Rfc822Name(text(name)?));
        }
        names.extend(self.addresses.iter().map(|address| SanType::IpAddress(*address)));
        for name in &self.uris {
            names.push(SanType::URI(text(name)?));
        }
        Ok(names)
    }
}

/// Certificates are valid from a little before they are made, and for that much less long: unless they are short-lived.
const SHORT: Duration = Duration::from_secs(8 * 3600);

impl Authority {
    /// A certificate for the key, the subject and the names of a request, for these usages (`client auth`), as PEM. What else the
    /// request asks for does not count.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[String],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<String, PkiError> {
        let end = if lifetime < SHORT { lifetime } else { lifetime.saturating_sub(Validity::SKEW) };
        if now >= self.validity().not_after {
            return Err(PkiError::Key("the authority has expired and signs nothing any more".to_owned()));
        }
        let mut params = parameters(Validity::starting(now, end, Some(self.validity().not_after)))?;
        for usage in usages {
            match (key_usage(usage), extended_usage(usage)) {
                (Some(usage), _) if !params.key_usages.contains(&usage) => params.key_usages.push(usage),
                (_, Some(usage)) if !params.extended_key_usages.contains(&usage) => {
                    params.extended_key_usages.push(usage);
                }
                (None, None) => return Err(PkiError::Key(format!("there is no usage {usage:?}"))),
                _ => {}
            }
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = request.names()?;
        let key = SubjectPublicKeyInfo::from_der(&request.public_key)?;
        let plain = params.signed_by(&key, self.issuer())?;
        Ok(pem_of(&subject::replaced(plain.der(), &request.subject, self.issuer().key())?))
    }
}

fn key_usage(usage: &str) -> Option<KeyUsagePurpose> {
    Some(match usage {
        "signing" | "digital signature" => KeyUsagePurpose::DigitalSignature,
        "content commitment" => KeyUsagePurpose::ContentCommitment,
        "key encipherment" => KeyUsagePurpose::KeyEncipherment,
        "key agreement" => KeyUsagePurpose::KeyAgreement,
        "data encipherment" => KeyUsagePurpose::DataEncipherment,
        "cert sign" => KeyUsagePurpose::KeyCertSign,
        "crl sign" => KeyUsagePurpose::CrlSign,
        "encipher only" => KeyUsagePurpose::EncipherOnly,
        "decipher only" => KeyUsagePurpose::DecipherOnly,
        _ => return None,
    })
}

fn extended_usage(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    let other = |last: &[u64]| ExtendedKeyUsagePurpose::Other([&[1, 3, 6, 1, 5, 5, 7, 3], last].concat());
    Some(match usage {
        "any" => ExtendedKeyUsagePurpose::Any,
        "server auth" => ExtendedKeyUsagePurpose::ServerAuth,
        "client auth" => ExtendedKeyUsagePurpose::ClientAuth,
        "code signing" => ExtendedKeyUsagePurpose::CodeSigning,
        "email protection" | "s/mime" => ExtendedKeyUsagePurpose::EmailProtection,
        "ipsec end system" => other(&[5]),
        "ipsec tunnel" => other(&[6]),
        "ipsec user" => other(&[7]),
        "timestamping" => ExtendedKeyUsagePurpose::TimeStamping,
        "ocsp signing" => ExtendedKeyUsagePurpose::OcspSigning,
        "microsoft sgc" => ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        "netscape sgc" => ExtendedKeyUsagePurpose::Other(vec![2, 16, 840, 1, 113_730, 4, 1]),
        _ => return None,
    })
}
