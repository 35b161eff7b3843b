//! The provider `aws`: observes, plans, applies, one Service at a time, and remembers what it has seen through.

mod execute;
mod inventory;
mod ledger;
mod observe;
mod removal;
mod sweep;

pub use sweep::Alive;

use crate::{
    account::{Account, AwsError, ClassicLoadBalancer, LoadBalancer, LoadBalancerState, Target},
    model::{
        Balancer, Desired, Existing, Settings,
        annotations::Kind,
        desire,
        names::Owner,
        nodes,
        request::{Note, Request},
    },
    plan::{self, Action, Observed},
};
use execute::{Handles, Run};
use inventory::Inventory;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use ledger::Ledger;
use observe::Depth;
use parking_lot::Mutex;
use removal::Removals;
use runtime::{
    cloud::{Answer, CloudError, CloudProvider, LoadBalancers, Routes},
    controller::Result as ControllerResult,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// When to try again after AWS said that there are too many calls.
const THROTTLED: Duration = Duration::from_secs(15);
/// When to try again what is still in use.
const IN_USE: Duration = Duration::from_secs(5);
/// How often AWS is looked at until it shows what was set.
const LOOKS: usize = 4;
/// How often a Service that is another controller's is looked at.
const ELSEWHERE: Duration = Duration::from_secs(12 * 3600);

/// Where notes about a Service go: an event, or nothing.
pub type Tell = Box<dyn Fn(&Service, &Note) + Send + Sync>;

/// The provider.
pub struct Aws {
    pub(crate) account: Arc<dyn Account>,
    pub(crate) settings: Settings,
    pub(crate) route_table: Option<String>,
    /// Instances by the names of their nodes.
    pub(crate) instances: Mutex<BTreeMap<String, String>>,
    inventory: Inventory,
    ledger: Ledger,
    removals: Removals,
    /// What was last seen through, by the Service's UID.
    done: Mutex<HashMap<String, Done>>,
    tell: OnceLock<Tell>,
}

impl std::fmt::Debug for Aws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aws").field("cluster", &self.settings.cluster).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Done {
    desired: Desired,
    handles: Handles,
}

/// What a pass comes to.
enum Pass {
    /// Nothing was to be done.
    Settled(Done),
    /// Something was done, or what was seen may be old: to be looked at once more.
    Changed(Done),
    /// What was seen was not so: to be looked at anew.
    Astray(AwsError),
}

enum Seen {
    Network(Option<LoadBalancer>),
    Classic(Option<ClassicLoadBalancer>),
}

impl Seen {
    fn existing(&self) -> Option<Existing> {
        match self {
            Self::Network(seen) => seen.as_ref().map(|seen| Existing {
                scheme: seen.scheme,
                subnets: seen.subnets.clone(),
                groups: seen.security_groups.clone(),
            }),
            Self::Classic(seen) => seen.as_ref().map(|seen| Existing {
                scheme: seen.scheme,
                subnets: seen.subnets.clone(),
                groups: seen.security_groups.clone(),
            }),
        }
    }
}

fn failed(error: AwsError) -> CloudError {
    match error {
        AwsError::Throttled { .. } => CloudError::Later { reason: error.to_string(), after: THROTTLED },
        AwsError::InUse { .. } => CloudError::Later { reason: error.to_string(), after: IN_USE },
        error => CloudError::Failed(error.into()),
    }
}

impl Aws {
    /// A provider for an account.
    pub fn new(account: Arc<dyn Account>, settings: Settings) -> Self {
        Self {
            account,
            settings,
            route_table: None,
            instances: Mutex::default(),
            inventory: Inventory::default(),
            ledger: Ledger::default(),
            removals: Removals::default(),
            done: Mutex::default(),
            tell: OnceLock::new(),
        }
    }

    /// With the route table for pods' routes.
    #[must_use]
    pub fn with_route_table(mut self, table: Option<String>) -> Self {
        self.route_table = table;
        self
    }

    /// Where notes go from now on; the first one wins.
    pub fn tell(&self, tell: Tell) {
        let _ = self.tell.set(tell);
    }

    /// The cluster and what is set for all Services.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Removes groups that AWS keeps in use for a while. Ends only by being dropped.
    pub async fn remove_groups(&self) -> ControllerResult<()> {
        self.removals.run(&self.account).await
    }

