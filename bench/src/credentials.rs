//! How the client proves itself and whom it believes: from a kubeconfig, or as PEM.

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde::Deserialize;
use std::sync::Arc;

/// Three PEM texts.
pub(crate) struct Credentials {
    /// Who signed the server's certificate.
    pub(crate) authority: Vec<u8>,
    /// The client's certificate.
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    certificate_authority_data: String,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}

impl Credentials {
    /// Of the first cluster and the first user of a kubeconfig.
    pub(crate) fn from_kubeconfig(text: &str) -> anyhow::Result<Self> {
        let Kubeconfig { clusters, users } = serde_saphyr::from_str(text)?;
        let cluster = &clusters.first().context("no cluster")?.cluster;
        let user = &users.first().context("no user")?.user;
        Ok(Self {
            authority: STANDARD.decode(&cluster.certificate_authority_data)?,
            certificate: STANDARD.decode(&user.client_certificate_data)?,
            key: STANDARD.decode(&user.client_key_data)?,
        })
    }

    /// What rustls makes of them.
    pub(crate) fn tls(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&self.authority) {
            roots.add(authority?)?;
        }
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Arc::new(config))
    }
}
