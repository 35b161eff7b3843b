//! From objects to what HAProxy should do, without any I/O.
//!
//! A Route or a path of an Ingress becomes a [`Claim`] ([`route`], [`ingress`]) or a [`Refusal`] that names the field.
//! Claims for the same host are put in order ([`elect`]); those that win lead to servers ([`endpoints`], [`weights`]).
//! [`Model`] keeps all of it and looks again only at what a change concerns.

mod certificate;
mod claim;
mod elect;
mod endpoints;
mod ingress;
mod maps;
mod options;
mod route;
mod state;
mod status;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod weights;

pub use certificate::Certificate;
pub(crate) use certificate::authorities;
pub use claim::{Age, Claim, Host, Id, Insecure, PathKind, PathMatch, Port, Refusal, Source, Target, Termination};
pub use endpoints::{Reaches, Server, Workload, is_usable};
pub(crate) use ingress::{is_ours as ingress_is_ours, is_taken as ingress_is_taken};
pub use maps::{Entries, Leads, Map};
pub use options::{Balance, HeaderRule, Limits, RouteOptions, SameSite};
pub(crate) use options::{Direction, header_rule};
pub(crate) use route::hostname;
pub use state::{Backend, Delta, Model, Objects};
pub use status::{admitted, route_ingress};