    /// Tries each group that waits to be removed once; says how many still wait.
    pub async fn remove_waiting(&self) -> Result<usize, AwsError> {
        for group in self.removals.waiting() {
            match self.removals.again(&*self.account, &group).await {
                Err(error) if error.is_in_use() => {}
                outcome => outcome?,
            }
        }
        Ok(self.removals.waiting().len())
    }

    fn note_nodes(&self, all: &[Arc<Node>]) {
        let mut instances = self.instances.lock();
        for node in all {
            let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            if let (Some(name), Some(id)) = (&node.metadata.name, provider_id.and_then(nodes::instance_id)) {
                instances.insert(name.clone(), id.to_owned());
            }
        }
    }

    fn request(&self, service: &Service) -> Result<Request, CloudError> {
        match Request::read(service) {
            Ok(Some(request)) => Ok(request),
            Ok(None) => Err(CloudError::Later {
                reason: "the load balancer is another controller's".to_owned(),
                after: ELSEWHERE,
            }),
            Err(mistakes) => Err(CloudError::Refused(mistakes.join("; "))),
        }
    }

    async fn look(&self, kind: Kind, name: &str) -> Result<Seen, AwsError> {
        Ok(match kind {
            Kind::Network => Seen::Network(self.account.describe_load_balancers(Some(name)).await?.into_iter().next()),
            Kind::Classic | Kind::Elsewhere => {
                Seen::Classic(self.account.describe_classic(Some(name)).await?.into_iter().next())
            }
        })
    }

    async fn desired(
        &self,
        request: &Request,
        existing: Option<&Existing>,
        nodes: &[Arc<Node>],
    ) -> Result<Desired, CloudError> {
        let cluster = &self.settings.cluster;
        let instances = nodes::instances(nodes, &request.annotations.node_labels);
        let around = self.inventory.get(&*self.account, cluster, &instances).await.map_err(failed)?;
        desire(request, &self.settings, &around, existing, nodes).map_err(CloudError::Refused)
    }

    /// One pass: look, decide, do.
    async fn pass(&self, request: &Request, nodes: &[Arc<Node>], before: Option<&Done>) -> Result<Pass, CloudError> {
        let seen = self.look(request.annotations.kind, &request.owner.load_balancer()).await.map_err(failed)?;
        if let Seen::Network(Some(LoadBalancer { state: LoadBalancerState::Failed, name, .. })) = &seen {
            let failed = format!("AWS could not set up load balancer {name}; delete the Service to have it made anew");
            return Err(CloudError::Failed(failed.into()));
        }
        let desired = self.desired(request, seen.existing().as_ref(), nodes).await?;
        self.ledger.note(&desired);
        let depth = match before {
            Some(before) if before.desired == desired => Depth::Glance,
            Some(before) if without_targets(&before.desired) == without_targets(&desired) => Depth::Targets,
            _ => Depth::Everything,
        };
        let (mut observed, mut actions) = self.decide(&desired, &seen, depth).await?;
        let only_targets = |action: &Action| matches!(action, Action::Register { .. } | Action::Deregister { .. });
        if depth != Depth::Everything && !actions.iter().all(only_targets) {
            (observed, actions) = self.decide(&desired, &seen, Depth::Everything).await?;
        }
        for group in observed.groups.values().filter(|group| wants_group(&desired, &group.name)) {
            self.removals.keep(&group.id);
        }
        let waiting = self.removals.waiting();
        actions.retain(|action| !matches!(action, Action::RemoveGroup { group } if waiting.contains(group)));
        let mut run = Run {
            account: &*self.account,
            name: &desired.name,
            removals: &self.removals,
            handles: Handles::of(&observed),
        };
        match run.all(&actions).await {
            Ok(()) => {}
            // What was seen is not what is: an answer was lost, a read was old, or somebody else is at work.
            Err(error) if error.is_duplicate() || error.is_not_found() => {
                tracing::debug!(service = request.owner.key(), %error, "looks again");
                self.inventory.forget().await;
                return Ok(Pass::Astray(error));
            }
            Err(error) => return Err(failed(error)),
        }
        let handles = run.handles;
        let done = Done { desired, handles };
        let sure = actions.is_empty() && (depth == Depth::Glance || before.is_none());
        Ok(if sure { Pass::Settled(done) } else { Pass::Changed(done) })
    }

