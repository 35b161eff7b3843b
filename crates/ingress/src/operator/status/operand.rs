//! The routers, whether they are Pods of a Deployment or a process, and their conditions.

use super::condition;
use api::config::OperatorCondition;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

/// What there is to see of routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// How many are wanted.
    pub wanted: i32,
    /// How many there are, of any generation.
    pub total: i32,
    /// Of these, of the newest generation.
    pub updated: i32,
    /// That answer.
    pub ready: i32,
    /// That have answered for long enough.
    pub available: i32,
    /// Whether there are enough, as the Deployment sees it; nothing while it has not said.
    pub is_available: Option<bool>,
    /// What there is to say about that.
    pub message: String,
    /// How many may be missing, and the value that could not be understood.
    pub may_miss: Result<i32, String>,
    /// Whether what was seen is about what was last written.
    pub is_current: bool,
    /// What the scheduler says of those that no node takes.
    pub homeless: Vec<String>,
    /// Why routers that answer do not serve all that they should, as far as they are asked.
    pub refusal: Option<String>,
}

impl Operand {
    /// Before there is anything.
    pub fn nothing(wanted: i32) -> Self {
        Self {
            wanted,
            total: 0,
            updated: 0,
            ready: 0,
            available: 0,
            is_available: None,
            message: "The routers are not there yet.".to_owned(),
            may_miss: Ok(0),
            is_current: false,
            homeless: Vec::new(),
            refusal: None,
        }
    }

    /// How many there must be; as many as wanted where that cannot be told.
    pub fn least(&self) -> i32 {
        self.wanted - self.may_miss.as_ref().copied().unwrap_or(0)
    }

    /// What a Deployment says of its Pods.
    pub fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone();
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = spec.replicas.unwrap_or(1);
        let rolling = spec.strategy.and_then(|strategy| strategy.rolling_update).unwrap_or_default();
        let may_miss =
            scaled(rolling.max_unavailable, wanted, false).map_err(|value| format!("maxUnavailable {value:?}"));
        let surge = scaled(rolling.max_surge, wanted, true).map_err(|value| format!("maxSurge {value:?}"));
        // As the Deployment controller has it: with no surge at all one must be missing.
        let may_miss = may_miss.and_then(|miss| Ok(if miss == 0 && surge? == 0 { 1 } else { miss }));
        let conditions = status.conditions.unwrap_or_default();
        let available = conditions.iter().find(|condition| condition.type_.as_deref() == Some("Available"));
        let text = |message: Option<&String>| message.cloned().unwrap_or_default();
        Self {
            wanted,
            total: status.replicas.unwrap_or(0),
            updated: status.updated_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            is_available: available.and_then(|condition| match condition.status.as_deref() {
                Some("True") => Some(true),
                Some("False") => Some(false),
                _ => None,
            }),
            message: text(available.and_then(|condition| condition.message.as_ref())),
            may_miss,
            is_current: status.observed_generation >= deployment.metadata.generation,
            homeless: Vec::new(),
            refusal: None,
        }
    }
}

/// What the scheduler says of a Pod that no node takes: `router-1: 0/3 nodes are available`.
pub fn homeless(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled")?;
    let is_homeless = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    is_homeless.then(|| format!("{}: {}", pod.name_any(), scheduled.message.as_deref().unwrap_or_default()))
}

/// A number, or per cent of `of`.
fn scaled(value: Option<IntOrString>, of: i32, up: bool) -> Result<i32, String> {
    match value {
        None => Ok(0),
        Some(IntOrString::Int(number)) => Ok(number),
        Some(IntOrString::String(text)) => {
            let share = text.strip_suffix('%').and_then(|share| share.parse::<i32>().ok()).ok_or(text)?;
            let (whole, rest) = (share.saturating_mul(of) / 100, share.saturating_mul(of) % 100);
            Ok(if up && rest > 0 { whole + 1 } else { whole })
        }
    }
}

/// What there is to say about them.
pub fn conditions(operand: &Operand) -> Vec<OperatorCondition> {
    let always = [available(operand), minimum(operand), all(operand), rolling_out(operand)];
    always.into_iter().chain(refused(operand)).collect()
}

/// There only while it holds: upstream has no such condition.
fn refused(operand: &Operand) -> Option<OperatorCondition> {
    let refusal = operand.refusal.as_ref()?;
    let message = format!("A router goes on with what it served before: {refusal}");
    Some(condition("ConfigurationAccepted", "False", "ConfigurationRefused", message))
}

fn available(operand: &Operand) -> OperatorCondition {
    let kind = "DeploymentAvailable";
    match operand.is_available {
        Some(true) => condition(kind, "True", "DeploymentAvailable", "There are enough routers."),
        Some(false) => {
            condition(kind, "False", "DeploymentUnavailable", format!("Too few routers: {}", operand.message))
        }
        None => condition(kind, "Unknown", "DeploymentAvailabilityUnknown", operand.message.clone()),
    }
}

fn minimum(operand: &Operand) -> OperatorCondition {
    let kind = "DeploymentReplicasMinAvailable";
    if let Err(value) = &operand.may_miss {
        let reason = match value.starts_with("maxSurge") {
            true => "InvalidMaxSurgeValue",
            false => "InvalidMaxUnavailableValue",
        };
        return condition(kind, "Unknown", reason, format!("The Deployment's {value} cannot be understood."));
    }
    let least = operand.least();
    if operand.available >= least {
        return condition(
            kind,
            "True",
            "DeploymentMinimumReplicasMet",
            "At least as many routers are available as must be.",
        );
    }
    let mut message = format!("{} of {} routers are available; {least} must be.", operand.available, operand.wanted);
    if !operand.homeless.is_empty() {
        message.push_str(&format!(
            " No node takes {}. Look at nodePlacement, and at the labels and taints of nodes.",
            operand.homeless.join("; ")
        ));
    }
    condition(kind, "False", "DeploymentMinimumReplicasNotMet", message)
}

fn all(operand: &Operand) -> OperatorCondition {
    let kind = "DeploymentReplicasAllAvailable";
    if operand.available >= operand.wanted {
        return condition(kind, "True", "DeploymentReplicasAvailable", "All routers are available.");
    }
    let message = format!("{} of {} routers are available.", operand.available, operand.wanted);
    condition(kind, "False", "DeploymentReplicasNotAvailable", message)
}

fn rolling_out(operand: &Operand) -> OperatorCondition {
    let kind = "DeploymentRollingOut";
    let Operand { wanted, total, updated, ready, available, is_current, .. } = operand;
    if !is_current || updated < wanted {
        let message = format!("{updated} of {wanted} routers are as they should be.");
        return condition(kind, "True", "DeploymentRollingOut", message);
    }
    if total > updated {
        let message = format!("{} old routers are still there.", total - updated);
        return condition(kind, "True", "DeploymentRollingOut", message);
    }
    if ready < wanted {
        let message = format!("{ready} of {wanted} routers are ready.");
        return condition(kind, "True", "PodsStarting", message);
    }
    if available < wanted {
        let message = format!("{available} of {wanted} routers have been ready for long enough.");
        return condition(kind, "True", "ReplicasStabilizing", message);
    }
    condition(kind, "False", "DeploymentNotRollingOut", "All routers are as they should be.")
}
