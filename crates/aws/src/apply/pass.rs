//! One pass over a Service: look, decide, do.

use super::{
    Aws,
    execute::{Handles, Run},
    failed,
    observe::{self, Depth},
};
use crate::{
    account::{AwsError, ClassicLoadBalancer, Kind as Missing, LoadBalancer, LoadBalancerState},
    model::{
        Balancer, Desired, Existing, Groups,
        annotations::{self, Kind},
        desire, nodes,
        request::Request,
    },
    plan::{self, Action, Observed, SeenClassic, SeenNetwork},
};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::CloudError;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How often a Service that is another controller's is looked at.
const ELSEWHERE: Duration = Duration::from_secs(12 * 3600);

/// What was seen through for a Service.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// What was asked for.
    pub(super) request: Request,
    /// What there should be, and is.
    pub(super) desired: Desired,
    /// What the load balancer had decided when it was looked at.
    pub(super) existing: Option<Existing>,
    /// Its ids.
    pub(super) handles: Handles,
    /// When everything was looked at; `None` when that is to be done again.
    pub(super) looked: Option<Instant>,
}

/// What a pass comes to.
pub(super) enum Pass {
    /// Nothing was to be done.
    Settled(Done),
    /// Something was done, or what was seen may be old: to be looked at once more.
    Changed(Done),
    /// What was seen was not so: to be looked at anew.
    Astray(AwsError),
}

/// Why there is not what is asked for.
pub(super) struct Failure {
    pub(super) error: CloudError,
    /// Whether something was changed, or may have been.
    pub(super) begun: bool,
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        Self { error, begun: false }
    }
}

/// What is asked for: a Service as it was read, in front of these nodes.
pub(super) struct Ask<'a> {
    pub(super) service: &'a Service,
    pub(super) request: Request,
    pub(super) nodes: &'a [Arc<Node>],
}

enum ObservedBalancer {
    Network(Option<LoadBalancer>),
    Classic(Option<ClassicLoadBalancer>),
}

impl ObservedBalancer {
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

impl Aws {
    /// What a Service asks for, or all its mistakes.
    pub(super) fn ask<'a>(&self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Result<Ask<'a>, CloudError> {
        match Request::read(service) {
            Ok(Some(request)) => Ok(Ask { service, request, nodes }),
            Ok(None) => {
                self.ledger.forget(&super::owner(service).uid);
                Err(CloudError::Later {
                    reason: "the load balancer is another controller's".to_owned(),
                    after: ELSEWHERE,
                })
            }
            Err(mistakes) => Err(CloudError::Refused(mistakes.join("; "))),
        }
    }

    /// What there should be, with what is known of the account.
    pub(super) async fn desired(&self, ask: &Ask<'_>, existing: Option<&Existing>) -> Result<Desired, CloudError> {
        let instances = nodes::instances(ask.nodes, &ask.request.annotations.node_labels);
        let around = self.inventory.get(&self.account, &self.settings.cluster, &instances).await.map_err(failed)?;
        let backend = self.backend_for(&ask.request, existing).await?;
        let desired = desire(&ask.request, &self.settings, &around, existing, ask.nodes, backend.as_deref());
        let mut desired = desired.map_err(|refusal| {
            self.conditions.set(ask.service, &refusal.notes);
            CloudError::Refused(refusal.why)
        })?;
        self.leave_denied_egress(&mut desired);
        Ok(desired)
    }

    /// One pass; `before` is what was last seen through, if that is still worth something.
    pub(super) async fn pass(&self, ask: &Ask<'_>, before: Option<&Done>) -> Result<Pass, Failure> {
        let request = &ask.request;
        let seen = self.look(request.annotations.kind, &request.owner.load_balancer()).await.map_err(failed)?;
        if let ObservedBalancer::Network(Some(LoadBalancer { state: LoadBalancerState::Failed, name, .. })) = &seen {
            let failed = format!("AWS could not set up load balancer {name}; delete the Service to have it made anew");
            return Err(CloudError::Failed(failed.into()).into());
        }
        let existing = seen.existing();
        let desired = self.desired(ask, existing.as_ref()).await?;
        self.ledger.begin(&desired).await;
        let is_recent = |looked: Instant| looked.elapsed() < self.thorough;
        let mut depth = match before.filter(|before| before.looked.is_some_and(is_recent)) {
            Some(before) if before.desired == desired => Depth::Glance,
            Some(before) if without_targets(&before.desired) == without_targets(&desired) => Depth::Targets,
            _ => Depth::Everything,
        };
        let (mut observed, mut actions) = self.decide_or_abandon(&desired, &seen, depth).await?;
        let only_targets = |action: &Action| matches!(action, Action::Register { .. } | Action::Deregister { .. });
        let is_known =
            |arn: &String| before.is_some_and(|before| before.handles.target_groups.values().any(|one| one == arn));
        let strange = observed.target_groups.iter().any(|seen| !is_known(&seen.group.arn));
        if depth != Depth::Everything && (strange || !actions.iter().all(only_targets)) {
            depth = Depth::Everything;
            (observed, actions) = self.decide_or_abandon(&desired, &seen, depth).await?;
        }
        for group in observed.groups.values().filter(|group| wants_group(&desired, &group.name)) {
            self.removals.keep(&group.id);
        }
        let waiting = self.removals.waiting();
        actions.retain(|action| !matches!(action, Action::RemoveGroup { group } if waiting.contains(group)));
        let mut run = Run {
            account: &self.account,
            name: &desired.name,
            uid: Some(&desired.owner.uid),
            removals: &self.removals,
            ledger: &self.ledger,
            handles: Handles::of(&observed),
        };
        let in_use = match run.all_but_in_use(&actions).await {
            Ok(in_use) => in_use,
            // What was seen is not what is: an answer was lost, a read was old, an instance stopped, or somebody else is at work.
            Err(error) if is_astray(&error) => {
                tracing::debug!(service = request.owner.key(), %error, "looks again");
                self.inventory.forget().await;
                self.backend.forget().await;
                return Ok(Pass::Astray(error));
            }
            Err(error) => {
                let own = observed.groups.values().find(|group| wants_group(&desired, &group.name));
                let group = own.map_or_else(|| run.handles.new_group(), |group| &group.id);
                if self.is_egress_denied(&error, group).await {
                    return Ok(Pass::Astray(error));
                }
                return Err(Failure { begun: true, error: failed(error) });
            }
        };
        let handles = run.handles;
        let settled = actions.is_empty() && before.is_none_or(|before| before.desired == desired);
        let looked = match before {
            Some(before) if depth != Depth::Everything => before.looked,
            _ => (!in_use).then(Instant::now),
        };
        self.ledger.settle(&desired);
        // A load balancer that has brought groups now may have been the last one with the shared group.
        self.retire_backend(&observed).await.map_err(failed)?;
        let done = Done { request: request.clone(), desired, existing, handles, looked };
        Ok(if settled { Pass::Settled(done) } else { Pass::Changed(done) })
    }

