//! A client whose certificate is replaced while it is used. Requests that are under way, watches among them, end with what they began with;
//! the server judges each when it comes.

use super::{
    ClientError,
    stack::{Stack, stack},
};
use crate::pki::Identity;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, Response, header::USER_AGENT};
use hyper::body::Incoming;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll},
};
use tower::{BoxError, Service, ServiceExt, util::Oneshot};

/// What requests of a client go through, from some moment on something else.
#[derive(Clone)]
pub struct Renewable {
    config: Config,
    current: Arc<Mutex<Stack>>,
}

impl Renewable {
    /// Reads a kubeconfig. Shows `identity` in the place of what the file has, where there is one.
    pub async fn read(path: &Path, component: &str, identity: Option<&Identity>) -> Result<Self, ClientError> {
        let wrong = |source| ClientError::Kubeconfig { path: PathBuf::from(path), source: Box::new(source) };
        let file = Kubeconfig::read_from(path).map_err(wrong)?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(wrong)?;
        if let Ok(agent) = HeaderValue::from_str(component) {
            config.headers.push((USER_AGENT, agent));
        }
        if let Some(identity) = identity {
            show(&mut config, identity);
        }
        let current = stack(&config).map_err(|error| ClientError::Unusable(Box::new(error)))?;
        Ok(Self { config, current: Arc::new(Mutex::new(current)) })
    }

    /// A client that follows.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Renewed(Arc::clone(&self.current)), self.config.default_namespace.clone())
    }

    /// Shows `identity` from now on, on connections of its own.
    pub fn replace(&self, identity: &Identity) -> Result<(), ClientError> {
        let mut config = self.config.clone();
        show(&mut config, identity);
        *self.current.lock() = stack(&config).map_err(|error| ClientError::Unusable(Box::new(error)))?;
        Ok(())
    }
}

fn show(config: &mut Config, identity: &Identity) {
    let auth = &mut config.auth_info;
    (auth.client_certificate, auth.client_key, auth.token, auth.token_file) = (None, None, None, None);
    auth.client_certificate_data = Some(STANDARD.encode(identity.chain_pem()));
    auth.client_key_data = Some(STANDARD.encode(identity.key_pem().expose()).into());
}

#[derive(Clone)]
struct Renewed(Arc<Mutex<Stack>>);

impl Service<Request<Body>> for Renewed {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Oneshot<Stack, Request<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let stack = self.0.lock().clone();
        stack.oneshot(request)
    }
}
