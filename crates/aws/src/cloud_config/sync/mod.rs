//! `cloud-config-sync-controller`: keeps the ConfigMap that the cloud controller manager reads, made by the transformer from
//! what the administrator wrote.
//!
//! Mirrors the controller of the cluster cloud controller manager operator: the source is `kube-cloud-config` in
//! `openshift-config-managed`, else the ConfigMap that the Infrastructure names; the target is `cloud-conf`. A source that cannot be read leaves the
//! target as it is and is told as an event.

mod cluster;
mod content;

use super::{Gate, transform};
use crate::nodes;
use cluster::{Cluster, ClusterConfig};
use content::{Content, FILE};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use parking_lot::Mutex;
use runtime::{
    client::Api,
    controller::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
};

/// The controller of this room, beside those of the cloud controller manager; off unless it is picked.
pub const CONTROLLERS: &[Controller<nodes::NodeOptions>] = &[Controller {
    name: "cloud-config-sync-controller",
    alias: "cloud-config-sync",
    default_on: false,
    run: |context| Box::pin(run(context, SyncOptions::default())),
}];

/// The same by itself.
pub const ALONE: &[Controller<SyncOptions>] = &[Controller {
    name: "cloud-config-sync-controller",
    alias: "cloud-config-sync",
    default_on: true,
    run: |context| {
        let options = context.options().clone();
        Box::pin(run(context, options))
    },
}];

/// What it is told when it runs by itself.
#[derive(Clone, Debug, Default)]
pub struct SyncOptions {
    /// The version whose feature gates count; without it a gate must be open for all that are listed.
    pub release: Option<String>,
}

const TARGET: (&str, &str) = (api::rights::CLOUD_CONFIG_NAMESPACE, "cloud-conf");
const MANAGED: (&str, &str) = (api::rights::MANAGED_CONFIG_NAMESPACE, "kube-cloud-config");
const NAMED_NAMESPACE: &str = api::rights::CONFIG_NAMESPACE;
const PLATFORM: &str = "AWS";
const GATE: &str = "AWSServiceLBNetworkSecurityGroup";

/// The ConfigMaps of the three namespaces that it has to do with, and of no others.
struct Maps {
    managed: Store<ConfigMap>,
    named: Store<ConfigMap>,
    targets: Store<ConfigMap>,
}

struct Sync {
    client: Client,
    maps: Maps,
    cluster: Cluster,
    events: Events,
    release: Option<String>,
    /// What was logged at the last look.
    reported: Mutex<Vec<String>>,
}

async fn run<O: Send + std::marker::Sync + 'static>(context: Context<O>, options: SyncOptions) -> Result<()> {
    let SyncOptions { release } = options;
    let maps = Maps {
        managed: context.store_in(MANAGED.0),
        named: context.store_in(NAMED_NAMESPACE),
        targets: context.store_in(TARGET.0),
    };
    let queue: Queue<Key> = context.queue("cloud-config-sync");
    let target = Key::new(TARGET.0, TARGET.1);
    let all = [&maps.managed, &maps.named, &maps.targets];
    let _maps = all.map(|maps| {
        let (queue, target) = (queue.clone(), target.clone());
        maps.on_change(move |change| {
            let key = change.key();
            if key == target || key.namespace != target.namespace {
                queue.add(target.clone());
            }
        })
    });
    let (client, cluster) = (context.client(), Cluster::new(&context));
    let _cluster = cluster.on_change({
        let (queue, target) = (queue.clone(), target.clone());
        move || queue.add(target.clone())
    });
    context.synced(&[&maps.managed, &maps.named, &maps.targets]).await;
    cluster.known().await;
    queue.add(target);
    let events = context.events("cloud-config-sync-controller");
    work(&queue, 1, &Sync { client, maps, cluster, events, release, reported: Mutex::default() }).await
}

impl Reconcile for Sync {
    type Key = Key;

    async fn reconcile(&self, target: &Key) -> Result<Next> {
        let config = self.cluster.config();
        let other = config.platform.as_deref().filter(|platform| *platform != PLATFORM);
        if let Some(platform) = other {
            self.report(vec![format!("the platform is {platform} and not {PLATFORM}; {} is left alone", TARGET.1)]);
            return Ok(Next::Done);
        }
        match self.wanted(&config) {
            Ok((content, warnings)) => {
                self.report(warnings);
                self.write(target, &content).await?;
            }
            Err(Refused { about, why }) => {
                self.report(vec![why.clone()]);
                if let Some(about) = about {
                    self.events.warning(&about, "CloudConfigInvalid", why).await;
                }
            }
        }
        Ok(Next::Done)
    }
}

/// Why the target stays as it is, and the object that has to be changed.
struct Refused {
    about: Option<Box<ObjectReference>>,
    why: String,
}

impl Sync {
    /// What the target has to hold, and what to say of it.
    fn wanted(&self, config: &ClusterConfig) -> Result<(Content, Vec<String>), Refused> {
        let ClusterConfig { infrastructure, platform: _, file, gates } = config;
        let managed = self.maps.managed.get(&Key::new(MANAGED.0, MANAGED.1));
        let source = managed.or_else(|| self.maps.named.get(&Key::new(NAMED_NAMESPACE, &file.name)));
        if source.is_none() && !file.name.is_empty() {
            let why = format!(
                "ConfigMap {} that the Infrastructure names is not in {NAMED_NAMESPACE}; {} is left as it is",
                file.name, TARGET.1
            );
            return Err(Refused { about: infrastructure.clone().map(Box::new), why });
        }
        let about = source.as_deref().map(|map| Box::new(reference(map)));
        let refused =
            |why: String| Refused { about: about.clone(), why: format!("{why}; {} is left as it is", TARGET.1) };
        // Nothing at all is an empty file.
        let content =
            source.as_deref().map_or_else(|| Ok(Content::default()), |map| Content::of_source(map, &file.key));
        let mut content = content.map_err(refused)?;
        let text = content.data.remove(FILE).unwrap_or_default();
        let gate = if gates.is_enabled(self.release.as_deref(), GATE) { Gate::On } else { Gate::Off };
        let (text, warnings) =
            transform(&text, gate).map_err(|error| refused(format!("{FILE} is not accepted: {error}")))?;
        content.data.insert(FILE.to_owned(), text);
        Ok((content, warnings))
    }

    /// Logs what it did not log at the last look.
    fn report(&self, lines: Vec<String>) {
        let mut reported = self.reported.lock();
        lines.iter().filter(|line| !reported.contains(line)).for_each(|line| tracing::warn!("cloud-config: {line}"));
        *reported = lines;
    }

    async fn write(&self, target: &Key, wanted: &Content) -> Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &target.namespace);
        let there = self.maps.targets.get(target);
        let has = there.as_deref().map(Content::of);
        if has.as_ref() == Some(wanted) {
            return Ok(());
        }
        let written = match (there, has) {
            (Some(map), Some(has)) if map.immutable != Some(true) => {
                api.patch(&target.name, &PatchParams::default(), &Patch::Merge(wanted.patch(&has))).await?
            }
            (there, _) => {
                // An immutable one has to go. Cut off in between, it is missing and made at the next start.
                if let Some(map) = there {
                    let preconditions = Preconditions { uid: map.metadata.uid.clone(), resource_version: None };
                    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                    api.delete(&target.name, &params).await?;
                    self.maps.targets.forget(&map);
                }
                api.create(&PostParams::default(), &wanted.named(&target.name)).await?
            }
        };
        self.maps.targets.remember(written);
        tracing::info!(%target, "cloud-config written");
        Ok(())
    }
}
