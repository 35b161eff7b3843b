//! What managed groups let out where the role may not change it: upstream's policy lacks these two permissions. AWS's default stays, and is told.

use super::Aws;
use crate::{
    account::{AwsError, Direction, Peer, Protocol, Rule, Trial},
    model::{Desired, Groups, request::Note},
};
use net::{Cidr, Family};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// After how long it is tried again: the permission may have come.
const AGAIN: Duration = Duration::from_secs(3600);

/// The permission that is missing, and since when that is known.
pub(super) type DeniedEgress = Mutex<Option<(String, Instant)>>;

impl Aws {
    /// Whether a change of a group's egress was denied for good. A trial without effect tells that from a denial that passes.
    pub(super) async fn is_egress_denied(&self, error: &AwsError, group: &str) -> bool {
        let AwsError::Unauthorized { action, .. } = error else { return false };
        let everywhere = Cidr::containing(Family::V4.unspecified(), 0).filter(|_| !group.is_empty());
        let Some(everywhere) = everywhere.filter(|_| action.ends_with("SecurityGroupEgress")) else { return false };
        let rule = Rule { protocol: Protocol::All, peer: Peer::Cidr(everywhere), description: String::new() };
        let (rules, direction) = ([rule].into(), Direction::Egress);
        let trial = if action.contains("Revoke") {
            Trial::Revoke(group, direction, &rules)
        } else {
            Trial::Authorize(group, direction, &rules)
        };
        let denied = matches!(self.account.ec2.try_out(trial).await, Err(AwsError::Unauthorized { .. }));
        if denied {
            *self.denied_egress.lock() = Some((action.clone(), Instant::now()));
        }
        denied
    }

    /// Where it is known that egress cannot be changed, it is left as AWS makes it.
    pub(super) fn leave_denied_egress(&self, desired: &mut Desired) {
        let denied = self.denied_egress.lock().clone();
        let Some((action, _)) = denied.filter(|(_, since)| since.elapsed() < AGAIN) else { return };
        let Groups::Managed(managed) = &mut desired.groups else { return };
        if managed.egress.is_some() {
            managed.egress_denied = true;
            desired.notes.push(Note {
                reason: "EgressNotRestricted",
                message: format!(
                    "the controller's role lacks {action}: the load balancer's security group {} lets everything out, as AWS makes it; \
                     give the role the permission to have it restricted to the nodes",
                    managed.name
                ),
            });
        }
    }
}
