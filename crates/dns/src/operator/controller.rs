//! The controller: one key, everything read from stores, written in an order in which nothing is used before it exists.

use super::{
    CONFIG_NAMESPACE, DNS, MANAGER, NAME, NAMESPACE, Operand, OperatorOptions,
    check::{self, Base, Mistake, Reason, Template},
    cluster::Cluster,
    conditions::{Numbers, Observed, PATIENCE, Running, Templates, conditions, is_settling},
    corefile,
    objects::{self, Bundle},
    servers,
};
use api::config::{
    CLUSTER, DNS_OPERATOR_DEFINITIONS, OPERATOR, OperatorCondition, OperatorDnsSpec, OperatorDnsStatus,
    definitions_named,
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Pod, Service},
};
use kube::Resource;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};
use runtime::{
    controller::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, Subscription, reference, work},
    operator::{
        Children, Discovery, FeatureGate, Infrastructure, Network, OperatorDns, definitions,
        discovery::{ApiKind, NETWORK_POLICY, PROMETHEUS_RULE, SERVICE_MONITOR},
    },
};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// Everything is looked at again after this long, whatever happens.
const RESYNC: Duration = Duration::from_secs(300);
/// How often servers in Pods are asked when all of them run the newest.
const CALM: Duration = Duration::from_secs(30);
/// What is made where the API has it.
const OPTIONAL: &[ApiKind] = &[NETWORK_POLICY, SERVICE_MONITOR, PROMETHEUS_RULE];

pub(super) async fn run(context: Context<OperatorOptions>) -> Result<()> {
    let client = context.client();
    definitions::install(&client, &definitions_named(&DNS_OPERATOR_DEFINITIONS)).await?;
    let operator = Operator {
        dnses: context.store(),
        networks: context.store(),
        infrastructures: context.store(),
        gates: context.store(),
        maps: context.store_in(NAMESPACE),
        daemonsets: context.store_in(NAMESPACE),
        services: context.store_in(NAMESPACE),
        pods: context.store_in(NAMESPACE),
        bundles: context.store_in(CONFIG_NAMESPACE),
        options: context.options().clone(),
        client: client.clone(),
        children: Children::new(client.clone(), MANAGER),
        events: context.events(MANAGER),
        discovery: Discovery::new(client, OPTIONAL).await?,
        wanted: Mutex::default(),
        reported: Mutex::default(),
        states: context.lasting(|_| States::new(&context)),
    };
    let queue: Queue<Key> = context.queue("dns-operator");
    let _subscriptions = [
        wakes(&operator.dnses, &queue),
        wakes(&operator.networks, &queue),
        wakes(&operator.infrastructures, &queue),
        wakes(&operator.gates, &queue),
        wakes(&operator.maps, &queue),
        wakes(&operator.daemonsets, &queue),
        wakes(&operator.services, &queue),
        wakes(&operator.bundles, &queue),
    ];
    context.synced(&[&operator.dnses, &operator.networks, &operator.infrastructures, &operator.gates]).await;
    context.synced(&[&operator.maps, &operator.daemonsets, &operator.services, &operator.bundles]).await;
    queue.add(Key::cluster(DNS));
    tokio::select! {
        ended = work(&queue, 1, &operator) => ended,
        () = operator.listen(&queue) => Ok(()),
        () = operator.poll() => Ok(()),
        () = operator.discovery.follow(|| queue.add(Key::cluster(DNS))) => Ok(()),
    }
}

/// Every change of a kind leads to the one key there is.
fn wakes<K: Resource + Send + Sync + 'static>(store: &Store<K>, queue: &Queue<Key>) -> Subscription {
    let queue = queue.clone();
    store.on_change(move |_| queue.add(Key::cluster(DNS)))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    name: String,
    condition: String,
}

/// Conditions as numbers.
struct States(Family<StateLabels, Gauge>);

impl States {
    fn new(context: &Context<OperatorOptions>) -> Self {
        let help = "Conditions of the DNS resource: 1 where it holds";
        Self(context.admin().metrics.register("dns_operator_condition", help, Family::default()))
    }

    fn show(&self, conditions: &[OperatorCondition]) {
        self.0.clear();
        for one in conditions {
            let labels = StateLabels { name: DNS.to_owned(), condition: one.kind.clone() };
            self.0.get_or_create(&labels).set(i64::from(one.status == "True"));
        }
    }
}

