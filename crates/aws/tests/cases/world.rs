//! A provider on an emulated account, restarted and driven on as the controller would.

use super::emulated::{self, Emulated};
pub(crate) use aws::memory::testing::{families, merged, ports};
use aws::{
    account::{Peer, Rule, Tags},
    apply::{Alive, Aws, Swept, owner},
    cloud_config::GroupMode,
    memory::{
        Example, HeldBalancer, State,
        testing::{AT_ONCE, service, settings},
    },
    model::{Settings, request::Note},
};
use k8s_openapi::api::core::v1::{Node, Service};
use parking_lot::Mutex;
use runtime::cloud::{CloudError, LoadBalancers};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
    time::{Duration, Instant},
};

/// IPv4, dual-stack with IPv4 first, dual-stack with IPv6 first.
pub(crate) fn shapes() -> [Value; 3] {
    [json!({}), families("RequireDualStack", &["IPv4", "IPv6"]), families("RequireDualStack", &["IPv6", "IPv4"])]
}

/// Who may connect, as a change of a Service.
pub(crate) fn ranges(list: &[&str]) -> Value {
    json!({"spec": {"loadBalancerSourceRanges": list}})
}

/// A Service named `web` with these changes.
pub(crate) fn web(changes: &[Value]) -> Service {
    service("web", &merged(changes))
}

