//! The kit of `runtime::controller` with the options of these controllers. Each room has its own part of them.

pub use runtime::controller::{
    Change, Error, Events, Index, Key, Next, Queue, Reconcile, Result, Selection, Store, Subscription, matches_labels,
    reference, selects, start, work,
};

use crate::{
    autoscaler, certificates, endpointslice, hollow, housekeeping, mirroring, node_ipam, quota, routes, service_lb,
    storage,
};

/// Options of all controllers; the defaults are upstream's.
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// EndpointSlices, and how many Services are worked on at a time.
    pub endpointslice: endpointslice::EndpointSliceOptions,
    /// Mirrored slices.
    pub mirroring: mirroring::MirroringOptions,
    /// Pod CIDRs of nodes.
    pub node_ipam: node_ipam::NodeIpamOptions,
    /// Load balancers.
    pub service_lb: service_lb::ServiceLbOptions,
    /// Routes of a cloud.
    pub routes: routes::RouteControllerOptions,
    /// Signers of certificates.
    pub certificates: certificates::CertificateOptions,
    /// Volumes.
    pub storage: storage::StorageOptions,
    /// Hollow nodes.
    pub hollow: hollow::HollowOptions,
    /// Namespaces, owners, nodes and their like.
    pub housekeeping: housekeeping::HousekeepingOptions,
    /// Autoscalers.
    pub autoscaler: autoscaler::AutoscalerOptions,
    /// Quotas.
    pub quota: quota::QuotaOptions,
}

/// What a controller of this crate is given.
pub type Context = runtime::controller::Context<ControllerOptions>;
/// A controller of this crate.
pub type Controller = runtime::controller::Controller<ControllerOptions>;
