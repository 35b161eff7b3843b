//! A provider on an account in memory, restarted and driven on as the controller would.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part; a test may end where it fails")]

use aws::{
    account::{Peer, Rule, Tags},
    apply::{Alive, Aws, Swept, owner},
    memory::{Example, HeldBalancer, Memory, State},
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
    time::Duration,
};

/// Families of a Service, as a change of it.
pub(crate) fn families(policy: &str, list: &[&str]) -> Value {
    json!({"spec": {"ipFamilyPolicy": policy, "ipFamilies": list}})
}

/// IPv4, dual-stack with IPv4 first, dual-stack with IPv6 first.
pub(crate) fn shapes() -> [Value; 3] {
    [json!({}), families("RequireDualStack", &["IPv4", "IPv6"]), families("RequireDualStack", &["IPv6", "IPv4"])]
}

/// Ports of a Service, as a change of it: port, node port, protocol.
pub(crate) fn ports(list: &[(u16, u16, &str)]) -> Value {
    let ports: Vec<Value> = list
        .iter()
        .map(|(port, node, protocol)| {
            let name = format!("p{port}{}", protocol.to_lowercase());
            json!({"name": name, "port": port, "nodePort": node, "protocol": protocol})
        })
        .collect();
    json!({"spec": {"ports": ports}})
}

/// Who may connect, as a change of a Service.
pub(crate) fn ranges(list: &[&str]) -> Value {
    json!({"spec": {"loadBalancerSourceRanges": list}})
}

/// Several changes in one; a later one wins.
pub(crate) fn merged(changes: &[Value]) -> Value {
    let mut all = json!({});
    for change in changes {
        merge(&mut all, change);
    }
    all
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
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
    aws.tell(Box::new(move |_, note| kept.lock().push(note.clone())));
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

pub(crate) struct World {
    pub(crate) memory: Arc<Memory>,
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
        let memory = Arc::new(Memory::new(Example { nodes: 6 }.state()));
        memory.linger(2);
        let aws = Aws::new(memory.clone(), settings.clone());
        Self { memory, aws, settings: settings.clone(), alive: BTreeMap::new() }
    }

    /// A process that has just looked at everything there is.
    pub(crate) async fn resume(settings: &Settings, state: State, alive: &BTreeMap<String, (Service, u8)>) -> Self {
        let memory = Arc::new(Memory::new(state));
        memory.linger(2);
        let aws = Aws::new(memory.clone(), settings.clone());
        let world = Self { memory, aws, settings: settings.clone(), alive: alive.clone() };
        for (service, nodes) in alive.values() {
            world.attempt(service, *nodes).await.unwrap();
        }
        world
    }

    /// The process ends and another begins.
    pub(crate) async fn restart(&mut self) {
        self.aws = Aws::new(self.memory.clone(), self.settings.clone());
        for (service, _) in self.alive.values() {
            self.aws.adopt(service);
        }
    }

    /// A process that looks at everything each time.
    pub(crate) fn thorough(&mut self) {
        let aws = Aws::new(self.memory.clone(), self.settings.clone());
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

    /// One attempt at a Service.
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
            if self.memory.mend() && matches!(&outcome, Err(error) if error.to_string().contains("the process is gone"))
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
        self.memory.mend();
        self.tidy().await;
    }

    /// What happens in the background until nothing is left to do.
    pub(crate) async fn tidy(&self) {
        for round in 0.. {
            let waiting = self.aws.remove_waiting().await.unwrap();
            let alive = Alive::new(self.alive.values().map(|(service, _)| owner(service)));
            let found = self.aws.sweep(&alive).await.unwrap();
            if waiting == 0 && found == Swept::default() {
                return;
            }
            assert!(round < 12, "leftovers do not go");
        }
    }
}

/// What there is, by names instead of ids, so that two histories can be compared.
pub(crate) fn told(state: &State) -> String {
    let mut out = String::new();
    let names: BTreeMap<&String, &String> = state.groups.iter().map(|(id, group)| (id, &group.name)).collect();
    let group_name = |id: &String| names.get(id).map_or_else(|| id.clone(), |name| (*name).clone());
    let rules = |rules: &BTreeSet<Rule>| -> Vec<String> {
        let mut told: Vec<String> = rules
            .iter()
            .map(|rule| {
                let peer = match &rule.peer {
                    Peer::Group(id) => group_name(id),
                    other => other.to_string(),
                };
                format!("{} {peer}", rule.protocol)
            })
            .collect();
        told.sort();
        told
    };
    let tags = |tags: &Tags| -> Vec<String> { tags.iter().map(|(key, value)| format!("{key}={value}")).collect() };
    let mut groups: Vec<_> = state.groups.values().collect();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    for group in groups {
        writeln!(out, "group {} {:?}", group.name, tags(&group.tags)).unwrap();
        writeln!(out, "  in {:#?}\n  out {:#?}", rules(&group.ingress), rules(&group.egress)).unwrap();
    }
    for (arn, held) in &state.load_balancers {
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
