//! Whose certificate a client accepts beyond what the library's own verifier does: anybody's, or also one that is itself in the bundle.
//!
//! The latter is how Go has it, and how a webhook with a single self-made certificate is configured; the library's verifier asks for
//! an issuer.

use crate::pki::Bundle;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::sync::Arc;
use x509_parser::parse_x509_certificate;

/// Checks that the other side has the key to its certificate, and of the certificate what `trust` says.
#[derive(Debug)]
pub(super) struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Trust,
}

#[derive(Debug)]
enum Trust {
    Anybody,
    Listed { issued: Arc<WebPkiServerVerifier>, listed: Vec<CertificateDer<'static>> },
}

impl Verifier {
    pub(super) fn anybody(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, trust: Trust::Anybody }
    }

    /// Whoever the bundle's authorities signed, and the certificates in it themselves.
    pub(super) fn listed(provider: Arc<CryptoProvider>, bundle: &Bundle) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.certificates().iter().cloned());
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let issued = issued.map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { provider, trust: Trust::Listed { issued, listed: bundle.certificates().to_vec() } })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Listed { issued, listed } = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let verified = issued.verify_server_cert(shown, intermediates, name, ocsp, now);
        // One that was made to sign itself is refused as an authority that serves, before anybody asks for an issuer.
        if verified.is_ok() || !listed.iter().any(|listed| listed.as_ref() == shown.as_ref()) {
            return verified;
        }
        in_time(shown, now)?;
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn in_time(shown: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, certificate) = parse_x509_certificate(shown).map_err(|_| CertificateError::BadEncoding)?;
    let (validity, now) = (certificate.validity(), now.as_secs().cast_signed());
    match () {
        () if now < validity.not_before.timestamp() => Err(CertificateError::NotValidYet.into()),
        () if now > validity.not_after.timestamp() => Err(CertificateError::Expired.into()),
        () => Ok(()),
    }
}
