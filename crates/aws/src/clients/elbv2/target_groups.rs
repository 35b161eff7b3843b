//! Target groups and their targets.

use super::{Elbv2, gone, missing, to_tags};
use crate::{
    account::{
        Attributes, AwsError, HealthCheck, NewTargetGroup, Target, TargetGroup, TargetGroupFilter, TargetHealth,
    },
    clients::{actions, paging::Marker},
};
use aws_sdk_elasticloadbalancingv2::types as sdk;
use net::Family;
use std::collections::BTreeSet;

/// Targets that one call takes.
const TARGETS: usize = 100;

impl Elbv2 {
    pub(in crate::clients) async fn describe_target_groups(
        &self,
        filter: TargetGroupFilter<'_>,
    ) -> Result<Vec<TargetGroup>, AwsError> {
        let of = match filter {
            TargetGroupFilter::All => None,
            TargetGroupFilter::Of(arn) => Some(arn.to_owned()),
        };
        let request = self.client.describe_target_groups().set_load_balancer_arn(of);
        let (mut all, mut marker) = (Vec::new(), Marker::default());
        loop {
            let send = || request.clone().set_marker(marker.current()).send();
            let page = match self.caller.sdk(actions::DESCRIBE_TARGET_GROUPS, send).await {
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                outcome => outcome?,
            };
            all.extend(page.target_groups.into_iter().flatten().map(target_group));
            if !marker.advance(page.next_marker)? {
                return Ok(all);
            }
        }
    }

    pub(in crate::clients) async fn create_target_group(&self, new: &NewTargetGroup) -> Result<TargetGroup, AwsError> {
        let NewTargetGroup { name, protocol, port, vpc, family, health_check, tags } = new;
        let request = self
            .client
            .create_target_group()
            .name(name)
            .protocol(protocol.as_str().into())
            .port((*port).into())
            .vpc_id(vpc)
            .target_type(sdk::TargetTypeEnum::Instance)
            .ip_address_type(match family {
                Family::V4 => sdk::TargetGroupIpAddressTypeEnum::Ipv4,
                Family::V6 => sdk::TargetGroupIpAddressTypeEnum::Ipv6,
            })
            .health_check_enabled(true)
            .health_check_protocol(health_check.protocol.as_str().into())
            .health_check_port(&health_check.port)
            .set_health_check_path(health_check.path.clone())
            .health_check_interval_seconds(health_check.interval)
            .set_health_check_timeout_seconds(health_check.timeout)
            .healthy_threshold_count(health_check.healthy)
            .unhealthy_threshold_count(health_check.unhealthy)
            .set_tags(to_tags(tags));
        let answer = self.caller.sdk(actions::CREATE_TARGET_GROUP, || request.clone().send()).await?;
        let made = answer.target_groups.into_iter().flatten().next();
        made.map(target_group).ok_or_else(|| missing("CreateTargetGroup"))
    }

    pub(in crate::clients) async fn modify_target_group(&self, arn: &str, check: &HealthCheck) -> Result<(), AwsError> {
        let request = self
            .client
            .modify_target_group()
            .target_group_arn(arn)
            .health_check_enabled(true)
            .health_check_protocol(check.protocol.as_str().into())
            .health_check_port(&check.port)
            .set_health_check_path(check.path.clone())
            .health_check_interval_seconds(check.interval)
            .set_health_check_timeout_seconds(check.timeout)
            .healthy_threshold_count(check.healthy)
            .unhealthy_threshold_count(check.unhealthy);
        self.caller.sdk(actions::MODIFY_TARGET_GROUP, || request.clone().send()).await.map(drop)
    }

    pub(in crate::clients) async fn delete_target_group(&self, arn: &str) -> Result<(), AwsError> {
        let request = self.client.delete_target_group().target_group_arn(arn);
        gone(self.caller.sdk(actions::DELETE_TARGET_GROUP, || request.clone().send()).await)
    }

