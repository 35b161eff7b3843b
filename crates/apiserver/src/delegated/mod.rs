//! Questions that others answer: who a token is (issuers of JSON Web Tokens, a webhook) and who may what (webhooks).
//!
//! `launch` reads the files and puts what comes of them into the authenticator and the chain of authorizers. Those are asked without
//! waiting, deep inside of a request; what has to wait for somebody else does so in `wait`, which gives the thread's other work away.

mod authentication;
mod authorization;
mod cache;
mod issuer;
mod metrics;
mod reload;
mod remote;
mod token_webhook;

#[cfg(test)]
mod tests;

pub use authentication::{AuthenticationConfiguration, oidc};
pub use authorization::{AuthorizationConfiguration, FailurePolicy, Webhook, WebhookSettings};
pub use issuer::{Issuers, Oidc};
pub use metrics::{IssuerMetrics, ReloadMetrics, WebhookMetrics};
pub use reload::ConfigFile;
pub use token_webhook::{TokenWebhook, TokenWebhookSettings};

/// Waits for somebody else where nobody can be waited for.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(answer))
}

/// What is wrong with a file, each with its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct FileMistakes(pub Vec<String>);

impl From<String> for FileMistakes {
    fn from(mistake: String) -> Self {
        Self(vec![mistake])
    }
}

/// What calls itself by this kind, in one of the versions that say the same.
fn called(api_version: &str, kind: &str, wanted: &str, mistakes: &mut Vec<String>) {
    const VERSIONS: [&str; 3] =
        ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
    if !VERSIONS.contains(&api_version) {
        mistakes.push(format!("apiVersion: {api_version:?} is not accepted; accepted: {}", VERSIONS.join(", ")));
    }
    if kind != wanted {
        mistakes.push(format!("kind: {kind:?} is not accepted; accepted: {wanted}"));
    }
}
