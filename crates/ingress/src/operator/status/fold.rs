//! Available, Progressing and Degraded out of the other conditions, as upstream folds them.
//!
//! A condition that is not there is skipped; one that presupposes others counts only while these are True.

use super::condition;
use api::config::OperatorCondition;
use jiff::Timestamp;
use std::time::Duration;

/// What it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// The three.
    pub conditions: Vec<OperatorCondition>,
    /// When a grace period ends, or when to look at what is degraded.
    pub look_again: Option<Duration>,
}

/// A condition that should have a status.
struct Expected {
    kind: &'static str,
    status: &'static str,
    /// These must be True for it to count.
    given: &'static [&'static str],
    /// Reasons that are fine all the same.
    except: &'static [&'static str],
    /// How long it may be otherwise.
    grace: Duration,
}

const fn expected(kind: &'static str, given: &'static [&'static str], grace: u64) -> Expected {
    Expected { kind, status: "True", given, except: &[], grace: Duration::from_secs(grace) }
}

const AVAILABLE: [Expected; 3] = [
    expected("DeploymentAvailable", &[], 0),
    expected("LoadBalancerReady", &["LoadBalancerManaged"], 0),
    expected("DNSReady", &["LoadBalancerManaged", "LoadBalancerReady", "DNSManaged"], 0),
];
const STILL: [Expected; 2] = [
    Expected {
        kind: "LoadBalancerProgressing",
        status: "False",
        given: &["LoadBalancerManaged"],
        except: &[],
        grace: Duration::ZERO,
    },
    Expected {
        kind: "DeploymentRollingOut",
        status: "False",
        given: &[],
        except: &["ReplicasStabilizing", "PodsStarting"],
        grace: Duration::ZERO,
    },
];
const SOUND: [Expected; 8] = [
    expected("Admitted", &[], 0),
    expected("ConfigurationAccepted", &[], 30),
    expected("DeploymentAvailable", &[], 30),
    expected("DeploymentReplicasMinAvailable", &[], 60),
    expected("DeploymentReplicasAllAvailable", &[], 3600),
    expected("LoadBalancerReady", &["LoadBalancerManaged"], 90),
    expected("DNSReady", &["LoadBalancerManaged", "LoadBalancerReady", "DNSManaged"], 30),
    expected("Reconciled", &[], 30),
];
/// Only the default IngressController is probed.
const PROBED: Expected = expected("CanaryChecksSucceeding", &[], 60);
/// How often what is degraded is looked at.
const DEGRADED: Duration = Duration::from_secs(60);

/// Folds conditions that have their times.
pub fn fold(all: &[OperatorCondition], is_default: bool, now: Timestamp) -> Folded {
    let unmet = |list: &[Expected]| -> Vec<OperatorCondition> {
        list.iter().filter_map(|expected| broken(all, expected)).cloned().collect()
    };
    let down = unmet(&AVAILABLE);
    let available = match down.is_empty() {
        true => condition("Available", "True", "IngressControllerAvailable", "Routers can be reached."),
        false => {
            let message = format!("One or more conditions say that it is not available: {}", joined(&down));
            condition("Available", "False", "IngressControllerUnavailable", message)
        }
    };
    let moving = unmet(&STILL);
    let progressing = match moving.is_empty() {
        true => condition("Progressing", "False", "IngressControllerNotProgressing", ""),
        false => {
            let message = format!("One or more conditions say that it is on its way: {}", joined(&moving));
            condition("Progressing", "True", "IngressControllerProgressing", message)
        }
    };
    let (mut bad, mut look_again) = (Vec::new(), None::<Duration>);
    for expected in SOUND.iter().chain(is_default.then_some(&PROBED)) {
        let Some(condition) = broken(all, expected) else { continue };
        let left = expected.grace.saturating_sub(since(condition, now));
        match left.is_zero() {
            true => bad.push(condition.clone()),
            false => look_again = Some(look_again.map_or(left, |known| known.min(left))),
        }
    }
    let degraded = match bad.is_empty() {
        true => condition("Degraded", "False", "IngressControllerNotDegraded", ""),
        false => {
            look_again = Some(look_again.map_or(DEGRADED, |known| known.min(DEGRADED)));
            let message = format!("One or more conditions say that it is degraded: {}", joined(&bad));
            condition("Degraded", "True", "DegradedConditions", message)
        }
    };
    Folded { conditions: vec![available, progressing, degraded], look_again }
}

fn broken<'a>(all: &'a [OperatorCondition], expected: &Expected) -> Option<&'a OperatorCondition> {
    let is_true = |kind: &&str| all.iter().any(|condition| condition.kind == *kind && condition.status == "True");
    let condition = all.iter().find(|condition| condition.kind == expected.kind)?;
    let counts = expected.given.iter().all(is_true) && !expected.except.contains(&condition.reason.as_str());
    (counts && condition.status != expected.status).then_some(condition)
}

fn since(condition: &OperatorCondition, now: Timestamp) -> Duration {
    let then: Timestamp = condition.last_transition_time.parse().unwrap_or(now);
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

fn joined(list: &[OperatorCondition]) -> String {
    let one = |condition: &OperatorCondition| {
        let OperatorCondition { kind, status, reason, message, .. } = condition;
        format!("{kind}={status} ({reason}: {message})")
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}