struct Operator {
    dnses: Store<OperatorDns>,
    networks: Store<Network>,
    infrastructures: Store<Infrastructure>,
    gates: Store<FeatureGate>,
    maps: Store<ConfigMap>,
    daemonsets: Store<DaemonSet>,
    services: Store<Service>,
    pods: Store<Pod>,
    /// In the namespace of the configuration.
    bundles: Store<ConfigMap>,
    options: OperatorOptions,
    client: kube::Client,
    children: Children,
    events: Events,
    discovery: Discovery,
    /// Hashes of the Corefile that servers should run.
    wanted: Mutex<Vec<String>>,
    /// The generation about which it was said that templates are not looked at.
    reported: Mutex<Option<i64>>,
    states: Arc<States>,
}

/// What the resource comes to.
struct Outcome {
    /// To be written; `None` keeps what is there.
    text: Option<String>,
    base: Vec<Mistake>,
    templates: Vec<Mistake>,
    exclusions: Vec<(String, String)>,
    /// Whether an older Corefile stays because this one is wrong.
    kept: bool,
}

impl Reconcile for Operator {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(dns) = self.dnses.get(key) else {
            let new = || Ok(json!({"apiVersion": OPERATOR, "kind": "DNS", "metadata": {"name": DNS}, "spec": {}}));
            self.children.create_once::<OperatorDns>(None, DNS, new).await?;
            return Ok(Next::After(RESYNC));
        };
        let cluster = self.cluster();
        let bundles = self.bundles(&dns.spec);
        let outcome = self.decide(&dns.spec, &cluster, &bundles);
        // What stays is served with the authorities that it names, whatever has become of them since.
        let bundles = match &outcome.text {
            Some(_) => bundles,
            None => self.kept_bundles(),
        };
        let managed = dns.spec.management_state != "Unmanaged";
        if managed {
            self.write(&dns, &cluster, &bundles, outcome.text.as_deref()).await?;
        }
        self.tell_ignored(&dns, &cluster).await;
        let settling = self.status(&dns, &cluster, &outcome, managed).await?;
        Ok(Next::After(if settling { Duration::from_secs(PATIENCE.unsigned_abs()) } else { RESYNC }))
    }
}

impl Operator {
    fn cluster(&self) -> Cluster {
        let key = Key::cluster(CLUSTER);
        Cluster::new(
            self.networks.get(&key).as_deref(),
            self.infrastructures.get(&key).as_deref(),
            self.gates.get(&key).as_deref(),
            self.options.release.as_deref(),
        )
    }

    /// The bundles that the resource names, as far as they exist.
    fn bundles(&self, spec: &OperatorDnsSpec) -> Vec<Bundle> {
        let transports = spec.servers.iter().map(|server| &server.forward_plugin.transport_config);
        let transports = transports.chain(spec.upstream_resolvers.iter().map(|resolvers| &resolvers.transport_config));
        let mut bundles: Vec<Bundle> = Vec::new();
        for tls in transports.filter(|config| config.transport == "TLS").filter_map(|config| config.tls.as_ref()) {
            let Some(name) = tls.ca_bundle.as_ref().map(|bundle| bundle.name.as_str()) else { continue };
            let map = self.bundles.get(&Key::new(CONFIG_NAMESPACE, name));
            let certificates = map.as_ref().and_then(|map| map.data.as_ref()?.get("ca-bundle.crt").cloned());
            let Some((map, certificates)) = map.as_ref().zip(certificates) else {
                tracing::warn!(
                    configmap = name,
                    "the bundle of authorities is not there; those of the system are used"
                );
                continue;
            };
            let version = map.metadata.resource_version.as_deref().unwrap_or_default();
            let folder = format!("/etc/pki/{}-ca-{name}-{version}", tls.server_name);
            if bundles.iter().all(|bundle| bundle.name != name) {
                bundles.push(Bundle { name: name.to_owned(), certificates, folder });
            }
        }
        bundles
    }

    /// The Corefile for this resource. What is not valid leaves the last valid one; where there is none, as much as is valid
    /// is used, so that the cluster has its names.
    fn decide(&self, spec: &OperatorDnsSpec, cluster: &Cluster, bundles: &[Bundle]) -> Outcome {
        let domain = &self.options.cluster_domain;
        let base = check::base(spec, domain);
        let templates = match cluster.templates {
            true => check::templates(&spec.templates, domain, cluster.families),
            false => Ok(Vec::new()),
        };
        let files = objects::files(bundles);
        let render = |base: &Base, templates: &[Template]| {
            let parts = corefile::Parts { base, templates, domain, families: cluster.families, bundles: &files };
            (parts.text(), parts.exclusions())
        };
        let mut outcome =
            Outcome { text: None, base: Vec::new(), templates: Vec::new(), exclusions: Vec::new(), kept: false };
        if let (Ok(base), Ok(templates)) = (&base, &templates) {
            let (text, exclusions) = render(base, templates);
            match corefile::hashes(&text) {
                Ok(_) => return Outcome { text: Some(text), exclusions, ..outcome },
                Err(problem) => outcome.base.push(Mistake {
                    reason: Reason::InvalidConfiguration,
                    path: "spec".to_owned(),
                    value: String::new(),
                    problem: format!("gives a Corefile that cannot be used: {problem}"),
                    template: None,
                }),
            }
        }
        outcome.kept = self.live_corefile().is_some();
        if !outcome.kept {
            let plain = || check::base(&OperatorDnsSpec::default(), domain).ok();
            outcome.text = base.as_ref().ok().cloned().or_else(plain).map(|base| render(&base, &[]).0);
        }
        outcome.base.extend(base.err().into_iter().flatten());
        outcome.templates.extend(templates.err().into_iter().flatten());
        outcome
    }

