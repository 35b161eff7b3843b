//! `service-cidr-controller`: a ServiceCIDR stays while Services have addresses that are in no other.

pub mod plan;
#[cfg(test)]
mod tests;

use crate::framework::{Context, Controller, Key, Next, Queue, Reconcile, Result, Store, work};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::api::{Patch, PatchParams};
use net::legacy::parse_stored_ip;
use plan::{Decision, FINALIZER, decide, ranges};
use runtime::client::Api;
use serde_json::json;
use std::{net::IpAddr, time::Duration};

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "service-cidr-controller",
    alias: "",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// API servers that still hand out addresses of a range that is going have noticed by then, as upstream has it.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

struct Protection {
    cidrs: Store<ServiceCIDR>,
    addresses: Store<IPAddress>,
    api: Api<ServiceCIDR>,
}

async fn run(context: Context) -> Result<()> {
    let (cidrs, addresses) = (context.store::<ServiceCIDR>(), context.store::<IPAddress>());
    let queue: Queue<Key> = context.queue("service_cidr");
    context.synced(&[&cidrs, &addresses]).await;
    // Another range may take over the addresses of one that waits, or lose them. There are a handful.
    let _cidrs = cidrs.on_change({
        let (queue, cidrs) = (queue.clone(), cidrs.clone());
        move |change| {
            queue.add(change.key());
            let waiting = cidrs.all().into_iter().filter(|cidr| cidr.metadata.deletion_timestamp.is_some());
            waiting.for_each(|cidr| queue.add(Key::of(&*cidr)));
        }
    });
    let _addresses = addresses.on_change({
        let (queue, cidrs) = (queue.clone(), cidrs.clone());
        move |change| {
            if change.new.is_some() {
                return;
            }
            let Some(ip) = address(change.object()) else { return };
            let waiting = cidrs.all().into_iter().filter(|cidr| cidr.metadata.deletion_timestamp.is_some());
            let around = waiting.filter(|cidr| ranges(cidr).iter().any(|range| range.contains(ip)));
            around.for_each(|cidr| queue.add(Key::of(&*cidr)));
        }
    });
    work(&queue, 5, &Protection { cidrs, addresses, api: Api::all(context.client()) }).await
}

fn address(object: &IPAddress) -> Option<IpAddr> {
    parse_stored_ip(object.metadata.name.as_deref()?).ok()
}

impl Reconcile for Protection {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(cidr) = self.cidrs.get(key) else { return Ok(Next::Done) };
        let others = self.cidrs.all();
        let addresses = self.addresses.all();
        let decision =
            decide(&cidr, others.iter().map(|other| &**other), addresses.iter().filter_map(|object| address(object)));
        match decision {
            Decision::Keep => {}
            Decision::Protect => {
                let mut finalizers = cidr.metadata.finalizers.clone().unwrap_or_default();
                finalizers.push(FINALIZER.to_owned());
                self.finalizers(&cidr, finalizers).await?;
                return Ok(Next::After(Duration::ZERO));
            }
            Decision::Ready => self.condition(&cidr, "True", "", "the range serves addresses").await?,
            Decision::Waiting(count) => {
                let message = format!(
                    "{count} addresses of Services are in no other ServiceCIDR; delete those Services, or make a \
                     ServiceCIDR that holds the addresses"
                );
                self.condition(&cidr, "False", "Terminating", &message).await?;
            }
            Decision::Release => {
                let since =
                    cidr.metadata.deletion_timestamp.as_ref().map(|time| Timestamp::now().duration_since(time.0));
                if let Some(left) = since.map(|since| GRACE - since).filter(|left| left.is_positive()) {
                    return Ok(Next::After(left.unsigned_abs()));
                }
                let kept = cidr.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER);
                self.finalizers(&cidr, kept.cloned().collect()).await?;
            }
        }
        Ok(Next::Done)
    }
}

impl Protection {
    async fn finalizers(&self, cidr: &ServiceCIDR, finalizers: Vec<String>) -> Result<()> {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({
            "metadata": {"resourceVersion": cidr.metadata.resource_version, "finalizers": finalizers},
        });
        match self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) if written.metadata.deletion_timestamp.is_some() && finalizers.is_empty() => {
                self.cidrs.forget(cidr);
            }
            Ok(written) => self.cidrs.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn condition(&self, cidr: &ServiceCIDR, status: &str, reason: &str, message: &str) -> Result<()> {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({
            "metadata": {"resourceVersion": cidr.metadata.resource_version},
            "status": {"conditions": [{
                "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }]},
        });
        let written = self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.cidrs.remember(written);
        Ok(())
    }
}