    async fn decide(
        &self,
        desired: &Desired,
        seen: &Seen,
        depth: Depth,
    ) -> Result<(Observed, Vec<Action>), CloudError> {
        let (account, cluster) = (&*self.account, &self.settings.cluster);
        let observed = match seen {
            Seen::Network(seen) => {
                let mut observed = observe::network(account, cluster, desired, seen.clone(), depth).await;
                if let (None, Ok(observed)) = (seen, &mut observed) {
                    observed.classic = self.other_kind_classic(&desired.name).await.map_err(failed)?;
                }
                observed
            }
            Seen::Classic(seen) => {
                let mut observed = observe::classic(account, cluster, desired, seen.clone(), depth).await;
                if let (None, Ok(observed)) = (seen, &mut observed) {
                    observed.network = self.other_kind_network(&desired.name).await.map_err(failed)?;
                }
                observed
            }
        };
        let observed = observed.map_err(failed)?;
        let others = self.ledger.others(Some(&desired.owner.uid));
        let actions = plan::plan(desired, &observed, &others, cluster).map_err(CloudError::Refused)?;
        Ok((observed, actions))
    }

    async fn other_kind_classic(&self, name: &str) -> Result<Option<plan::SeenClassic>, AwsError> {
        let found = self.account.describe_classic(Some(name)).await?.into_iter().next();
        Ok(found.map(|load_balancer| plan::SeenClassic { load_balancer, attributes: None, tags: None }))
    }

    async fn other_kind_network(&self, name: &str) -> Result<Option<plan::SeenNetwork>, AwsError> {
        let found = self.account.describe_load_balancers(Some(name)).await?.into_iter().next();
        Ok(found.map(|load_balancer| plan::SeenNetwork {
            load_balancer,
            listeners: Vec::new(),
            attributes: None,
            tags: None,
        }))
    }