    pub(in crate::clients) async fn describe_target_group_attributes(&self, arn: &str) -> Result<Attributes, AwsError> {
        let request = self.client.describe_target_group_attributes().target_group_arn(arn);
        let answer = self.caller.sdk(actions::DESCRIBE_TARGET_GROUP_ATTRIBUTES, || request.clone().send()).await?;
        let all = answer.attributes.into_iter().flatten();
        Ok(all.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    pub(in crate::clients) async fn modify_target_group_attributes(
        &self,
        arn: &str,
        set: &Attributes,
    ) -> Result<(), AwsError> {
        let attribute =
            |(key, value): (&String, &String)| sdk::TargetGroupAttribute::builder().key(key).value(value).build();
        let request = self
            .client
            .modify_target_group_attributes()
            .target_group_arn(arn)
            .set_attributes(Some(set.iter().map(attribute).collect()));
        self.caller.sdk(actions::MODIFY_TARGET_GROUP_ATTRIBUTES, || request.clone().send()).await.map(drop)
    }

    pub(in crate::clients) async fn describe_target_health(&self, arn: &str) -> Result<Vec<TargetHealth>, AwsError> {
        let request = self.client.describe_target_health().target_group_arn(arn);
        let answer = self.caller.sdk(actions::DESCRIBE_TARGET_HEALTH, || request.clone().send()).await?;
        Ok(answer.target_health_descriptions.into_iter().flatten().filter_map(target_health).collect())
    }

    pub(in crate::clients) async fn register_targets(
        &self,
        arn: &str,
        targets: &BTreeSet<Target>,
    ) -> Result<(), AwsError> {
        for some in descriptions(targets).chunks(TARGETS) {
            let request = self.client.register_targets().target_group_arn(arn).set_targets(Some(some.to_vec()));
            self.caller.sdk(actions::REGISTER_TARGETS, || request.clone().send()).await?;
        }
        Ok(())
    }

    pub(in crate::clients) async fn deregister_targets(
        &self,
        arn: &str,
        targets: &BTreeSet<Target>,
    ) -> Result<(), AwsError> {
        for some in descriptions(targets).chunks(TARGETS) {
            match self.deregister(arn, some).await {
                Err(error) if is_invalid_target(&error) => self.deregister_each(arn, some).await?,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    async fn deregister(&self, arn: &str, targets: &[sdk::TargetDescription]) -> Result<(), AwsError> {
        let request = self.client.deregister_targets().target_group_arn(arn).set_targets(Some(targets.to_vec()));
        self.caller.sdk(actions::DEREGISTER_TARGETS, || request.clone().send()).await.map(drop)
    }

    /// One target that is not registered must not keep the others.
    async fn deregister_each(&self, arn: &str, targets: &[sdk::TargetDescription]) -> Result<(), AwsError> {
        for target in targets {
            match self.deregister(arn, std::slice::from_ref(target)).await {
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

fn descriptions(targets: &BTreeSet<Target>) -> Vec<sdk::TargetDescription> {
    let one = |target: &Target| sdk::TargetDescription::builder().id(&target.instance).port(target.port.into()).build();
    targets.iter().map(one).collect()
}

fn port(number: Option<i32>) -> u16 {
    number.and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

fn target_health(from: sdk::TargetHealthDescription) -> Option<TargetHealth> {
    let target = from.target?;
    let health = from.target_health;
    let state = health.as_ref().and_then(|health| health.state.clone());
    let reason = health.and_then(|health| health.reason);
    let draining =
        matches!(state, Some(sdk::TargetHealthStateEnum::Draining | sdk::TargetHealthStateEnum::UnhealthyDraining))
            || reason == Some(sdk::TargetHealthReasonEnum::DeregistrationInProgress);
    Some(TargetHealth { target: Target { instance: target.id?, port: port(target.port) }, draining })
}

fn target_group(from: sdk::TargetGroup) -> TargetGroup {
    let check = from.health_check_protocol.map(|protocol| protocol.as_str().to_owned()).unwrap_or_default();
    TargetGroup {
        arn: from.target_group_arn.unwrap_or_default(),
        name: from.target_group_name.unwrap_or_default(),
        protocol: from.protocol.map(|protocol| protocol.as_str().to_owned()).unwrap_or_default(),
        port: port(from.port),
        vpc: from.vpc_id.unwrap_or_default(),
        family: match from.ip_address_type {
            Some(sdk::TargetGroupIpAddressTypeEnum::Ipv6) => Family::V6,
            _ => Family::V4,
        },
        health_check: HealthCheck {
            port: from.health_check_port.unwrap_or_default(),
            path: from.health_check_path.filter(|_| check.starts_with("HTTP")),
            interval: from.health_check_interval_seconds.unwrap_or(0),
            timeout: from.health_check_timeout_seconds,
            healthy: from.healthy_threshold_count.unwrap_or(0),
            unhealthy: from.unhealthy_threshold_count.unwrap_or(0),
            protocol: check,
        },
        load_balancers: from.load_balancer_arns.into_iter().flatten().collect(),
    }
}
