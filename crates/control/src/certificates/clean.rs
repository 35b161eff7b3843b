//! `certificatesigningrequest-cleaner-controller`: requests go when they were answered, or nobody answered for a day.
//! `podcertificaterequest-cleaner-controller`: those of pods go after a while, whatever came of them.

use super::plan;
use crate::framework::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, PodCertificateRequest};
use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
};
use runtime::client::Api;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(3600);

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let requests = context.store::<CertificateSigningRequest>();
    context.synced(&[&requests]).await;
    let api: Api<CertificateSigningRequest> = Api::all(context.client());
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        let now = Timestamp::now();
        for request in requests.all().iter().filter(|request| plan::is_stale(request, ends(request), now)) {
            let preconditions = Preconditions { uid: request.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&request.name_any(), &params).await {
                Ok(_) => tracing::info!(request = request.name_any(), "request for a certificate cleared away"),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(request = request.name_any(), error, "not deleted; tried again");
                }
            }
        }
    }
}

/// How long a kubelet has to fetch the certificate of a pod, and how often that is looked at.
const POD_STAY: SignedDuration = SignedDuration::from_mins(30);
const POD_PERIOD: Duration = Duration::from_secs(60);

/// Runs until it is dropped.
pub(super) async fn run_pods(context: Context) -> Result<()> {
    let requests = context.store::<PodCertificateRequest>();
    context.synced(&[&requests]).await;
    let mut ticks = tokio::time::interval(POD_PERIOD);
    loop {
        ticks.tick().await;
        let now = Timestamp::now();
        let old = |request: &PodCertificateRequest| {
            let made = request.metadata.creation_timestamp.as_ref();
            made.is_some_and(|made| now.duration_since(made.0) > POD_STAY)
        };
        for request in requests.all().iter().filter(|request| old(request)) {
            let api: Api<PodCertificateRequest> =
                Api::namespaced(context.client(), &request.namespace().unwrap_or_default());
            let preconditions = Preconditions { uid: request.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&request.name_any(), &params).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(request = request.name_any(), error, "not deleted; tried again");
                }
            }
        }
    }
}

/// When its certificate runs out.
fn ends(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = &request.status.as_ref()?.certificate.as_ref()?.0;
    let ends = runtime::pki::Bundle::from_pem(&String::from_utf8_lossy(pem)).ok()?.ends()?;
    Timestamp::try_from(ends).ok()
}
