//! A node's first certificate: asked for with a token that may only ask, and written down as the node's own kubeconfig.

use super::{
    CertificateError, Files, client_wish,
    files::holds,
    request::{CLIENT, obtain},
};
use jiff::Timestamp;
use kube::config::Kubeconfig;
use runtime::{
    atomic_file,
    backoff::{self, Backoff},
    client,
    pki::Identity,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What is known before a node is.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// `--kubeconfig`: where the node's own goes.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`
    pub bootstrap: PathBuf,
    pub cert_dir: PathBuf,
    pub node: String,
}

/// Why a node cannot even begin to ask. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("--bootstrap-kubeconfig {}: {problem}", .path.display())]
    Unusable { path: PathBuf, problem: String },
    #[error("--kubeconfig {}: {source}", .path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

const AGAIN: Backoff = Backoff { first: Duration::from_millis(500), cap: Duration::from_secs(30) };

/// Makes sure that there is a kubeconfig whose certificate holds. Returns when there is, however long that takes.
pub async fn bootstrap(given: &Bootstrap) -> Result<(), BootstrapError> {
    let now = SystemTime::now();
    if is_usable(&given.kubeconfig, now) {
        return Ok(());
    }
    let unusable = |problem: String| BootstrapError::Unusable { path: given.bootstrap.clone(), problem };
    let source = Kubeconfig::read_from(&given.bootstrap).map_err(|error| unusable(error.to_string()))?;
    let files = Files::client(&given.cert_dir);
    if files.current(now).is_none() {
        let client = client::connect(Some(&given.bootstrap), "twinstack-kubelet")
            .await
            .map_err(|error| unusable(error.to_string()))?;
        let mut failures = 0;
        while let Err(error) = ask(&client, &files, &given.node).await {
            failures += 1;
            let error = error.to_string();
            tracing::warn!(node = given.node, error, "the node has no certificate yet; tried again");
            tokio::time::sleep(AGAIN.delay(failures, backoff::random())).await;
        }
    }
    let text = own(source, &files.current_path()).ok_or_else(|| unusable("it names no cluster".to_owned()))?;
    let failed = |source| BootstrapError::Write { path: given.kubeconfig.clone(), source };
    if let Some(folder) = given.kubeconfig.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    atomic_file::write(&given.kubeconfig, text.as_bytes(), atomic_file::PRIVATE).map_err(failed)?;
    tracing::info!(node = given.node, kubeconfig = %given.kubeconfig.display(), "the node has a certificate");
    Ok(())
}

async fn ask(client: &kube::Client, files: &Files, node: &str) -> Result<(), CertificateError> {
    let identity = obtain(client, files, &CLIENT, &client_wish(node)).await?;
    Ok(files.save(&identity, Timestamp::now())?)
}

/// Whether somebody can go on with this file: its certificate, if it has one, holds.
fn is_usable(path: &Path, now: SystemTime) -> bool {
    let Ok(config) = Kubeconfig::read_from(path) else { return false };
    let Some(auth) = config.auth_infos.into_iter().find_map(|named| named.auth_info) else { return false };
    match (auth.client_certificate, auth.client_key) {
        (Some(certificate), Some(key)) => {
            let identity = Identity::load_pair(Path::new(&certificate), Path::new(&key));
            identity.is_ok_and(|identity| holds(identity.validity(), now))
        }
        // Tokens and programs that give them: the API server says whether they are good.
        _ => true,
    }
}

/// The same cluster, with the node's certificate, wherever that leads by then.
fn own(source: Kubeconfig, certificate: &Path) -> Option<String> {
    let wanted = source.current_context.as_ref().and_then(|current| {
        let context = source.contexts.iter().find(|named| named.name == *current)?;
        Some(context.context.as_ref()?.cluster.clone())
    });
    let mut clusters = source.clusters;
    let chosen = wanted.and_then(|name| clusters.iter().position(|cluster| cluster.name == name)).unwrap_or(0);
    let mut cluster = (chosen < clusters.len()).then(|| clusters.swap_remove(chosen))?;
    cluster.name = "default-cluster".to_owned();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "default-context", "clusters": [cluster],
        "users": [{"name": "default-auth", "user": {"client-certificate": certificate, "client-key": certificate}}],
        "contexts": [{"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}],
    });
    // JSON is YAML.
    Some(format!("{config:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pki::{Authority, Purpose};

    const SOURCE: &str = "
apiVersion: v1
kind: Config
current-context: b
clusters:
- {name: x, cluster: {server: 'https://192.0.2.1:6443'}}
- {name: y, cluster: {server: 'https://[2001:db8::1]:6443', certificate-authority-data: cGVt}}
contexts:
- {name: a, context: {cluster: x, user: u}}
- {name: b, context: {cluster: y, user: u}}
users:
- {name: u, user: {token: abcdef.0123456789abcdef}}
";

    #[test]
    fn the_nodes_own_file_has_the_same_cluster_and_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let source = Kubeconfig::from_yaml(SOURCE).unwrap();
        let certificate = folder.path().join("kubelet-client-current.pem");
        let text = own(source, &certificate).unwrap();
        assert!(text.contains("https://[2001:db8::1]:6443") && !text.contains("192.0.2.1"), "{text}");
        assert!(!text.contains("abcdef"), "{text}");
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        let now = SystemTime::now();
        assert!(!is_usable(&path, now), "there is no certificate");
        let authority = Authority::create("test", now).unwrap();
        let purpose = Purpose::Client { user: "system:node:a".to_owned(), groups: Vec::new() };
        authority.issue(&purpose, now).unwrap().save(&certificate).unwrap();
        assert!(is_usable(&path, now));
        assert!(!is_usable(&path, now + Duration::from_secs(2 * 365 * 86_400)), "it has run out");
        assert!(!is_usable(&folder.path().join("nothing"), now));
    }
}
