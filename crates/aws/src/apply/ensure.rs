//! A Service gets what it asks for: passes until nothing is to be done, and the short way when only nodes have changed.

use super::{
    Aws, IN_USE,
    execute::{Handles, Run},
    failed, observe,
    pass::{Ask, Done, Failure, Pass, without_targets},
};
use crate::{
    account::Target,
    model::{Balancer, request::Note},
    plan,
};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::CloudError;
use std::{collections::BTreeSet, sync::Arc};

/// How often AWS is looked at until it shows what was set.
const LOOKS: usize = 4;

impl Aws {
    pub(super) async fn ensure_one(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Handles, CloudError> {
        let ask = self.ask(service, nodes)?;
        self.reach(&ask).await
    }

    /// Brings about what is asked for. What was accepted before is remembered while nothing else is begun.
    pub(super) async fn reach(&self, ask: &Ask<'_>) -> Result<Handles, CloudError> {
        let before = self.done.lock().remove(&ask.request.owner.uid);
        let reported = before.as_ref().map(|before| before.desired.notes.clone()).unwrap_or_default();
        match self.passes(ask, before.as_ref()).await {
            Ok(done) => Ok(self.keep(ask.service, &reported, done)),
            Err(failure) => {
                if let Some(before) = before.filter(|_| !failure.begun) {
                    self.done.lock().insert(ask.request.owner.uid.clone(), before);
                }
                Err(failure.error)
            }
        }
    }

    /// Passes until one finds nothing to do: AWS may show what was true a moment ago, so a change is looked at once more.
    async fn passes(&self, ask: &Ask<'_>, before: Option<&Done>) -> Result<Done, Failure> {
        let mut changed = None;
        let mut astray = None;
        for look in 0..LOOKS {
            let pass = self.pass(ask, before.filter(|_| look == 0)).await;
            match pass.map_err(|failure| Failure { begun: look > 0 || failure.begun, ..failure })? {
                Pass::Settled(done) => return Ok(done),
                Pass::Changed(done) => changed = Some(done),
                Pass::Astray(error) => {
                    changed = None;
                    astray = Some(error);
                }
            }
        }
        match (changed, astray) {
            (Some(done), _) => {
                tracing::warn!(service = ask.request.owner.key(), "AWS shows other than what was set; taken as it is");
                Ok(done)
            }
            (None, Some(error)) => Err(Failure { begun: true, error: failed(error) }),
            (None, None) => {
                let error = CloudError::Later { reason: "AWS does not settle".to_owned(), after: IN_USE };
                Err(Failure { begun: true, error })
            }
        }
    }

    /// Remembers what was seen through, and tells what was not told before.
    fn keep(&self, service: &Service, reported: &[Note], done: Done) -> Handles {
        let (uid, handles) = (done.desired.owner.uid.clone(), done.handles.clone());
        let new = done.desired.notes.iter().filter(|note| !reported.contains(note));
        if let Some(reporter) = self.reporter.get() {
            new.for_each(|note| reporter(service, note));
        }
        self.conditions.set(service, &done.desired.notes);
        self.done.lock().insert(uid, done);
        handles
    }

    /// Only the targets, with what was seen through before; `None` when more has changed.
    pub(super) async fn retarget(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Option<()>, CloudError> {
        let ask = self.ask(service, nodes)?;
        let Some(before) = self.done.lock().get(&ask.request.owner.uid).cloned() else { return Ok(None) };
        let Balancer::Network(network) = &before.desired.balancer else { return Ok(None) };
        let Some(existing) = &before.existing else { return Ok(None) };
        let desired = self.desired(&ask, Some(existing)).await?;
        if without_targets(&desired) != without_targets(&before.desired) {
            return Ok(None);
        }
        let Balancer::Network(wanted) = &desired.balancer else { return Ok(None) };
        let mut actions = Vec::new();
        for (listener, old) in wanted.listeners.iter().zip(&network.listeners) {
            let Some((name, arn)) = serving(&before.handles, &listener.target.name) else { return Ok(None) };
            let seen = match observe::targets(&self.account, arn).await {
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
            account: &self.account,
            name: &desired.name,
            uid: Some(&desired.owner.uid),
            removals: &self.removals,
            ledger: &self.ledger,
            handles: before.handles.clone(),
        };
        match run.all(&actions).await {
            Err(error) if error.is_not_found() || error.is_invalid_target() => return Ok(None),
            outcome => outcome.map_err(failed)?,
        }
        let reported = before.desired.notes.clone();
        self.keep(service, &reported, Done { desired, ..before });
        Ok(Some(()))
    }
}

fn serving<'a>(handles: &'a Handles, name: &str) -> Option<(&'a str, &'a str)> {
    handles.target_groups.get_key_value(name).map(|(name, arn)| (name.as_str(), arn.as_str()))
}
