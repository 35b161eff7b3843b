//! Attributes of classic load balancers.

use super::{Classic, unfinished};
use crate::{
    account::{AwsError, ClassicAttributes},
    clients::actions,
};
use aws_sdk_elasticloadbalancing::types as sdk;

impl Classic {
    pub(in crate::clients) async fn describe_attributes(&self, name: &str) -> Result<ClassicAttributes, AwsError> {
        let request = self.client.describe_load_balancer_attributes().load_balancer_name(name);
        let answer = self.caller.sdk(actions::DESCRIBE_LOAD_BALANCER_ATTRIBUTES, || request.clone().send()).await?;
        Ok(answer.load_balancer_attributes.map(attributes).unwrap_or_default())
    }

    pub(in crate::clients) async fn modify_attributes(
        &self,
        name: &str,
        set: &ClassicAttributes,
    ) -> Result<(), AwsError> {
        let request =
            self.client.modify_load_balancer_attributes().load_balancer_name(name).load_balancer_attributes(to(set)?);
        self.caller.sdk(actions::MODIFY_LOAD_BALANCER_ATTRIBUTES, || request.clone().send()).await.map(drop)
    }
}

fn attributes(from: sdk::LoadBalancerAttributes) -> ClassicAttributes {
    let log = from.access_log.filter(|log| log.enabled);
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    ClassicAttributes {
        cross_zone: from.cross_zone_load_balancing.is_some_and(|cross| cross.enabled),
        access_log: log.is_some(),
        access_log_interval: log.as_ref().and_then(|log| log.emit_interval),
        access_log_bucket: text(log.as_ref().and_then(|log| log.s3_bucket_name.clone())),
        access_log_prefix: text(log.and_then(|log| log.s3_bucket_prefix)),
        draining: from.connection_draining.filter(|draining| draining.enabled).map(|one| one.timeout.unwrap_or(300)),
        idle_timeout: from.connection_settings.map_or(60, |settings| settings.idle_timeout),
    }
}

fn to(set: &ClassicAttributes) -> Result<sdk::LoadBalancerAttributes, AwsError> {
    let log = sdk::AccessLog::builder().enabled(set.access_log);
    let log = if set.access_log {
        log.set_emit_interval(set.access_log_interval)
            .set_s3_bucket_name(set.access_log_bucket.clone())
            .set_s3_bucket_prefix(set.access_log_prefix.clone())
    } else {
        log
    };
    let draining = sdk::ConnectionDraining::builder().enabled(set.draining.is_some()).set_timeout(set.draining);
    let idle = sdk::ConnectionSettings::builder().idle_timeout(set.idle_timeout).build().map_err(unfinished)?;
    Ok(sdk::LoadBalancerAttributes::builder()
        .cross_zone_load_balancing(sdk::CrossZoneLoadBalancing::builder().enabled(set.cross_zone).build())
        .access_log(log.build())
        .connection_draining(draining.build())
        .connection_settings(idle)
        .build())
}
