//! The provider `aws`: observes, plans, applies, one Service at a time, and remembers what it has seen through.
//!
//! - `pass`: looks once, decides, does it; `ensure`: passes until nothing is to be done, and changes of nodes.
//! - `maintain`: what was accepted last goes on following nodes while a change is refused; `explain`: what AWS refuses, by annotation.
//! - `delete`: everything of a Service; `sweep`: everything of Services that are no more; `removal`: groups that AWS keeps for a while.
//! - `observe`: reads; `execute`: writes; `inventory` and `ledger`: what Services share.
//! - `backend`: the group that load balancers share towards the nodes.
//! - `egress`: where the role may not change what groups let out; `conditions`: what the Services' conditions say of it.

mod backend;
mod conditions;
mod delete;
mod egress;
mod ensure;
mod execute;
mod explain;
mod inventory;
mod ledger;
mod maintain;
mod observe;
mod pass;
mod removal;
mod sweep;

pub use conditions::CONDITION;
pub use sweep::{Alive, Caution, Leftovers, Swept};

use crate::{
    account::{Account, AwsError},
    model::{
        Settings,
        names::Owner,
        request::{Note, Request},
    },
};
use conditions::Conditions;
use execute::Handles;
use inventory::Inventory;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use ledger::Ledger;
use parking_lot::Mutex;
use pass::Done;
use removal::Removals;
use runtime::{
    cloud::{Answer, CloudError, CloudProvider, LoadBalancers, Routes},
    controller::Result as ControllerResult,
};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// When to try again after AWS said that there are too many calls.
const THROTTLED: Duration = Duration::from_secs(15);
/// When to try again what is still in use.
const IN_USE: Duration = Duration::from_secs(5);
/// How often a load balancer is looked at when nothing happens, so that what was changed by hand is put right.
const LOOK_AGAIN: Duration = Duration::from_secs(15 * 60);
/// How often attributes, tags and targets are looked at too.
const THOROUGH: Duration = Duration::from_secs(3600);

/// Where notes about a Service go: an event, or nothing.
pub type Reporter = Box<dyn Fn(&Service, &Note) + Send + Sync>;

/// The provider.
pub struct Aws {
    pub(crate) account: Account,
    pub(crate) settings: Settings,
    pub(crate) route_table: Option<String>,
    thorough: Duration,
    inventory: Inventory,
    ledger: Ledger,
    removals: Removals,
    conditions: Conditions,
    suspects: sweep::Suspects,
    denied_egress: egress::DeniedEgress,
    backend: backend::Backend,
    /// What was last seen through, by the Service's UID.
    done: Mutex<HashMap<String, Done>>,
    reporter: OnceLock<Reporter>,
}

impl std::fmt::Debug for Aws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aws").field("cluster", &self.settings.cluster).finish_non_exhaustive()
    }
}

impl Aws {
    /// A provider for an account.
    pub fn new(account: impl Into<Account>, settings: Settings) -> Self {
        Self {
            account: account.into(),
            settings,
            route_table: None,
            thorough: THOROUGH,
            inventory: Inventory::default(),
            ledger: Ledger::default(),
            removals: Removals::default(),
            conditions: Conditions::default(),
            suspects: sweep::Suspects::default(),
            denied_egress: egress::DeniedEgress::default(),
            backend: backend::Backend::default(),
            done: Mutex::default(),
            reporter: OnceLock::new(),
        }
    }

    /// With the route table for pods' routes.
    #[must_use]
    pub fn with_route_table(mut self, table: Option<String>) -> Self {
        self.route_table = table;
        self
    }

    /// With another time after which a look at a load balancer takes in attributes, tags and targets too.
    #[must_use]
    pub fn with_thorough_looks(mut self, every: Duration) -> Self {
        self.thorough = every;
        self
    }

    /// Where notes go from now on; the first one wins.
    pub fn report_notes_to(&self, reporter: Reporter) {
        let _ = self.reporter.set(reporter);
    }

    /// The cluster and what is set for all Services.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Removes groups that AWS keeps in use for a while. Ends only by being dropped.
    pub async fn remove_groups(&self) -> ControllerResult<()> {
        self.removals.run(&self.account).await
    }

    /// Writes the Services' conditions. Ends only by being dropped.
    pub async fn write_conditions(&self, client: kube::Client) -> ControllerResult<()> {
        self.conditions.run(client).await
    }

    /// Tries each group that waits to be removed once; says how many still wait.
    pub async fn remove_waiting(&self) -> Result<usize, AwsError> {
        for group in self.removals.waiting() {
            match self.removals.again(&self.account, &group).await {
                Err(error) if error.is_in_use() => {}
                outcome => outcome?,
            }
        }
        Ok(self.removals.waiting().len())
    }
}

fn failed(error: AwsError) -> CloudError {
    match error {
        AwsError::Throttled { .. } => CloudError::Later { reason: error.to_string(), after: THROTTLED },
        AwsError::InUse { .. } => CloudError::Later { reason: error.to_string(), after: IN_USE },
        error => CloudError::Failed(error.into()),
    }
}

fn status(handles: &Handles) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress { hostname: Some(handles.dns_name.clone()), ..LoadBalancerIngress::default() };
    LoadBalancerStatus { ingress: Some(vec![ingress]) }
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
            match self.ensure_one(service, nodes).await {
                Ok(handles) => Ok(status(&handles)),
                Err(error) => Err(self.maintain_after(service, nodes, error).await),
            }
        })
    }

    fn update_nodes<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, ()> {
        Box::pin(async move {
            let outcome = match self.retarget(service, nodes).await {
                Ok(None) => self.ensure_one(service, nodes).await.map(|_| ()),
                outcome => outcome.map(|_| ()),
            };
            match outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(self.maintain_after(service, nodes, error).await),
            }
        })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> Answer<'a, ()> {
        Box::pin(self.delete_one(service))
    }

    fn adopt(&self, service: &Service) {
        // What another controller makes wants nothing here, and would be waited for in vain.
        let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_ref());
        if class.is_none() && !matches!(Request::read(service), Ok(None)) {
            self.ledger.expect(&owner(service).uid);
        }
    }

    fn look_again(&self) -> Option<Duration> {
        Some(LOOK_AGAIN)
    }
}