    /// Passes until one finds nothing to do: AWS may show what was true a moment ago, so a change is looked at once more.
    async fn ensure_one(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Handles, CloudError> {
        self.note_nodes(nodes);
        let request = self.request(service)?;
        let before = self.done.lock().remove(&request.owner.uid);
        let told = before.as_ref().map(|before| before.desired.notes.clone()).unwrap_or_default();
        let mut changed = None;
        let mut astray = None;
        for look in 0..LOOKS {
            let before = before.as_ref().filter(|_| look == 0);
            match self.pass(&request, nodes, before).await? {
                Pass::Settled(done) => return Ok(self.keep(service, &told, done)),
                Pass::Changed(done) => changed = Some(done),
                Pass::Astray(error) => {
                    changed = None;
                    astray = Some(error);
                }
            }
        }
        match (changed, astray) {
            (Some(done), _) => {
                tracing::warn!(service = request.owner.key(), "AWS shows other than what was set; taken as it is");
                Ok(self.keep(service, &told, done))
            }
            (None, Some(error)) => Err(failed(error)),
            (None, None) => Err(CloudError::Later { reason: "AWS does not settle".to_owned(), after: IN_USE }),
        }
    }

    fn keep(&self, service: &Service, told: &[Note], done: Done) -> Handles {
        let (uid, handles) = (done.desired.owner.uid.clone(), done.handles.clone());
        let new = done.desired.notes.iter().filter(|note| !told.contains(note));
        if let Some(tell) = self.tell.get() {
            new.for_each(|note| tell(service, note));
        }
        self.done.lock().insert(uid, done);
        handles
    }

    /// Only the targets, with what was seen through before; `None` when more has changed.
    async fn retarget(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Option<()>, CloudError> {
        self.note_nodes(nodes);
        let request = self.request(service)?;
        let Some(before) = self.done.lock().get(&request.owner.uid).cloned() else { return Ok(None) };
        let Balancer::Network(network) = &before.desired.balancer else { return Ok(None) };
        let groups = match &before.desired.groups {
            crate::model::Groups::AsIs => Default::default(),
            _ => [String::new()].into(),
        };
        let existing = Existing {
            scheme: network.scheme,
            subnets: network.subnets.iter().map(|subnet| subnet.subnet.clone()).collect(),
            groups,
        };
        let desired = self.desired(&request, Some(&existing), nodes).await?;
        if without_targets(&desired) != without_targets(&before.desired) {
            return Ok(None);
        }
        let Balancer::Network(wanted) = &desired.balancer else { return Ok(None) };
        let mut actions = Vec::new();
        for (listener, old) in wanted.listeners.iter().zip(&network.listeners) {
            let Some((name, arn)) = serving(&before.handles, &listener.target.name) else { return Ok(None) };
            let seen = match observe::targets(&*self.account, arn).await {
                Err(error) if error.is_not_found() => return Ok(None),
                seen => seen.map_err(failed)?,
            };
            // AWS may show what was true a moment ago: a target is there only if it was wanted too.
            let sure: BTreeSet<Target> = seen.intersection(&old.target.targets).cloned().collect();
            let leaving = seen.union(&old.target.targets).filter(|one| !listener.target.targets.contains(one));
            let has: BTreeSet<Target> = leaving.chain(&sure).cloned().collect();
            plan::change_targets(name, &has, &listener.target.targets, &mut actions);
        }
        let mut run = Run {
            account: &*self.account,
            name: &desired.name,
            removals: &self.removals,
            handles: before.handles.clone(),
        };
        match run.all(&actions).await {
            Err(error) if error.is_not_found() => return Ok(None),
            outcome => outcome.map_err(failed)?,
        }
        self.done.lock().insert(request.owner.uid.clone(), Done { desired, handles: before.handles });
        Ok(Some(()))
    }

    async fn delete_one(&self, service: &Service) -> Result<(), CloudError> {
        let owner = owner(service);
        self.done.lock().remove(&owner.uid);
        for _ in 0..3 {
            let observed = observe::leftovers(&*self.account, &self.settings.cluster, &owner).await.map_err(failed)?;
            let others = self.ledger.others(Some(&owner.uid));
            let actions = plan::remove(&owner, &observed, &others, &self.settings.cluster);
            let mut run = Run {
                account: &*self.account,
                name: &owner.load_balancer(),
                removals: &self.removals,
                handles: Handles::of(&observed),
            };
            match run.all(&actions).await {
                Err(error) if error.is_not_found() => {}
                outcome => {
                    outcome.map_err(failed)?;
                    self.ledger.forget(&owner.uid);
                    return Ok(());
                }
            }
        }
        Err(CloudError::Later { reason: "AWS does not settle".to_owned(), after: IN_USE })
    }

    async fn anything_of(&self, service: &Service) -> Result<bool, CloudError> {
        let (owner, cluster) = (owner(service), &self.settings.cluster);
        let observed = observe::leftovers(&*self.account, cluster, &owner).await.map_err(failed)?;
        let others = self.ledger.others(Some(&owner.uid));
        let there = !plan::remove(&owner, &observed, &others, cluster).is_empty();
        if !there {
            // Nothing will be deleted for it, so nothing else would forget what it wanted.
            self.done.lock().remove(&owner.uid);
            self.ledger.forget(&owner.uid);
        }
        Ok(there)
    }
}

fn status(handles: &Handles) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress { hostname: Some(handles.dns_name.clone()), ..LoadBalancerIngress::default() };
    LoadBalancerStatus { ingress: Some(vec![ingress]) }
}

fn serving<'a>(handles: &'a Handles, name: &str) -> Option<(&'a str, &'a str)> {
    handles.target_groups.get_key_value(name).map(|(name, arn)| (name.as_str(), arn.as_str()))
}

fn wants_group(desired: &Desired, name: &str) -> bool {
    matches!(&desired.groups, crate::model::Groups::Managed(managed) if managed.name == name)
}

fn without_targets(desired: &Desired) -> Desired {
    let mut bare = desired.clone();
    bare.notes.clear();
    match &mut bare.balancer {
        Balancer::Network(network) => {
            network.listeners.iter_mut().for_each(|listener| listener.target.targets.clear());
        }
        Balancer::Classic(classic) => classic.instances.clear(),
    }
    bare
}

/// Whose load balancer it would be.
pub fn owner(service: &Service) -> Owner {
    let metadata = &service.metadata;
    Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

impl CloudProvider for Aws {
    fn name(&self) -> &str {
        "aws"
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }
}

impl LoadBalancers for Aws {
    fn exists<'a>(&'a self, service: &'a Service) -> Answer<'a, bool> {
        Box::pin(self.anything_of(service))
    }

    fn ensure<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus> {
        Box::pin(async move {
            let handles = self.ensure_one(service, nodes).await?;
            Ok(status(&handles))
        })
    }

    fn update_nodes<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, ()> {
        Box::pin(async move {
            match self.retarget(service, nodes).await? {
                Some(()) => Ok(()),
                None => self.ensure_one(service, nodes).await.map(|_| ()),
            }
        })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> Answer<'a, ()> {
        Box::pin(self.delete_one(service))
    }

    fn adopt(&self, service: &Service) {
        self.ledger.expect(&owner(service).uid);
    }
}
