//! `certificatesigningrequest-signing-controller`: makes the certificates that were approved.

use super::{CertificateOptions, plan};
use crate::framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work};
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};
use kube::{ResourceExt, api::PostParams};
use runtime::{
    client::Api,
    pki::{Authority, CertificateRequest, PkiError},
};
use std::time::SystemTime;

struct Signer {
    requests: Store<CertificateSigningRequest>,
    api: Api<CertificateSigningRequest>,
    options: CertificateOptions,
}

/// Runs until it is dropped; ends at once when there is no authority to sign with.
pub(super) async fn run(context: Context) -> Result<()> {
    let options = context.options().certificates.clone();
    if options.authorities.iter().all(Option::is_none) {
        return Ok(());
    }
    let requests = context.store::<CertificateSigningRequest>();
    let queue: Queue<Key> = context.queue("csrsigning");
    let _requests = requests.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    context.synced(&[&requests]).await;
    work(&queue, 5, &Signer { requests, api: Api::all(context.client()), options }).await
}

/// What came of a request.
enum Outcome {
    Certificate(String),
    Failed(String),
}

impl Reconcile for Signer {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(request) = self.requests.get(key) else { return Ok(Next::Done) };
        if !plan::is_approved(&request) || plan::is_issued(&request) || plan::has(&request, "Failed") {
            return Ok(Next::Done);
        }
        let Some(outcome) = self.sign(&request)? else { return Ok(Next::Done) };
        let mut new = CertificateSigningRequest::clone(&request);
        let status = new.status.get_or_insert_default();
        match outcome {
            Outcome::Certificate(pem) => status.certificate = Some(ByteString(pem.into_bytes())),
            Outcome::Failed(why) => {
                status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
                    type_: "Failed".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("SignerValidationFailure".to_owned()),
                    message: Some(why),
                    ..CertificateSigningRequestCondition::default()
                })
            }
        }
        match self.api.replace_status(&new.name_any(), &PostParams::default(), &new).await {
            Ok(written) => self.requests.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}

impl Signer {
    /// Signs, if a signer here is asked.
    fn sign(&self, asked: &CertificateSigningRequest) -> Result<Option<Outcome>, PkiError> {
        let spec = &asked.spec;
        let Some(files) = self.options.authority(&spec.signer_name) else { return Ok(None) };
        let request = match CertificateRequest::from_pem(&String::from_utf8_lossy(&spec.request.0)) {
            Ok(request) => request,
            Err(error) => return Ok(Some(Outcome::Failed(error.to_string()))),
        };
        let usages = spec.usages.clone().unwrap_or_default();
        if let Err(why) = plan::refusal(&spec.signer_name, &request, &usages) {
            return Ok(Some(Outcome::Failed(why)));
        }
        let authority = Authority::load_pair(&files.certificate, &files.key)?;
        let lifetime = plan::lifetime(spec.expiration_seconds, self.options.duration);
        authority.sign(&request, &usages, lifetime, SystemTime::now()).map(|pem| Some(Outcome::Certificate(pem)))
    }
}
