//! What an admitted IngressController comes to, as objects. Pure: everything that is observed is an argument.

pub mod balancer;
#[cfg(test)]
mod balancer_tests;
pub mod change;
#[cfg(test)]
mod change_tests;
pub mod class;
pub mod deployment;
pub mod environment;
pub mod live;
pub mod progress;
#[cfg(test)]
mod progress_tests;
pub mod proxy_protocol;
pub mod record;
#[cfg(test)]
mod router_tests;
pub mod services;
pub mod small;
#[cfg(test)]
mod tests;
pub mod tls;

use super::{admit::Admission, cluster::Cluster, names::Names, objects::IngressController};

/// What every plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub controller: &'a IngressController,
    /// What it was admitted as.
    pub admission: &'a Admission,
    /// The cluster's configuration.
    pub cluster: &'a Cluster,
    /// Names of what belongs to it.
    pub names: &'a Names,
}
