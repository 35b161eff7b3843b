//! Asking the cluster for a certificate (CertificateSigningRequest) and waiting for it.

use super::Files;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Client, api::PostParams};
use runtime::{
    backoff::{self, Backoff},
    client::Api,
    pki::{Identity, PendingKey, PkiError, Wish},
};
use std::time::Duration;

/// Upstream's names of those who sign for kubelets, and what for.
pub(super) const CLIENT: Signer = Signer { name: "kubernetes.io/kube-apiserver-client-kubelet", usage: "client auth" };
pub(super) const SERVING: Signer = Signer { name: "kubernetes.io/kubelet-serving", usage: "server auth" };

pub(super) struct Signer {
    name: &'static str,
    usage: &'static str,
}

/// A person may have to say yes.
const LOOK: Backoff = Backoff { first: Duration::from_millis(100), cap: Duration::from_secs(2) };

/// Why there is no certificate. Retryable: with another key, or later.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{}", runtime::client::error_line(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("certificate request {name} is {condition}: {message}")]
    Refused { name: String, condition: String, message: String },
}

/// Asks, or goes on waiting for what was asked before. Nobody may answer for long.
pub(super) async fn obtain(
    client: &Client,
    files: &Files,
    signer: &Signer,
    wish: &Wish,
) -> Result<Identity, CertificateError> {
    let key = files.pending()?;
    let name = format!("node-csr-{}", &key.digest(wish, signer.name)[..43]);
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let mut looks = 0;
    loop {
        let Some(asked) = api.get_opt(&name).await? else {
            create(&api, &name, &key, signer, wish).await?;
            continue;
        };
        if let Some(refusal) = refusal(&name, &asked) {
            // The same would be refused again.
            files.forget_pending();
            return Err(refusal);
        }
        if let Some(pem) = issued(&asked) {
            let identity = key.with_certificate(&pem);
            if identity.is_err() {
                files.forget_pending();
            }
            return Ok(identity?);
        }
        looks += 1;
        tokio::time::sleep(LOOK.delay(looks, backoff::random())).await;
    }
}

async fn create(
    api: &Api<CertificateSigningRequest>,
    name: &str,
    key: &PendingKey,
    signer: &Signer,
    wish: &Wish,
) -> Result<(), CertificateError> {
    let request = CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(key.request(wish)?.into_bytes()),
            signer_name: signer.name.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), signer.usage.to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    match api.create(&PostParams::default(), &request).await {
        Ok(_) => tracing::info!(name, signer = signer.name, "a certificate is asked for"),
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn refusal(name: &str, asked: &CertificateSigningRequest) -> Option<CertificateError> {
    let conditions = asked.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|one| ["Denied", "Failed"].contains(&one.type_.as_str()))?;
    Some(CertificateError::Refused {
        name: name.to_owned(),
        condition: condition.type_.to_lowercase(),
        message: condition.message.clone().or_else(|| condition.reason.clone()).unwrap_or_default(),
    })
}

fn issued(asked: &CertificateSigningRequest) -> Option<String> {
    let certificate = asked.status.as_ref()?.certificate.as_ref()?;
    String::from_utf8(certificate.0.clone()).ok().filter(|pem| !pem.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(status: serde_json::Value) -> CertificateSigningRequest {
        let spec = json!({"request": "", "signerName": "s"});
        let kind = "CertificateSigningRequest";
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_answer_is_a_certificate_or_a_refusal() {
        assert_eq!(issued(&with(json!({"certificate": "cGVt"}))).as_deref(), Some("pem"));
        assert_eq!(issued(&with(json!({"conditions": [{"type": "Approved", "status": "True"}]}))), None);
        let denied = with(json!({"conditions": [{"type": "Denied", "status": "True", "message": "who are you"}]}));
        let told = refusal("x", &denied).map(|error| error.to_string());
        assert_eq!(told.as_deref(), Some("certificate request x is denied: who are you"));
        assert!(refusal("x", &with(json!({}))).is_none());
    }
}
