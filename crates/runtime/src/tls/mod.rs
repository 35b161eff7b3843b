//! TLS settings of servers and clients. Certificates come from `pki`.

mod verify;

use crate::pki::{Bundle, Identity, PkiError};
use rustls::{
    ClientConfig, Error, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    server::{ResolvesServerCert, WebPkiClientVerifier},
    sign::SingleCertAndKey,
};
use std::sync::{Arc, LazyLock};
use verify::Verifier;

/// Makes aws-lc-rs the provider of libraries that look for a default, such as kube. `main` and tests call it first;
/// calling it again does nothing.
pub fn install_provider() {
    let _already_installed = aws_lc_rs::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A server that shows what `certificate` resolves to. With `clients`, a client may show a certificate, and one that is
/// shown must be signed by one of them; without, none is asked for.
pub fn server_config(
    certificate: Arc<dyn ResolvesServerCert>,
    clients: Option<&Bundle>,
) -> Result<Arc<ServerConfig>, PkiError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(roots(authorities)?);
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, provider()).allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| Error::General(error.to_string()))?)
        }
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = alpn();
    Ok(Arc::new(config))
}

/// A client that trusts `authorities` alone and shows `identity` if the server asks.
pub fn client_config(authorities: &Bundle, identity: Option<&Identity>) -> Result<Arc<ClientConfig>, PkiError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(authorities)?);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_auth_cert(identity.chain(), identity.private_key()?)?,
    };
    config.alpn_protocols = alpn();
    Ok(Arc::new(config))
}

/// A client of public services: trusts what the machine trusts (`SSL_CERT_FILE`, the system's certificates), which is read once.
/// Without any, every connection is refused for an unknown issuer.
pub fn public_client_config() -> Arc<ClientConfig> {
    static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let (trusted, _) = roots.add_parsable_certificates(found.certs);
        if trusted == 0 || !found.errors.is_empty() {
            tracing::warn!(trusted, errors = ?found.errors, "certificates that this machine trusts cannot all be read");
        }
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(rustls::ALL_VERSIONS);
        let builder = builder.expect("the provider has suites of all versions");
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    });
    Arc::clone(&CONFIG)
}

/// A client that accepts any certificate: for what is reached by an address that it has no certificate for (kubelets without an
/// authority, probes, proxied Pods). No protocol is offered yet.
#[must_use]
pub fn unverified_client_config(shown: Option<SingleCertAndKey>) -> ClientConfig {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider speaks the usual versions of TLS")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::anybody(provider)));
    match shown {
        None => builder.with_no_client_auth(),
        Some(shown) => builder.with_client_cert_resolver(Arc::new(shown)),
    }
}

/// A client that trusts whoever the bundle's authorities signed and, as Go has it, the certificates in it themselves: a `caBundle`.
/// No protocol is offered yet.
pub fn bundle_client_config(bundle: &Bundle) -> Result<ClientConfig, Error> {
    let provider = provider();
    Ok(ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::listed(provider, bundle)?))
        .with_no_client_auth())
}

fn alpn() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}

fn roots(authorities: &Bundle) -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities.certificates() {
        roots.add(certificate.clone())?;
    }
    Ok(roots)
}
