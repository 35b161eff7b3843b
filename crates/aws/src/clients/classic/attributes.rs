//! Attributes of classic load balancers.

use crate::{
    account::ClassicAttributes,
    clients::{query::Form, xml::Element},
};

pub(super) fn read(from: &Element) -> ClassicAttributes {
    let on = |name: &&Element| name.text(&["Enabled"]) == "true";
    let log = from.child("AccessLog").filter(on);
    ClassicAttributes {
        cross_zone: from.child("CrossZoneLoadBalancing").filter(on).is_some(),
        access_log: log.is_some(),
        access_log_interval: log.and_then(|log| log.parsed("EmitInterval")),
        access_log_bucket: log.and_then(|log| log.some("S3BucketName")),
        access_log_prefix: log.and_then(|log| log.some("S3BucketPrefix")),
        draining: from.child("ConnectionDraining").filter(on).map(|one| one.parsed("Timeout").unwrap_or(300)),
        idle_timeout: from.child("ConnectionSettings").and_then(|one| one.parsed("IdleTimeout")).unwrap_or(60),
    }
}

pub(super) fn write(form: &mut Form, set: &ClassicAttributes) {
    let key = |name: &str| format!("LoadBalancerAttributes.{name}");
    form.set(key("CrossZoneLoadBalancing.Enabled"), set.cross_zone.to_string());
    form.set(key("AccessLog.Enabled"), set.access_log.to_string());
    if set.access_log {
        form.some(&key("AccessLog.S3BucketName"), set.access_log_bucket.as_ref());
        form.some(&key("AccessLog.EmitInterval"), set.access_log_interval);
        form.some(&key("AccessLog.S3BucketPrefix"), set.access_log_prefix.as_ref());
    }
    form.set(key("ConnectionDraining.Enabled"), set.draining.is_some().to_string());
    form.some(&key("ConnectionDraining.Timeout"), set.draining);
    form.set(key("ConnectionSettings.IdleTimeout"), set.idle_timeout.to_string());
}
