//! Who a router process is to the API: the account that routers have as Pods, with its rights and no others.
//!
//! Its kubeconfig leads where the operator's own does and names a file with a token, which is made anew long before it ends. The
//! client of the router reads that file again by itself.

use crate::operator::{names::OPERAND_NAMESPACE, plan::small};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Client,
    api::PostParams,
    config::{AuthInfo, Kubeconfig, NamedAuthInfo},
};
use runtime::{
    atomic_file::{self, PRIVATE},
    client::Api,
    controller::Result,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How long a token is good for. A router whose operator is away for longer goes on with what it knows.
const LIFE: Duration = Duration::from_secs(48 * 3600);
/// The age at which it is made anew. Each IngressController is looked at twice a day at least.
const RENEWAL: Duration = Duration::from_secs(6 * 3600);

/// Where a router finds its kubeconfig, in its own folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// Writes both files. `anew` for a token whatever the age of the one that is there.
pub(super) async fn write(client: &Client, own: &Path, folder: &Path, anew: bool) -> Result<()> {
    atomic_file::private_directory(folder)?;
    let token = folder.join("token");
    let age = std::fs::metadata(&token).and_then(|file| file.modified()).ok();
    let age = age.and_then(|written| SystemTime::now().duration_since(written).ok());
    if anew || age.is_none_or(|age| age > RENEWAL) {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), OPERAND_NAMESPACE);
        let seconds = i64::try_from(LIFE.as_secs()).ok();
        let spec = TokenRequestSpec { expiration_seconds: seconds, ..TokenRequestSpec::default() };
        let asked = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let given: TokenRequest =
            accounts.create_subresource("token", small::ACCOUNT, &PostParams::default(), &asked).await?;
        let text =
            given.status.and_then(|status| status.token).ok_or("the API answers a request for a token without one")?;
        atomic_file::write(&token, text.as_bytes(), PRIVATE)?;
    }
    let content = serde_json::to_vec(&with_token(Kubeconfig::read_from(own)?, token.display().to_string()))?;
    if std::fs::read(path(folder)).ok().as_ref() != Some(&content) {
        atomic_file::write(&path(folder), &content, PRIVATE)?;
    }
    Ok(())
}

/// The same clusters, reached by the owner of a token.
fn with_token(mut config: Kubeconfig, token_file: String) -> Kubeconfig {
    let auth_info = AuthInfo { token_file: Some(token_file), ..AuthInfo::default() };
    config.auth_infos =
        vec![NamedAuthInfo { name: small::ACCOUNT.to_owned(), auth_info: Some(auth_info), ..Default::default() }];
    for context in config.contexts.iter_mut().filter_map(|context| context.context.as_mut()) {
        context.user = Some(small::ACCOUNT.to_owned());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_operators_own_identity_is_passed_on() {
        let own = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": "https://[::1]:6443", "certificate-authority-data": "Q0E="}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "admin"}}],
            "users": [{"name": "admin", "user": {"token": "its-own", "client-key-data": "its-key"}}]}"#;
        let config = with_token(Kubeconfig::from_yaml(own).unwrap(), "/f/token".to_owned());
        let text = serde_json::to_string(&config).unwrap();
        assert!(!text.contains("its-") && !text.contains("admin"), "{text}");
        assert!(text.contains("https://[::1]:6443") && text.contains("\"/f/token\""), "{text}");
        assert!(Kubeconfig::from_yaml(&text).is_ok());
    }
}
