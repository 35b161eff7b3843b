//! Certificates and kubeconfigs of a cluster in a folder.

use super::{Shape, network};
use runtime::{
    kubeconfig::{Credential, Kubeconfig, Url},
    pki::{Authority, Identity, Purpose},
    secret::Secret,
};
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The authority of a cluster.
pub struct Credentials {
    folder: PathBuf,
    authority: Authority,
    servers: Vec<(String, Url)>,
}

impl Credentials {
    pub(super) fn new(folder: &Path, shape: Shape) -> Self {
        let pki = folder.join("data/pki");
        let authority = Authority::load_or_create(&pki, "kubernetes", SystemTime::now()).expect("an authority");
        let addresses: Vec<IpAddr> = shape.of(&network::HUB).iter().map(|ip| ip.parse().expect("an address")).collect();
        let server = |ip: &IpAddr| (format!("lab-{ip}"), Url::from(SocketAddr::new(*ip, 6443)));
        Self { folder: folder.to_owned(), authority, servers: addresses.iter().map(server).collect() }
    }

    pub(super) fn issue(&self, purpose: &Purpose) -> Identity {
        self.authority.issue(purpose, SystemTime::now()).expect("a certificate")
    }

    /// A file by which somebody with a certificate reaches the API.
    pub fn client(&self, name: &str, user: &str, groups: &[&str]) -> PathBuf {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let identity = self.issue(&Purpose::Client { user: user.to_owned(), groups });
        self.write(name, Credential::Certificate(identity))
    }

    /// The same with a token.
    pub fn bearer(&self, name: &str, token: &str) -> PathBuf {
        self.write(name, Credential::Token(Secret::new(token.to_owned())))
    }

    fn write(&self, name: &str, credential: Credential) -> PathBuf {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let authority_pem = self.authority.certificate_pem().to_owned();
        let file = Kubeconfig { user: name.to_owned(), servers: self.servers.clone(), authority_pem, credential };
        file.write(&path).expect("a file");
        path
    }
}
