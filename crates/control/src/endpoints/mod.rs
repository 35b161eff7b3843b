//! `endpoints-controller`: the old Endpoints object of each Service with a selector, for programs that still read it.

pub mod plan;
#[cfg(test)]
mod tests;

use crate::{
    endpointslice::{
        families::selector,
        index::Selected,
        trigger::{self, Triggers},
        write::is_terminating,
    },
    framework::{Context, Controller, Key, Next, Queue, Reconcile, Result, Store, work},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, PostParams},
};
use plan::{Plan, plan};
use runtime::client::Api;

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "endpoints-controller",
    alias: "endpoint",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

struct Legacy {
    client: Client,
    selected: Selected,
    endpoints: Store<Endpoints>,
    triggers: Triggers,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().endpointslice.clone();
    let (services, pods) = (context.store::<Service>(), context.store::<Pod>());
    let endpoints = context.store::<Endpoints>();
    let queue: Queue<Key> = context.queue("endpoint");
    let selected = Selected::new(services.clone(), pods.clone());
    context.synced(&[&services, &pods, &endpoints]).await;
    let _services = services.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.on_change({
        let (queue, selected, batch) = (queue.clone(), selected.clone(), options.batch_period);
        move |change| selected.touched_by_pod(change).into_iter().for_each(|key| queue.add_after(key, batch))
    });
    // Also what is left of Services that were deleted while nobody looked.
    let _endpoints = endpoints.on_change({
        let queue = queue.clone();
        move |change| {
            if !change.ours && change.both().any(|object| is_ours(object)) {
                queue.add(change.key());
            }
        }
    });
    let controller = Legacy { client: context.client(), selected, endpoints, triggers: Triggers::default() };
    work(&queue, options.workers, &controller).await
}

fn is_ours(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(plan::MANAGED_BY).is_some_and(|manager| manager == plan::CONTROLLER)
}

impl Reconcile for Legacy {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let stored = self.endpoints.get(key);
        let Some(service) = self.selected.service(key) else {
            self.triggers.forget(key);
            // Made by hand without a Service: for somebody who knows why.
            if let Some(stored) = stored.filter(|stored| is_ours(stored)) {
                match api.delete(&key.name, &DeleteParams::default()).await {
                    Ok(_) => self.endpoints.forget(&stored),
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(Next::Done);
        };
        if selector(&service).is_none() {
            return Ok(Next::Done);
        }
        let pods = self.selected.pods_of(&service);
        let trigger = self.triggers.since_last(key, &service, &pods);
        match plan(&service, &pods, stored.as_deref()) {
            Plan::Keep => {}
            // One that is on its way out takes its Endpoints along.
            Plan::Create(_) if service.metadata.deletion_timestamp.is_some() => {}
            Plan::Create(mut new) => {
                stamp(&mut new, trigger);
                match api.create(&PostParams::default(), &new).await {
                    Ok(created) => self.endpoints.remember(created),
                    Err(error) if is_terminating(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Plan::Update(mut new) => {
                stamp(&mut new, trigger);
                self.endpoints.remember(api.replace(&key.name, &PostParams::default(), &new).await?);
            }
        }
        Ok(Next::Done)
    }
}

fn stamp(endpoints: &mut Endpoints, time: Option<Timestamp>) {
    match time {
        Some(time) => drop(endpoints.annotations_mut().insert(trigger::ANNOTATION.to_owned(), time.to_string())),
        None => drop(endpoints.annotations_mut().remove(trigger::ANNOTATION)),
    }
}
