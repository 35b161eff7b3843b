//! Where etcd is and how to speak to it. Read by `client`.

use crate::{error::OpenError, mvcc::Retention, transform::Transform};
use bytes::Bytes;
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How to reach an etcd cluster, and which part of it is ours.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// URLs of the members, as in kube-apiserver's `--etcd-servers`. The first that answers is used until it fails.
    pub endpoints: Vec<String>,
    /// Put before every key, as kube-apiserver's `--etcd-prefix`; a slash is added where it does not end with one.
    pub prefix: String,
    /// Needed for `https` URLs.
    pub tls: Option<EtcdTls>,
    /// How much history this process keeps, and how often it compacts etcd.
    pub retention: Retention,
    /// What values go through on their way to etcd and back; see [`Transform`].
    pub transform: Arc<dyn Transform>,
    /// Brings a value that others wrote into the form that this process keeps; see [`as_it_is`].
    pub form: Form,
}

/// From a value in etcd to the value of an entry.
pub type Form = fn(&[u8]) -> Bytes;

/// The value itself. A copy, because a slice would keep etcd's whole answer in memory for as long as one of its values lives.
pub fn as_it_is(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(value)
}

/// Certificates, all PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// Who signs the members' certificates.
    pub ca: Vec<u8>,
    /// Our certificate and its key, where etcd asks for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for EtcdTls {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdTls").field("client_certificate", &self.identity.is_some()).finish_non_exhaustive()
    }
}

impl EtcdConfig {
    /// The prefix with the slash that keeps `/registry` apart from `/registry2`.
    pub(super) fn slashed_prefix(&self) -> String {
        if self.prefix.ends_with('/') { self.prefix.clone() } else { format!("{}/", self.prefix) }
    }

    /// The endpoints, or everything that is wrong with the settings.
    pub(super) fn parse(&self) -> Result<Vec<Endpoint>, OpenError> {
        let mut mistakes = Vec::new();
        if self.endpoints.is_empty() {
            mistakes.push("no endpoint given; at least one URL such as https://[::1]:2379 is needed".to_owned());
        }
        if self.prefix.contains('\0') {
            mistakes.push(format!("prefix {:?} contains a NUL character; any other is accepted", self.prefix));
        }
        let mut endpoints = Vec::new();
        for url in &self.endpoints {
            match self.endpoint(url) {
                Ok(endpoint) => endpoints.push(endpoint),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if mistakes.is_empty() { Ok(endpoints) } else { Err(OpenError::Settings(mistakes)) }
    }

    fn endpoint(&self, url: &str) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| {
            format!("endpoint {url:?}: {error}; a URL such as http://127.0.0.1:2379 or https://[::1]:2379 is accepted")
        })?;
        if endpoint.uri().host().is_none() {
            return Err(format!("endpoint {url:?} has no host; a URL such as https://[::1]:2379 is accepted"));
        }
        match (endpoint.uri().scheme_str(), &self.tls) {
            (Some("http"), None) => Ok(endpoint),
            (Some("http"), Some(_)) => Err(format!("endpoint {url:?} is http, but certificates are given; use https")),
            (Some("https"), Some(tls)) => {
                let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
                if let Some((certificate, key)) = &tls.identity {
                    config = config.identity(Identity::from_pem(certificate, key));
                }
                endpoint.tls_config(config).map_err(|error| format!("endpoint {url:?}: certificates: {error}"))
            }
            (Some("https"), None) => Err(format!("endpoint {url:?} is https; give the CA that signed its certificate")),
            _ => Err(format!("endpoint {url:?} is neither http nor https; one of them is needed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_in_the_settings_are_reported_together() {
        let config = EtcdConfig {
            endpoints: vec!["https://[::1]:2379".into(), "ftp://127.0.0.1".into(), "http://127.0.0.1:2379".into()],
            prefix: "a\0".into(),
            tls: None,
            retention: Retention::default(),
            transform: Arc::new(crate::transform::AsItIs),
            form: as_it_is,
        };
        assert_eq!(
            config.parse().expect_err("three mistakes").to_string(),
            "etcd settings: prefix \"a\\0\" contains a NUL character; any other is accepted; \
             endpoint \"https://[::1]:2379\" is https; give the CA that signed its certificate; \
             endpoint \"ftp://127.0.0.1\" is neither http nor https; one of them is needed"
        );
    }
}