/// A Service for a Classic load balancer, as a change of it.
pub(crate) fn classic() -> Value {
    json!({"metadata": {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": null}}})
}

/// Settings with security groups left alone.
pub(crate) fn unmanaged() -> Settings {
    Settings { nlb_groups: GroupMode::Unmanaged, ..settings() }
}

/// The only network load balancer.
pub(crate) fn balancer(state: &State) -> &HeldBalancer {
    let mut all = state.load_balancers.values();
    let one = all.next().expect("there is a load balancer");
    assert!(all.next().is_none(), "there is one load balancer");
    one
}

/// Rules in words, in order.
pub(crate) fn shown(rules: &BTreeSet<Rule>) -> Vec<String> {
    let mut shown: Vec<String> = rules.iter().map(|rule| format!("{} {}", rule.protocol, rule.peer)).collect();
    shown.sort();
    shown
}

/// What is told of a provider's Services from now on.
pub(crate) fn notes(aws: &Aws) -> Arc<Mutex<Vec<Note>>> {
    let notes: Arc<Mutex<Vec<Note>>> = Arc::default();
    let kept = Arc::clone(&notes);
    aws.report_notes_to(Box::new(move |_, note| kept.lock().push(note.clone())));
    notes
}

/// Something that happens to a Service.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// For messages.
    pub(crate) name: String,
    /// The Service from now on; `None` when it is deleted.
    pub(crate) service: Option<Service>,
    /// How many nodes there are.
    pub(crate) nodes: u8,
}

/// The Service is like this from now on, with three nodes.
pub(crate) fn step(service: &Service) -> Step {
    Step { name: "step".into(), service: Some(service.clone()), nodes: 3 }
}

/// The Service is deleted.
pub(crate) fn gone() -> Step {
    Step { name: "deleted".into(), service: None, nodes: 0 }
}

pub(crate) struct World {
    pub(crate) cloud: Arc<Emulated>,
    pub(crate) aws: Aws,
    settings: Settings,
    /// Services that are there, with the number of nodes.
    pub(crate) alive: BTreeMap<String, (Service, u8)>,
}

pub(crate) fn nodes(count: u8) -> Vec<Arc<Node>> {
    Example { nodes: count }.nodes()
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::on(emulated::start(Example { nodes: 6 }), settings)
    }

    /// A process that has just started.
    pub(crate) fn on(cloud: Arc<Emulated>, settings: &Settings) -> Self {
        cloud.linger(2);
        let aws = Aws::new(emulated::account(&cloud), settings.clone());
        Self { cloud, aws, settings: settings.clone(), alive: BTreeMap::new() }
    }

    /// The process ends and another begins.
    pub(crate) async fn restart(&mut self) {
        self.aws = Aws::new(emulated::account(&self.cloud), self.settings.clone());
        for (service, _) in self.alive.values() {
            self.aws.adopt(service);
        }
    }

    /// A process that looks at everything each time.
    pub(crate) fn thorough(&mut self) {
        let aws = Aws::new(emulated::account(&self.cloud), self.settings.clone());
        self.aws = aws.with_thorough_looks(Duration::ZERO);
    }

    /// Why an attempt is refused.
    pub(crate) async fn refused(&self, service: &Service) -> String {
        match self.attempt(service, 3).await {
            Err(CloudError::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// The settings from now on, as after a restart with another cloud-config.
    pub(crate) async fn set(&mut self, settings: &Settings) {
        self.settings = settings.clone();
        self.restart().await;
    }

    pub(crate) async fn attempt(&self, service: &Service, nodes: u8) -> Result<String, CloudError> {
        let status = self.aws.ensure(service, &self::nodes(nodes)).await?;
        Ok(status.ingress.unwrap().remove(0).hostname.unwrap())
    }

    /// Deletes, again and again while AWS keeps something in use.
    pub(crate) async fn delete(&self, service: &Service) -> Result<(), CloudError> {
        for _ in 0..12 {
            if !self.aws.exists(service).await? {
                return Ok(());
            }
            match self.aws.delete(service).await {
                Err(CloudError::Later { .. }) => {}
                outcome => return outcome,
            }
        }
        panic!("{:?} is not deleted", service.metadata.name)
    }

    /// Tries a step until it works, as the queue does; groups that wait and leftovers are looked after.
    pub(crate) async fn through(&mut self, step: &Step) {
        let key = "ns/web".to_owned();
        let before = self.alive.get(&key).cloned();
        if let Some(service) = &step.service {
            self.alive.insert(key.clone(), (service.clone(), step.nodes));
        }
        for attempt in 0.. {
            let outcome = match (&step.service, &before) {
                (Some(service), _) => self.attempt(service, step.nodes).await.map(|_| ()),
                (None, Some((service, _))) => self.delete(service).await,
                (None, None) => Ok(()),
            };
            if self.cloud.mend() && matches!(&outcome, Err(error) if error.to_string().contains("the process is gone"))
            {
                self.restart().await;
            }
            match outcome {
                Ok(()) => break,
                Err(CloudError::Refused(why)) => panic!("{}: refused: {why}", step.name),
                Err(error) => assert!(attempt < 12, "{}: does not settle: {error}", step.name),
            }
        }
        if step.service.is_none() {
            self.alive.remove(&key);
        }
        self.cloud.mend();
        self.tidy().await;
    }

    /// What happens in the background until nothing is left to do.
    pub(crate) async fn tidy(&self) {
        for round in 0.. {
            let waiting = self.aws.remove_waiting().await.unwrap();
            let alive = Alive::new(self.alive.values().map(|(service, _)| owner(service)));
            let found = self.aws.sweep(&alive, &AT_ONCE, Instant::now()).await.unwrap();
            if waiting == 0 && found == Swept::default() {
                return;
            }
            assert!(round < 12, "leftovers do not go");
        }
    }
}

/// What there is, by names instead of ids, so that two histories can be compared.
pub(crate) fn describe(state: &State) -> String {
    let mut out = String::new();
    let names: BTreeMap<&String, &String> = state.groups.iter().map(|(id, group)| (id, &group.name)).collect();
    let group_name = |id: &String| names.get(id).map_or_else(|| id.clone(), |name| (*name).clone());
    let rules = |rules: &BTreeSet<Rule>| -> Vec<String> {
        let mut lines: Vec<String> = rules
            .iter()
            .map(|rule| {
                let peer = match &rule.peer {
                    Peer::Group(id) => group_name(id),
                    other => other.to_string(),
                };
                format!("{} {peer}", rule.protocol)
            })
            .collect();
        lines.sort();
        lines
    };
    let tags = |tags: &Tags| -> Vec<String> { tags.iter().map(|(key, value)| format!("{key}={value}")).collect() };
    let mut groups: Vec<_> = state.groups.values().collect();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    for group in groups {
        writeln!(out, "group {} {:?}", group.name, tags(&group.tags)).unwrap();
        writeln!(out, "  in {:#?}\n  out {:#?}", rules(&group.ingress), rules(&group.egress)).unwrap();
    }
    let mut balancers: Vec<_> = state.load_balancers.iter().collect();
    balancers.sort_by(|(_, a), (_, b)| a.load_balancer.name.cmp(&b.load_balancer.name));
    for (arn, held) in balancers {
        let one = &held.load_balancer;
        let groups: BTreeSet<String> = one.security_groups.iter().map(group_name).collect();
        let nat = one.ipv6_source_nat;
        writeln!(out, "network {} {:?} {:?} nat {nat:?} {:?}", one.name, one.scheme, one.ip_address_type, one.subnets)
            .unwrap();
        writeln!(out, "  groups {groups:?} attributes {:?} tags {:?}", held.attributes, tags(&held.tags)).unwrap();
        let mut listeners: Vec<_> = state.listeners.values().filter(|held| held.load_balancer == *arn).collect();
        listeners.sort_by_key(|held| held.listener.settings.port);
        for held in listeners {
            let one = &held.listener.settings;
            let target = state.target_groups.get(&one.target_group).map(|held| held.group.name.clone());
            let tls = (&one.certificate, &held.certificates, &one.ssl_policy);
            let tags = tags(&held.tags);
            writeln!(out, "  listener {} {} {target:?} {tls:?} {tags:?}", one.port, one.protocol).unwrap();
        }
    }
    let mut targets: Vec<_> = state.target_groups.values().collect();
    targets.sort_by(|a, b| a.group.name.cmp(&b.group.name));
    for held in targets {
        let one = &held.group;
        writeln!(out, "targets {} {} {} {}", one.name, one.protocol, one.port, one.family).unwrap();
        writeln!(out, "  {:?} {:?} {:?}", one.health_check, held.attributes, tags(&held.tags)).unwrap();
        writeln!(out, "  {:?}", held.targets).unwrap();
    }
    for held in state.classic.values() {
        let mut one = held.load_balancer.clone();
        one.security_groups = one.security_groups.iter().map(group_name).collect();
        one.dns_name.clear();
        writeln!(out, "classic {one:#?} {:?} {:?}", held.attributes, tags(&held.tags)).unwrap();
    }
    out
}
