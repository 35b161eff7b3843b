//! Certificates are replaced after four fifths of their life, while everybody goes on.

use super::{
    CertificateError, Files, client_wish,
    request::{CLIENT, SERVING, obtain},
    serving_wish,
};
use jiff::Timestamp;
use kube::Client;
use parking_lot::RwLock;
use runtime::{
    client::Renewable,
    pki::{Purpose, Rotating, rotate_at},
};
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// What is replaced.
pub struct Rotation {
    pub client: Option<ClientRotation>,
    pub serving: Option<ServingRotation>,
}

/// `--rotate-certificates`: what the node shows to the API server.
#[derive(Clone)]
pub struct ClientRotation {
    pub node: String,
    pub files: Files,
    pub connection: Renewable,
}

/// `--rotate-server-certificates`: what it shows to those who ask it.
#[derive(Clone)]
pub struct ServingRotation {
    pub node: String,
    pub hostname: String,
    pub files: Files,
    pub shown: Arc<Rotating>,
}

/// Clocks are set and machines are suspended.
const LONGEST: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_secs(5);
/// Addresses of a node change.
const LOOK: Duration = Duration::from_secs(10);

/// How long until a certificate is due.
fn wait(validity: runtime::pki::Validity) -> Duration {
    rotate_at(validity).duration_since(SystemTime::now()).unwrap_or_default().clamp(SHORTEST, LONGEST)
}

impl ClientRotation {
    /// Never ends.
    pub async fn run(self) {
        loop {
            let now = SystemTime::now();
            let due = self.files.current(now).is_none_or(|known| rotate_at(known.validity()) <= now);
            if due && let Err(error) = self.renew().await {
                let error = error.to_string();
                tracing::warn!(node = self.node, error, "the node's certificate is not replaced; tried again");
            }
            let next = self.files.current(now).map_or(SHORTEST, |known| wait(known.validity()));
            tokio::time::sleep(next).await;
        }
    }

    async fn renew(&self) -> Result<(), CertificateError> {
        let client: Client = self.connection.client();
        let identity = obtain(&client, &self.files, &CLIENT, &client_wish(&self.node)).await?;
        self.files.save(&identity, Timestamp::now())?;
        match self.connection.replace(&identity) {
            Ok(()) => tracing::info!(node = self.node, "the node shows another certificate"),
            Err(error) => tracing::error!(error = error.to_string(), "the node's new certificate cannot be shown"),
        }
        Ok(())
    }
}

impl ServingRotation {
    /// Never ends. `addresses` are the node's.
    pub async fn run(self, client: Client, addresses: Arc<RwLock<Vec<IpAddr>>>) {
        loop {
            let own = addresses.read().clone();
            if own.is_empty() {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
            let now = SystemTime::now();
            let wish = serving_wish(&self.node, &self.hostname, &own);
            let fits = Purpose::Serving { names: wish.names.clone(), addresses: own };
            let known = self.files.current(now).filter(|known| known.purpose().as_ref() == Some(&fits));
            let due = known.as_ref().is_none_or(|known| rotate_at(known.validity()) <= now);
            if due {
                // Nobody may approve for long; addresses may have changed by then.
                match tokio::time::timeout(LOOK * 6, obtain(&client, &self.files, &SERVING, &wish)).await {
                    Ok(Ok(identity)) => self.show(&identity),
                    Ok(Err(error)) => {
                        let error = error.to_string();
                        tracing::warn!(node = self.node, error, "the serving certificate is not replaced; tried again");
                    }
                    Err(_) => {}
                }
            }
            let next = known.map_or(SHORTEST, |known| wait(known.validity())).min(LOOK);
            tokio::time::sleep(next).await;
        }
    }

    fn show(&self, identity: &runtime::pki::Identity) {
        let saved = self.files.save(identity, Timestamp::now());
        match saved.and_then(|()| self.shown.replace(identity)) {
            Ok(()) => tracing::info!(node = self.node, "the kubelet serves with another certificate"),
            Err(error) => tracing::error!(error = error.to_string(), "the new serving certificate cannot be shown"),
        }
    }
}