    /// The authorities of the Corefile that stays, as the servers have them.
    fn kept_bundles(&self) -> Vec<Bundle> {
        let copies = self.maps.all();
        objects::bundles_of(&self.live_corefile().unwrap_or_default(), copies.iter().map(AsRef::as_ref))
    }

    fn live_corefile(&self) -> Option<String> {
        let map = self.maps.get(&Key::new(NAMESPACE, NAME))?;
        map.data.as_ref()?.get("Corefile").cloned()
    }

    async fn write(&self, dns: &OperatorDns, cluster: &Cluster, bundles: &[Bundle], text: Option<&str>) -> Result<()> {
        let service = self.services.get(&Key::new(NAMESPACE, NAME));
        let placement = dns.spec.node_placement.clone().unwrap_or_default();
        let parts = objects::Parts {
            corefile: text,
            operand: &self.options.operand,
            placement: &placement,
            // An address stays once it is given.
            address: service.as_deref().and_then(cluster_ip).or(cluster.address),
            bundles,
            served: &self.discovery.served(),
        };
        for object in objects::wanted(&parts) {
            match self.bring(&object).await {
                Err(error) if object["kind"] == "Service" && service.is_none() && is_taken(&*error) => {
                    let address = parts.address.map(|address| address.to_string()).unwrap_or_default();
                    let note = format!("{address} belongs to another Service; the API chooses an address");
                    self.events.warning(&reference(dns), "AddressTaken", note).await;
                    let parts = objects::Parts { address: None, ..parts };
                    let services =
                        objects::wanted(&parts).into_iter().filter(|other| other["metadata"] == object["metadata"]);
                    for service in services.filter(|other| other["kind"] == "Service") {
                        self.bring(&service).await?;
                    }
                }
                other => other?,
            }
        }
        if matches!(self.options.operand, Operand::Process(_))
            && let Some(daemonset) = self.daemonsets.get(&Key::new(NAMESPACE, NAME))
            && self.children.delete::<DaemonSet>(Some(NAMESPACE), NAME).await?
        {
            self.daemonsets.forget(&daemonset);
        }
        Ok(())
    }

    /// Kinds that are watched are compared with what the API has, so that what somebody changed by hand is put right.
    async fn bring(&self, object: &Value) -> Result<()> {
        match object["kind"].as_str() {
            Some("ConfigMap") => self.children.keep(&self.maps, object.clone()).await,
            Some("DaemonSet") => self.children.keep(&self.daemonsets, object.clone()).await,
            Some("Service") => self.children.keep(&self.services, object.clone()).await,
            _ => self.children.ensure(object.clone()).await,
        }
        .map(drop)
    }

    /// Says once for each change of the resource that its templates mean nothing while the gate is closed.
    async fn tell_ignored(&self, dns: &OperatorDns, cluster: &Cluster) {
        if cluster.templates || dns.spec.templates.is_empty() {
            return;
        }
        let generation = dns.metadata.generation;
        if std::mem::replace(&mut *self.reported.lock(), generation) != generation {
            let note = format!("spec.templates is not looked at: the feature gate {} is closed", super::cluster::GATE);
            self.events.warning(&reference(dns), "TemplatesIgnored", note).await;
        }
    }

