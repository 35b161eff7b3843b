//! Events on Services whose external IPs are not served.
//!
//! Every node's proxy finds the same, so the event has a name that follows from what it says: the first one writes it, the others
//! find it there.

use crate::track::NewRefusal;
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, api::PostParams};
use runtime::{
    client::{Api, error_line},
    stable_hash,
    task::Tasks,
};
use std::convert::Infallible;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Starts the task that writes them. An event that cannot be written is logged and forgotten.
pub(crate) fn start(tasks: &Tasks, client: Client, node_name: &str) -> UnboundedSender<NewRefusal> {
    let (sender, mut refusals) = unbounded_channel::<NewRefusal>();
    let node_name = node_name.to_owned();
    tasks.once("events", |stop| async move {
        while let Some(Some(refusal)) = stop.run_until_cancelled(refusals.recv()).await {
            let api: Api<Event> = Api::namespaced(client.clone(), &refusal.service.namespace);
            match api.create(&PostParams::default(), &event(&refusal, &node_name, Timestamp::now())).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    tracing::warn!(service = %refusal.service, error = error_line(&error), "event was not written")
                }
                Ok(_) => {}
            }
        }
        Ok::<_, Infallible>(())
    });
    sender
}

fn event(refusal: &NewRefusal, node_name: &str, now: Timestamp) -> Event {
    let NewRefusal { service, uid, ip, why } = refusal;
    let number = stable_hash(format!("{uid}/{ip}/{why}").as_bytes());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{number:016x}", service.name)),
            namespace: Some(service.namespace.to_string()),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(service.namespace.to_string()),
            name: Some(service.name.to_string()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        }),
        event_time: Some(MicroTime(now)),
        type_: Some("Warning".to_owned()),
        reason: Some(why.reason().to_owned()),
        action: Some("ServeExternalIP".to_owned()),
        note: Some(format!("spec.externalIPs: {ip} is not served: {why}")),
        reporting_controller: Some("twinstack.dev/proxy".to_owned()),
        reporting_instance: Some(node_name.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::{Name, Refusal};

    #[test]
    fn the_same_refusal_is_the_same_event_on_every_node() {
        let refusal = |ip: &str, why| NewRefusal {
            service: Name::new("a", "web"),
            uid: "u".to_owned(),
            ip: ip.parse().unwrap(),
            why,
        };
        let range = Refusal::ServiceRange("fd00::/112".parse().unwrap());
        let one = event(&refusal("fd00::7", range), "n1", Timestamp::UNIX_EPOCH);
        assert_eq!(
            one.note.as_deref(),
            Some("spec.externalIPs: fd00::7 is not served: it lies in the Service range fd00::/112")
        );
        assert_eq!(one.reason.as_deref(), Some("ExternalIPInServiceRange"));
        let name = |event: Event| event.metadata.name.unwrap();
        let one = name(one);
        assert_eq!(name(event(&refusal("fd00::7", range), "n2", Timestamp::now())), one);
        assert_ne!(name(event(&refusal("fd00::8", range), "n1", Timestamp::now())), one);
        assert_ne!(name(event(&refusal("fd00::7", Refusal::NodeAddress), "n1", Timestamp::now())), one);
    }
}
