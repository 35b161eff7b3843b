//! A sign of life for `doctor`: a Lease that is renewed only while every view of this process is current.
//!
//! Named after the component and its host, so that a process that is started again takes over the sign of the one before.
//! Where the process may not write Leases it goes without: its `/readyz` and metric tell the same.

use super::view;
use crate::client::{Api, error_line};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, api::PostParams};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// By this label `doctor` finds them; its value is the component.
pub const LABEL: &str = "twinstack.dev/view-of";
/// Where they are, unless a component has a namespace of its own.
pub const NAMESPACE: &str = "kube-system";
/// How often it is renewed, and how long it counts.
const EVERY: Duration = Duration::from_secs(20);
const COUNTS_SECONDS: i32 = 60;
/// How often it is tried by those who may not.
const RARELY: Duration = Duration::from_secs(600);
/// The first one comes soon after the first lists.
const SOON: Duration = Duration::from_secs(1);

/// Renews the Lease of `component` until `stop`, then gives it up: who stopped in order has no view to be old.
pub async fn report(client: Client, component: &str, namespace: &str, stop: CancellationToken) {
    let host = host();
    let name = format!("twinstack-{component}-{host}");
    let api: Api<Lease> = Api::namespaced(client, namespace);
    let mut pause = SOON;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => break,
        }
        if !view::any() {
            continue;
        }
        if let Some(old) = view::oldest() {
            tracing::debug!(%old, "the sign of life is not renewed");
            continue;
        }
        pause = EVERY;
        match renew(&api, component, &name, &host).await {
            Ok(()) => {}
            // Not every component may: its rights are those of its work.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                pause = RARELY;
                tracing::debug!("no rights to write Leases: doctor cannot tell how old this process's view is");
            }
            Err(error) => tracing::debug!(error = error_line(&error), lease = name, "the sign of life was not renewed"),
        }
    }
    // An API that is away would hold up the end.
    let given_up = tokio::time::timeout(Duration::from_secs(2), renew(&api, component, &name, "")).await;
    if !matches!(given_up, Ok(Ok(()))) {
        tracing::debug!(lease = name, "the sign of life was not given up; doctor will ask about it");
    }
}

async fn renew(api: &Api<Lease>, component: &str, name: &str, holder: &str) -> Result<(), kube::Error> {
    let spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(COUNTS_SECONDS),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    match api.get_opt(name).await? {
        Some(mut lease) => {
            lease.spec = spec;
            api.replace(name, &PostParams::default(), &lease).await?;
        }
        None if holder.is_empty() => {}
        None => {
            let labels = [(LABEL.to_owned(), component.to_owned())].into();
            let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
            api.create(&PostParams::default(), &Lease { metadata, spec }).await?;
        }
    }
    Ok(())
}

/// The host's name as a part of an object's.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().to_lowercase();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let host: String = host.trim().chars().map(plain).collect();
    let host = host.trim_matches('-');
    if host.is_empty() { "host".to_owned() } else { host.to_owned() }
}
