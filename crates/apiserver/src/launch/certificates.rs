//! Certificates of a server: its own authority, what it shows, whom it believes, and the administrator's. Kept in `--cert-dir`.

use super::{ApiServerOptions, FrontProxyOptions};
use crate::{
    aggregation::{FrontProxy, front_proxy::Signers},
    bootstrap::KUBELET_CLIENT,
};
use net::HasFamily as _;
use runtime::{
    atomic_file,
    pki::{Authority, Bundle, Identity, PkiError, Purpose, Rotating, TokenKey},
    task::Tasks,
    tls,
};
use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// Names under which Pods find the API.
const NAMES: [&str; 5] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"];

/// Who this server is to those it passes requests on to.
const FRONT_PROXY: &str = "front-proxy-client";

/// Certificates that cannot be read, made or written.
#[derive(Debug, thiserror::Error)]
#[error("certificates: {0}")]
pub struct CertificatesError(#[from] PkiError);

/// The certificates in use.
pub struct Certificates {
    folder: PathBuf,
    authority: Arc<Authority>,
    shown: Arc<Rotating>,
    /// What is renewed when it grows old; not the administrator's own certificate.
    renewed: Option<Purpose>,
    /// Who signs what clients show.
    clients: Bundle,
    clients_pem: String,
    /// Who signs what front proxies show, where others may be one.
    proxies: Option<Bundle>,
    /// For the kubeconfig: who signed what is shown.
    authority_pem: String,
}

impl Certificates {
    /// Reads or makes them. The server's certificate names every address it can be reached by, in both families.
    pub fn prepare(options: &ApiServerOptions, addresses: &[SocketAddr]) -> Result<Self, CertificatesError> {
        let now = SystemTime::now();
        let folder = options.cert_dir.clone().unwrap_or_else(|| options.data_dir.join("pki"));
        close(&folder).map_err(|source| PkiError::Write { path: folder.clone(), source })?;
        let authority = Arc::new(Authority::load_or_create(&folder, "twinstack", now)?);
        let signing = TokenKey::load_or_create(&folder.join("sa.key"))?;
        let public = folder.join("sa.pub");
        atomic_file::write(&public, signing.public_pem().as_bytes(), atomic_file::PUBLIC)
            .map_err(|source| PkiError::Write { path: public, source })?;
        let mut clients = authority.certificate_pem().to_owned();
        if let Some(path) = &options.client_ca {
            Bundle::load(path)?;
            clients.push_str(&std::fs::read_to_string(path).unwrap_or_default());
        }
        let proxies = options.front_proxy.authority.as_deref().map(Bundle::load).transpose()?;
        let (shown, renewed, authority_pem) = match options.serving.clone().or_else(|| kept(&folder)) {
            Some((certificate, key)) => {
                let given = Identity::load_pair(&certificate, &key)?;
                // Whoever signed it, the administrator's kubeconfig trusts exactly this chain.
                let pem = format!("{}{}", given.chain_pem(), authority.certificate_pem());
                (given, None, pem)
            }
            None => {
                let purpose = purpose(options, addresses);
                let identity = authority.keep(&folder.join("apiserver.pem"), &purpose, now)?;
                (identity, Some(purpose), authority.certificate_pem().to_owned())
            }
        };
        Ok(Self {
            shown: Rotating::new(&shown)?,
            clients: Bundle::from_pem(&clients)?,
            clients_pem: clients,
            proxies,
            folder,
            authority,
            renewed,
            authority_pem,
        })
    }

    /// Where they are kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the key that signs tokens when no other is given.
    pub fn token_key(&self) -> PathBuf {
        self.folder.join("sa.key")
    }

    /// Who signed what the server shows, as PEM.
    pub fn authority_pem(&self) -> String {
        self.authority_pem.clone()
    }

    /// The administrator's certificate.
    pub fn administrator(&self) -> Result<Identity, CertificatesError> {
        let purpose = Purpose::Client { user: "kubernetes-admin".into(), groups: vec!["system:masters".into()] };
        Ok(self.authority.keep(&self.folder.join("admin.pem"), &purpose, SystemTime::now())?)
    }

    /// Who the server is to kubelets when nothing else is given: a user that a binding lets at nodes alone.
    pub fn kubelet_client(&self) -> Result<Identity, CertificatesError> {
        let purpose = Purpose::Client { user: KUBELET_CLIENT.into(), groups: Vec::new() };
        Ok(self.authority.keep(&self.folder.join("kubelet-client.pem"), &purpose, SystemTime::now())?)
    }

    /// For the listening sockets.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, CertificatesError> {
        let shown: Arc<Rotating> = Arc::clone(&self.shown);
        // Who signed which certificate is looked at again for every request (`front_proxy`).
        let all = self.proxies.as_ref().map_or_else(|| self.clients.clone(), |proxies| self.clients.with(proxies));
        Ok(tls::server_config(shown, Some(&all))?)
    }

    /// How users are vouched for. Without an authority of the administrator's, one is made beside the others.
    pub fn front_proxy(&self, options: &FrontProxyOptions) -> Result<FrontProxy, CertificatesError> {
        let mut front_proxy = FrontProxy {
            clients_pem: Some(self.clients_pem.clone()),
            headers: options.headers.clone(),
            ..FrontProxy::default()
        };
        if let Some((certificate, key)) = &options.identity {
            front_proxy.identity = Some(Identity::load_pair(certificate, key)?);
        }
        match (&options.authority, &self.proxies) {
            (Some(path), Some(proxies)) => {
                front_proxy.authority_pem = std::fs::read_to_string(path).ok();
                front_proxy.signers = Some(Signers::new(&self.clients, proxies)?);
            }
            _ if front_proxy.identity.is_none() => {
                let (folder, now) = (self.folder.join("front-proxy"), SystemTime::now());
                let authority = Authority::load_or_create(&folder, "front-proxy-ca", now)?;
                let purpose = Purpose::Client { user: FRONT_PROXY.into(), groups: Vec::new() };
                front_proxy.identity = Some(authority.keep(&folder.join("client.pem"), &purpose, now)?);
                front_proxy.authority_pem = Some(authority.certificate_pem().to_owned());
                front_proxy.headers.allowed_names = vec![FRONT_PROXY.to_owned()];
            }
            _ => {}
        }
        Ok(front_proxy)
    }

    /// Renews the server's certificate before it runs out.
    pub fn keep_fresh(&self, tasks: &Tasks) {
        let Some(purpose) = self.renewed.clone() else { return };
        let (shown, authority, path) =
            (Arc::clone(&self.shown), Arc::clone(&self.authority), self.folder.join("apiserver.pem"));
        tasks.restarting("serving certificate", move |stop| {
            let (shown, authority, path, purpose) =
                (Arc::clone(&shown), Arc::clone(&authority), path.clone(), purpose.clone());
            async move {
                shown.keep_fresh(SystemTime::now, |now| authority.keep(&path, &purpose, now), stop).await;
                Ok::<(), Infallible>(())
            }
        });
    }
}

/// Nobody but the owner enters the folder or reads a key in it, whoever made them.
fn close(folder: &Path) -> io::Result<()> {
    atomic_file::close_directory(folder)?;
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|kind| kind == "key" || kind == "pem") && path.is_file() {
            atomic_file::restrict(&path, atomic_file::PRIVATE)?;
        }
    }
    Ok(())
}

/// A certificate for the server that somebody put into the folder, under upstream's names.
fn kept(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let pair = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    (pair.0.is_file() && pair.1.is_file()).then_some(pair)
}

fn purpose(options: &ApiServerOptions, addresses: &[SocketAddr]) -> Purpose {
    let mut all: Vec<IpAddr> = net::Family::BOTH.map(net::Family::loopback).into();
    all.extend(addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()));
    all.extend(options.advertise.iter().flat_map(|pair| pair.iter().copied()));
    all.extend(options.service_ranges.iter().map(|range| range.first()));
    all.sort_by_key(|ip| (ip.family(), *ip));
    all.dedup();
    let mut names = NAMES.map(str::to_owned).to_vec();
    if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        let host = host.trim().to_owned();
        if !host.is_empty() && !names.contains(&host) {
            names.push(host);
        }
    }
    Purpose::Serving { names, addresses: all }
}
