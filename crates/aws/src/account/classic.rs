//! Classic load balancers: what the API of 2012-06-01 takes and tells.

use super::{Scheme, Tags};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A listener. One per `load_balancer_port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClassicListener {
    /// The port that clients use.
    pub load_balancer_port: u16,
    /// `TCP`, `SSL`, `HTTP` or `HTTPS`.
    pub protocol: String,
    /// The port on the instances.
    pub instance_port: u16,
    /// Protocol towards the instances.
    pub instance_protocol: String,
    /// ARN of the certificate.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// How instances are checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicHealthCheck {
    /// `TCP:30080`, `HTTP:30080/healthz`.
    pub target: String,
    /// Seconds between checks.
    pub interval: i32,
    /// Seconds to wait for the answer.
    pub timeout: i32,
    /// Successes in a row until it counts as healthy.
    pub healthy: i32,
    /// Failures in a row until it does not.
    pub unhealthy: i32,
}

/// Attributes of a classic load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassicAttributes {
    /// Whether each node of the load balancer uses instances of all zones.
    pub cross_zone: bool,
    /// Whether accesses are logged; bucket, prefix and interval are only sent with it.
    pub access_log: bool,
    /// Minutes between log files: 5 or 60.
    pub access_log_interval: Option<i32>,
    /// Bucket of the log files.
    pub access_log_bucket: Option<String>,
    /// Prefix in the bucket.
    pub access_log_prefix: Option<String>,
    /// Seconds that a leaving instance may finish, if it may.
    pub draining: Option<i32>,
    /// Seconds until an idle connection is closed.
    pub idle_timeout: i32,
}

impl Default for ClassicAttributes {
    fn default() -> Self {
        Self {
            cross_zone: false,
            access_log: false,
            access_log_interval: None,
            access_log_bucket: None,
            access_log_prefix: None,
            draining: None,
            idle_timeout: 60,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicPolicy {
    /// Its name, unique in the load balancer.
    pub name: String,
    /// `ProxyProtocolPolicyType`, `SSLNegotiationPolicyType`.
    pub kind: String,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicLoadBalancer {
    /// Its name, which is its id.
    pub name: String,
    /// Its host name.
    pub dns_name: String,
    /// The hosted zone of its host name.
    #[serde(default)]
    pub hosted_zone: String,
    pub vpc: String,
    /// Public or not.
    pub scheme: Scheme,
    /// Its listeners, by the clients' port.
    pub listeners: BTreeMap<u16, ClassicListener>,
    /// Policies of each listener.
    #[serde(default)]
    pub listener_policies: BTreeMap<u16, Vec<String>>,
    /// Policies of each instance port.
    #[serde(default)]
    pub backend_policies: BTreeMap<u16, Vec<String>>,
    /// Names of all policies it has (`OtherPolicies` and the like).
    #[serde(default)]
    pub policies: BTreeSet<String>,
    pub subnets: BTreeSet<String>,
    #[serde(default)]
    pub security_groups: BTreeSet<String>,
    #[serde(default)]
    pub instances: BTreeSet<String>,
    /// How instances are checked.
    pub health_check: Option<ClassicHealthCheck>,
}

/// `CreateLoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewClassicLoadBalancer {
    /// At most 32 letters, digits and hyphens.
    pub name: String,
    /// Public or not.
    pub scheme: Scheme,
    /// At least one.
    pub listeners: Vec<ClassicListener>,
    /// One per zone.
    pub subnets: BTreeSet<String>,
    /// Security group ids.
    pub security_groups: BTreeSet<String>,
    pub tags: Tags,
}
