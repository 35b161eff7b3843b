//! A client for the cluster, as `--kubeconfig` names it, or as a pod finds it.

mod api;
pub(crate) mod endpoint;
mod error_line;
pub(crate) mod list;
mod reach;
mod renewed;
mod stack;

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use objects::Decode;
use std::{
    fmt::Debug,
    path::{Path, PathBuf},
};

pub use api::{Api, Metadata};
pub use error_line::{error_line, is_unreachable};
pub use renewed::Renewable;
pub use stack::client;

/// A type of object that can be asked for and followed.
pub trait Kind: kube::Resource<DynamicType = ()> + Decode + Clone + Debug + Send + Sync + 'static {}

impl<K: kube::Resource<DynamicType = ()> + Decode + Clone + Debug + Send + Sync + 'static> Kind for K {}

/// Why there is no client. Not retryable but by changing what the flag names.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be used.
    #[error("--kubeconfig {}: {source}", .path.display())]
    Kubeconfig {
        /// The flag's value.
        path: PathBuf,
        source: Box<KubeconfigError>,
    },
    /// No file is given, and there is no service account.
    #[error("--kubeconfig is not given, and this is not a pod: {0}")]
    NotInCluster(#[from] InClusterError),
    /// The certificates or keys in it cannot be used.
    #[error("cannot make a client: {0}")]
    Unusable(#[source] Box<kube::Error>),
}

/// A client for the cluster that the file names; without a file, for the one that this pod runs in. Nothing is sent yet.
/// `component` is said to be who asks.
pub async fn connect(kubeconfig: Option<&Path>, component: &str) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path)
            .await
            .map_err(|source| ClientError::Kubeconfig { path: path.to_owned(), source: Box::new(source) })?,
        None => Config::incluster()?,
    };
    if let Ok(agent) = HeaderValue::from_str(component) {
        config.headers.push((USER_AGENT, agent));
    }
    client(config).map_err(|error| ClientError::Unusable(Box::new(error)))
}

async fn from_file(path: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named() {
        let error = connect(Some(Path::new("/nowhere/kubeconfig")), "test").await.err().unwrap().to_string();
        assert!(error.starts_with("--kubeconfig /nowhere/kubeconfig: "), "{error}");
    }
}