    /// Writes the status; true when Pods may still be becoming available.
    async fn status(
        &self,
        dns: &Arc<OperatorDns>,
        cluster: &Cluster,
        outcome: &Outcome,
        managed: bool,
    ) -> Result<bool> {
        // What was just written is known before the watch brings it.
        let text = outcome.text.clone().filter(|_| managed).or_else(|| self.live_corefile()).unwrap_or_default();
        let wanted: Vec<String> = match &self.options.operand {
            Operand::Process(local) => local.hash(&text).into_iter().collect(),
            Operand::Workload { .. } => corefile::hashes(&text).map(Vec::from).unwrap_or_default(),
        };
        self.wanted.lock().clone_from(&wanted);
        let service = self.services.get(&Key::new(NAMESPACE, NAME));
        let address = service.as_deref().and_then(cluster_ip);
        let reports = self.options.reports.all();
        let domain = self.options.cluster_domain.to_string();
        let domain = domain.trim_end_matches('.');
        let templates = match cluster.templates {
            false => None,
            true => Some(Templates {
                count: dns.spec.templates.len(),
                defined: !dns.spec.templates.is_empty() || self.has_templates().await,
                mistakes: &outcome.templates,
                exclusions: &outcome.exclusions,
                domain,
            }),
        };
        let operand = match &self.options.operand {
            Operand::Process(_) => Running::Process,
            Operand::Workload { .. } => {
                let set = self.daemonsets.get(&Key::new(NAMESPACE, NAME));
                Running::Workload(set.map(|set| numbers(&set)))
            }
        };
        let seen = Observed {
            managed,
            service: address.is_some(),
            operand,
            reports: &reports,
            wanted: &wanted,
            mistakes: &outcome.base,
            kept: outcome.kept,
            templates,
        };
        let before = dns.status.clone().unwrap_or_default();
        let now = jiff::Timestamp::now();
        // Whole seconds, as the API keeps them.
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let after = OperatorDnsStatus {
            cluster_ip: address.map(|address| address.to_string()).unwrap_or_default(),
            cluster_domain: domain.to_owned(),
            conditions: conditions(&seen, &before.conditions, &now),
            rest: before.rest.clone(),
        };
        self.states.show(&after.conditions);
        let settling = is_settling(&after.conditions, &now);
        if after == before {
            return Ok(settling);
        }
        self.children.status(&self.dnses, dns, &after).await?;
        self.report(dns, &before.conditions, &after.conditions).await;
        Ok(settling)
    }

    /// Whether the definition of the resource has templates; one that somebody else made may not, and drops them.
    async fn has_templates(&self) -> bool {
        match definitions::properties(&self.client, "dnses.operator.openshift.io", "v1", "spec").await {
            Ok(properties) => properties.iter().any(|name| name == "templates"),
            // Nothing is claimed that was not seen.
            Err(error) => {
                tracing::debug!(%error, "the definition of the resource cannot be read");
                true
            }
        }
    }

    /// Tells what has changed to those who look at the resource.
    async fn report(&self, dns: &OperatorDns, before: &[OperatorCondition], after: &[OperatorCondition]) {
        for one in after {
            let known = before.iter().find(|known| known.kind == one.kind);
            if known.is_some_and(|known| known.status == one.status && known.message == one.message) {
                continue;
            }
            let object = reference(dns);
            match (one.kind.as_str(), one.status.as_str()) {
                ("Degraded" | "AAAAFilterDualStackWarning", "True") | ("TemplateConfigurationValid", "False") => {
                    self.events.warning(&object, &one.reason, &one.message).await;
                }
                ("TemplateConfigurationApplied", "True") if known.is_some_and(|known| known.status != "True") => {
                    self.events.normal(&object, "TemplatesApplied", &one.message).await;
                }
                _ => {}
            }
        }
    }

    /// Looks again whenever a server says something new.
    async fn listen(&self, queue: &Queue<Key>) {
        loop {
            self.options.reports.changed().await;
            queue.add(Key::cluster(DNS));
        }
    }

    /// Asks servers in Pods what they run; the one in this process tells by itself.
    async fn poll(&self) {
        if let Operand::Process(_) = self.options.operand {
            return std::future::pending().await;
        }
        let mut memory = servers::Memory::default();
        loop {
            let heard = servers::ask(&self.pods).await;
            let wanted = self.wanted.lock().clone();
            let reports = memory.judge(heard, &wanted);
            let all = reports.values().all(|report| report.hash.as_ref().is_some_and(|hash| wanted.contains(hash)));
            self.options.reports.set(reports);
            tokio::time::sleep(if all { self.options.poll.max(CALM) } else { self.options.poll }).await;
        }
    }
}

fn cluster_ip(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

/// Whether the API refuses an address because somebody has it.
fn is_taken(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.code == 422 && status.message.contains("already allocated"),
        _ => false,
    }
}

fn numbers(set: &DaemonSet) -> Numbers {
    let status = set.status.clone().unwrap_or_default();
    Numbers {
        desired: status.desired_number_scheduled,
        available: status.number_available.unwrap_or(0),
        updated: status.updated_number_scheduled.unwrap_or(0),
        current: status.observed_generation >= set.metadata.generation,
    }
}
