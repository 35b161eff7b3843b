//! Whom a `caBundle` makes trusted: whoever its authorities signed, and, as Go has it, the certificates in it themselves.
//!
//! The latter is how a webhook with a single self-made certificate is configured; the library's own verifier asks for an issuer.

use runtime::pki::Bundle;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::sync::Arc;
use x509_parser::parse_x509_certificate;

/// A client that trusts this bundle alone.
pub(super) fn trusting(bundle: &Bundle) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.certificates().iter().cloned());
    let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let issued = issued.map_err(|error| Error::General(error.to_string()))?;
    let verifier = Trusted { issued, listed: bundle.certificates().to_vec() };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Trusted {
    issued: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.issued.verify_server_cert(shown, intermediates, name, ocsp, now);
        // One that was made to sign itself is refused as an authority that serves, before anybody asks for an issuer.
        if verified.is_ok() || !self.listed.iter().any(|listed| listed.as_ref() == shown.as_ref()) {
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
        self.issued.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
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
