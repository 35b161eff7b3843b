//! `certificatesigningrequest-approving-controller`: kubelets get their client certificates without a person, if they have the right.

use super::plan;
use crate::framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};
use kube::{Client, ResourceExt, api::PostParams};
use runtime::{backoff::Backoff, client::Api, pki::CertificateRequest};
use std::time::Duration;

/// The right may come later than the request, as upstream has it.
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), cap: Duration::from_secs(1000) };

struct Approver {
    requests: Store<CertificateSigningRequest>,
    client: Client,
}

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let requests = context.store::<CertificateSigningRequest>();
    let queue: Queue<Key> = context.queue_with("csrapproving", RETRY);
    let _requests = requests.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    context.synced(&[&requests]).await;
    work(&queue, 5, &Approver { requests, client: context.client() }).await
}

impl Reconcile for Approver {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(asked) = self.requests.get(key) else { return Ok(Next::Done) };
        let decided = ["Approved", "Denied"].iter().any(|kind| plan::has(&asked, kind));
        if decided || plan::is_issued(&asked) {
            return Ok(Next::Done);
        }
        let Ok(request) = CertificateRequest::from_pem(&String::from_utf8_lossy(&asked.spec.request.0)) else {
            return Ok(Next::Done);
        };
        let rights = plan::auto_approvals(&asked, &request);
        for (right, message) in &rights {
            if self.has_right(&asked, right).await? {
                self.approve(&asked, message).await?;
                return Ok(Next::Done);
            }
        }
        match rights.is_empty() {
            true => Ok(Next::Done),
            false => {
                let tried: Vec<&str> = rights.iter().map(|(right, _)| *right).collect();
                Err(format!("recognized csr {:?} as {tried:?} but subject access review was not approved", key.name)
                    .into())
            }
        }
    }
}

impl Approver {
    async fn has_right(&self, asked: &CertificateSigningRequest, subresource: &str) -> Result<bool> {
        let spec = &asked.spec;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: spec.username.clone(),
                uid: spec.uid.clone(),
                groups: spec.groups.clone(),
                extra: spec.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("certificates.k8s.io".to_owned()),
                    resource: Some("certificatesigningrequests".to_owned()),
                    verb: Some("create".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    version: Some("*".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn approve(&self, asked: &CertificateSigningRequest, message: &str) -> Result<()> {
        let mut new = asked.clone();
        let conditions = new.status.get_or_insert_default().conditions.get_or_insert_default();
        conditions.push(CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("AutoApproved".to_owned()),
            message: Some(message.to_owned()),
            ..CertificateSigningRequestCondition::default()
        });
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        match api.replace_subresource("approval", &new.name_any(), &PostParams::default(), &new).await {
            Ok(written) => self.requests.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
