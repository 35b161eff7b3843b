//! The certificate and the sockets of the server that a kubelet has.

use super::settings::{PORT, Serving};
use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{Client, config::Kubeconfig};
use node::{
    certificates::{Files, ServingRotation},
    cri::Runtime,
    kubelet::{KubeletOptions, addresses::NodeIps, register::NodeOptions},
    server::{Authorization, ServerOptions},
};
use runtime::{
    listen,
    pki::{Authority, Bundle, Identity, Purpose, Rotating},
};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// What can be made before there is a runtime.
pub(super) struct Prepared {
    node: String,
    root: PathBuf,
    listeners: Vec<TcpListener>,
    certificate: Arc<Rotating>,
    rotation: Option<ServingRotation>,
    client_ca: Option<Bundle>,
    anonymous: bool,
    authorization: Authorization,
}

/// The authority that the API server's own certificate is signed by, and so the one that it shows to nodes.
fn cluster_authority(kubeconfig: &Path) -> Option<Bundle> {
    let config = Kubeconfig::read_from(kubeconfig).ok()?;
    let cluster = config.clusters.into_iter().find_map(|named| named.cluster)?;
    let pem = match (cluster.certificate_authority_data, cluster.certificate_authority) {
        (Some(data), _) => String::from_utf8(BASE64_STANDARD.decode(data.trim()).ok()?).ok()?,
        (None, Some(file)) => std::fs::read_to_string(file).ok()?,
        (None, None) => return None,
    };
    Bundle::from_pem(&pem).ok()
}

pub(super) fn prepare(
    serving: Serving,
    kubelet: &KubeletOptions,
    kubeconfig: Option<&Path>,
) -> anyhow::Result<Prepared> {
    let Serving { hosts, port, pair, requested, cert_dir, client_ca, anonymous, authorization } = serving;
    let mut rotation = None;
    let certificate = match pair {
        Some((certificate, key)) => Rotating::new(&Identity::load_pair(&certificate, &key)?)?,
        None if requested => {
            let files = Files::serving(&cert_dir);
            // Until somebody has signed one there is none: whoever asks is told so by the handshake, as upstream has it.
            let shown =
                files.current(SystemTime::now()).map_or_else(|| Ok(Rotating::empty()), |one| Rotating::new(&one))?;
            let NodeOptions { name, hostname, .. } = kubelet.node.clone();
            rotation = Some(ServingRotation { node: name, hostname, files, shown: Arc::clone(&shown) });
            shown
        }
        None => {
            let identity = own(&cert_dir, kubelet).with_context(|| format!("--cert-dir {}", cert_dir.display()))?;
            Rotating::new(&identity)?
        }
    };
    Ok(Prepared {
        node: kubelet.node.name.clone(),
        root: kubelet.root.clone(),
        listeners: listen::tcp(PORT.name, &hosts, port)?,
        certificate,
        rotation,
        client_ca: match client_ca {
            Some(file) => Some(Bundle::load(&file)?),
            None => kubeconfig.and_then(cluster_authority),
        },
        anonymous,
        authorization,
    })
}

/// A certificate of an authority that only this node has, as upstream's kubelet signs its own.
fn own(folder: &Path, kubelet: &KubeletOptions) -> anyhow::Result<Identity> {
    std::fs::create_dir_all(folder)?;
    let now = SystemTime::now();
    let authority = Authority::load_or_create(folder, &format!("{}-ca", kubelet.node.name), now)?;
    let addresses = match &kubelet.node.ips {
        NodeIps::Given(ips) => ips.iter().copied().collect(),
        NodeIps::Detect(_) => Vec::new(),
    };
    let purpose = Purpose::Serving { names: vec![kubelet.node.name.clone()], addresses };
    Ok(authority.keep(&folder.join("kubelet.pem"), &purpose, now)?)
}

impl Prepared {
    /// What keeps the certificate fresh; taken once.
    pub(super) fn rotation(&mut self) -> Option<ServingRotation> {
        self.rotation.take()
    }

    pub(super) fn options(self, client: Client, runtime: Runtime) -> ServerOptions {
        let Self { node, root, listeners, certificate, rotation: _, client_ca, anonymous, authorization } = self;
        ServerOptions {
            node_name: node,
            listeners,
            certificate,
            client_ca,
            anonymous,
            authorization,
            client,
            runtime,
            volumes: None,
            probes: None,
            root,
            configz: serde_json::json!({}),
        }
    }
}
