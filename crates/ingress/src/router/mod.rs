//! The router: Routes and Ingresses, served by HAProxy.
//!
//! [`watch`] and [`secrets`] follow the objects, [`model`] decides what they mean, [`haproxy`] does it, [`run`] joins them, and [`status`]
//! tells the objects. [`settings`] is the environment, [`serve`] health and metrics, [`counted`] what HAProxy counts.

mod counted;
mod default_certificate;
mod families;
pub mod haproxy;
mod log;
mod metrics;
pub mod model;
mod reachable;
mod run;
mod secrets;
mod select;
mod serve;
pub mod settings;
mod status;
pub(crate) mod text;
mod waiting;
mod watch;

pub use run::{RouterOptions, grace, start};
pub use select::Selector;
