//! Target groups and their targets.

use super::{Elbv2Client, form};
use crate::{
    account::{AwsError, HealthCheck, NewTargetGroup, Target, TargetGroup, TargetHealth},
    clients::{actions, query::Form, xml::Element},
};
use net::Family;
use std::collections::BTreeSet;

/// Targets that one call takes.
const TARGETS: usize = 100;

impl Elbv2Client {
    pub(super) async fn register(&self, arn: &str, targets: &BTreeSet<Target>) -> Result<(), AwsError> {
        let targets: Vec<&Target> = targets.iter().collect();
        for some in targets.chunks(TARGETS) {
            self.query.change(actions::REGISTER_TARGETS, targets_form(arn, some)).await?;
        }
        Ok(())
    }

    pub(super) async fn deregister(&self, arn: &str, targets: &BTreeSet<Target>) -> Result<(), AwsError> {
        let targets: Vec<&Target> = targets.iter().collect();
        for some in targets.chunks(TARGETS) {
            match self.query.change(actions::DEREGISTER_TARGETS, targets_form(arn, some)).await {
                Err(error) if is_invalid_target(&error) => self.deregister_each(arn, some).await?,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// One target that is not registered must not keep the others.
    async fn deregister_each(&self, arn: &str, targets: &[&Target]) -> Result<(), AwsError> {
        for target in targets {
            match self.query.change(actions::DEREGISTER_TARGETS, targets_form(arn, &[target])).await {
                Err(error) if is_invalid_target(&error) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

fn is_invalid_target(error: &AwsError) -> bool {
    matches!(error, AwsError::Invalid { code, .. } if code == "InvalidTarget")
}

fn targets_form(arn: &str, targets: &[&Target]) -> Form {
    let mut form = form("TargetGroupArn", arn);
    for (number, target) in (1..).zip(targets) {
        form.set(format!("Targets.member.{number}.Id"), &target.instance);
        form.set(format!("Targets.member.{number}.Port"), target.port.to_string());
    }
    form
}

pub(super) fn new_form(new: &NewTargetGroup) -> Form {
    let NewTargetGroup { name, protocol, port, vpc, family, health_check: check, tags } = new;
    let mut form = form("Name", name);
    form.set("Protocol", protocol);
    form.set("Port", port.to_string());
    form.set("VpcId", vpc);
    form.set("TargetType", "instance");
    form.set(
        "IpAddressType",
        match family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        },
    );
    health_check(&mut form, check);
    form.tags("Tags.member", tags);
    form
}

pub(super) fn health_check(form: &mut Form, check: &HealthCheck) {
    let HealthCheck { protocol, port, path, interval, timeout, healthy, unhealthy } = check;
    form.set("HealthCheckEnabled", "true");
    form.set("HealthCheckProtocol", protocol);
    form.set("HealthCheckPort", port);
    form.some("HealthCheckPath", path.as_ref());
    form.set("HealthCheckIntervalSeconds", interval.to_string());
    form.some("HealthCheckTimeoutSeconds", *timeout);
    form.set("HealthyThresholdCount", healthy.to_string());
    form.set("UnhealthyThresholdCount", unhealthy.to_string());
}

pub(super) fn read_health(from: &Element) -> Option<TargetHealth> {
    let target = from.child("Target")?;
    let (state, reason) = (from.text(&["TargetHealth", "State"]), from.text(&["TargetHealth", "Reason"]));
    let draining = ["draining", "unhealthy.draining"].contains(&state) || reason == "Target.DeregistrationInProgress";
    let target = Target { instance: target.some("Id")?, port: target.parsed("Port").unwrap_or(0) };
    Some(TargetHealth { target, draining })
}

pub(super) fn read(from: &Element) -> TargetGroup {
    let text = |name: &str| from.text(&[name]).to_owned();
    let check = text("HealthCheckProtocol");
    TargetGroup {
        arn: text("TargetGroupArn"),
        name: text("TargetGroupName"),
        protocol: text("Protocol"),
        port: from.parsed("Port").unwrap_or(0),
        vpc: text("VpcId"),
        family: match from.text(&["IpAddressType"]) {
            "ipv6" => Family::V6,
            _ => Family::V4,
        },
        health_check: HealthCheck {
            port: text("HealthCheckPort"),
            path: from.some("HealthCheckPath").filter(|_| check.starts_with("HTTP")),
            interval: from.parsed("HealthCheckIntervalSeconds").unwrap_or(0),
            timeout: from.parsed("HealthCheckTimeoutSeconds"),
            healthy: from.parsed("HealthyThresholdCount").unwrap_or(0),
            unhealthy: from.parsed("UnhealthyThresholdCount").unwrap_or(0),
            protocol: check,
        },
        load_balancers: from.texts("LoadBalancerArns"),
    }
}