    async fn look(&self, kind: Kind, name: &str) -> Result<ObservedBalancer, AwsError> {
        Ok(match kind {
            Kind::Network => ObservedBalancer::Network(
                self.account.network.describe_load_balancers(Some(name)).await?.into_iter().next(),
            ),
            Kind::Classic | Kind::Elsewhere => {
                ObservedBalancer::Classic(self.account.classic.describe_classic(Some(name)).await?.into_iter().next())
            }
        })
    }

    /// What is refused wants nothing.
    async fn decide_or_abandon(
        &self,
        desired: &Desired,
        seen: &ObservedBalancer,
        depth: Depth,
    ) -> Result<(Observed, Vec<Action>), CloudError> {
        let decided = self.decide(desired, seen, depth).await;
        if matches!(decided, Err(CloudError::Refused(_))) {
            self.ledger.abandon(&desired.owner.uid);
        }
        decided
    }

    async fn decide(
        &self,
        desired: &Desired,
        seen: &ObservedBalancer,
        depth: Depth,
    ) -> Result<(Observed, Vec<Action>), CloudError> {
        let observed = self.observe(desired, seen, depth).await.map_err(failed)?;
        if depth == Depth::Everything {
            self.check_given(desired, &observed)?;
        }
        let others = self.ledger.others(Some(&desired.owner.uid));
        let actions = plan::plan(desired, &observed, &others, &self.settings.cluster).map_err(CloudError::Refused)?;
        Ok((observed, actions))
    }

    /// Where there is no load balancer of the wanted kind, one of the other kind is looked for.
    async fn observe(&self, desired: &Desired, seen: &ObservedBalancer, depth: Depth) -> Result<Observed, AwsError> {
        let (account, cluster) = (&self.account, &self.settings.cluster);
        match seen {
            ObservedBalancer::Network(seen) => {
                let mut observed = observe::network(account, cluster, desired, seen.clone(), depth).await?;
                if seen.is_none() {
                    let found = account.classic.describe_classic(Some(&desired.name)).await?.into_iter().next();
                    observed.classic = found.map(SeenClassic::bare);
                }
                Ok(observed)
            }
            ObservedBalancer::Classic(seen) => {
                let mut observed = observe::classic(account, cluster, desired, seen.clone(), depth).await?;
                if seen.is_none() {
                    let found = account.network.describe_load_balancers(Some(&desired.name)).await?.into_iter().next();
                    observed.network = found.map(SeenNetwork::bare);
                }
                Ok(observed)
            }
        }
    }

    /// Groups that are brought are there, in the VPC, and not made here; else nothing is begun.
    fn check_given(&self, desired: &Desired, observed: &Observed) -> Result<(), CloudError> {
        let Groups::Given(given) = &desired.groups else { return Ok(()) };
        let (cluster, annotation) = (&self.settings.cluster, annotations::name("security-groups"));
        for id in given {
            match observed.groups.get(id) {
                // It may have been made a moment ago, and not be shown yet.
                None => {
                    let advice = "give the id of a security group of the cluster's VPC";
                    let message = format!("{annotation}: {id} is not there; {advice}");
                    return Err(failed(AwsError::NotFound { kind: Missing::SecurityGroup, message }));
                }
                Some(group) if group.vpc != desired.vpc => {
                    return Err(CloudError::Refused(format!(
                        "{annotation}: security group {id} is in {}, and the load balancer in {}; bring one of that VPC",
                        group.vpc, desired.vpc
                    )));
                }
                Some(group) if group.name == cluster.backend_group() => {
                    return Err(CloudError::Refused(format!(
                        "{annotation}: security group {id} is the one that load balancers of this cluster share and goes with the last; bring one of your own"
                    )));
                }
                Some(group) => {
                    if let Some(service) = cluster.made_for(&group.name, &group.tags) {
                        return Err(CloudError::Refused(format!(
                            "{annotation}: security group {id} is the managed one of Service {service} and goes with it; bring one of your own"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether it may be gone with another look. A certificate that AWS does not know is not.
fn is_astray(error: &AwsError) -> bool {
    let given = matches!(error, AwsError::NotFound { kind: Missing::Certificate | Missing::Policy, .. });
    !given && (error.is_duplicate() || error.is_not_found() || error.is_invalid_target())
}

fn wants_group(desired: &Desired, name: &str) -> bool {
    matches!(&desired.groups, Groups::Managed(managed) if managed.name == name)
}

/// What there should be, whichever nodes there are.
pub(super) fn without_targets(desired: &Desired) -> Desired {
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
