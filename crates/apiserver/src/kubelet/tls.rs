//! TLS towards kubelets and towards what runs on nodes.

use super::{plan::target::Security, settings::Settings};
use runtime::{pki::PkiError, tls};
use rustls::{ClientConfig, sign::SingleCertAndKey};
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

/// Talks to whoever answers, and shows this certificate.
pub(crate) fn unverified(shown: Option<SingleCertAndKey>) -> Arc<ClientConfig> {
    speaking_http1(tls::unverified_client_config(shown))
}

/// The only version of HTTP with upgrades.
pub(crate) fn speaking_http1(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
