//! The kit that operators are made of, beside [`controller`](crate::controller).
//!
//! - [`Custom`]: an object of a custom resource, typed by its spec.
//! - [`definitions`]: the definitions that an operator needs, made or brought up to date, and served.
//! - [`discovery`]: which kinds this cluster has, asked again while the operator runs.
//! - [`Children`]: the objects that an operator owns, written only where they differ.
//!
//! All of it works on JSON values and is compiled once, whatever the kinds are; what is generic only converts.

mod children;
mod custom;
pub mod definitions;
mod difference;
pub mod discovery;

pub use children::Children;
pub use custom::{
    Custom, DnsConfig, DnsRecord, FeatureGate, Infrastructure, IngressConfig, IngressController, KubeScope, Network,
    OperatorDns, Route,
};
pub use difference::{contains, fingerprint};
pub use discovery::{Discovery, Served};
