//! TLS towards kubelets and towards what runs on nodes.

use super::{plan::target::Security, settings::Settings};
use runtime::{pki::PkiError, tls};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::SingleCertAndKey,
};
use std::sync::Arc;

/// One way to talk per sort of counterpart. All of them speak HTTP/1.1, the only version with upgrades.
pub struct Clients {
    kubelet: Arc<ClientConfig>,
    kubelet_unverified: Arc<ClientConfig>,
    anybody: Arc<ClientConfig>,
}

impl Clients {
    /// With the administrator's certificates.
    pub fn new(settings: &Settings) -> Result<Self, PkiError> {
        let identity = settings.identity.as_ref();
        let shown = identity.map(|identity| identity.certified_key().map(SingleCertAndKey::from)).transpose()?;
        let kubelet_unverified = unverified(shown);
        let kubelet = match &settings.authorities {
            None => Arc::clone(&kubelet_unverified),
            Some(authorities) => speaking_http1(Arc::unwrap_or_clone(tls::client_config(authorities, identity)?)),
        };
        Ok(Self { kubelet, kubelet_unverified, anybody: unverified(None) })
    }

    /// The way to talk, or none for plain text.
    pub fn pick(&self, security: Security) -> Option<Arc<ClientConfig>> {
        match security {
            Security::Plain => None,
            Security::Unverified => Some(Arc::clone(&self.anybody)),
            Security::Kubelet => Some(Arc::clone(&self.kubelet)),
            Security::KubeletUnverified => Some(Arc::clone(&self.kubelet_unverified)),
        }
    }
}

fn unverified(shown: Option<SingleCertAndKey>) -> Arc<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider speaks the usual versions of TLS")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    speaking_http1(match shown {
        None => builder.with_no_client_auth(),
        Some(shown) => builder.with_client_cert_resolver(Arc::new(shown)),
    })
}

fn speaking_http1(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Accepts whatever certificate is shown, if the other side has the key to it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
