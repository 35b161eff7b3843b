//! The router: Routes and Ingresses, served by HAProxy.
//!
//! [`watch`] and [`secrets`] follow the objects, [`model`] decides what they mean, [`haproxy`] does it, [`run`] joins them, and [`status`]
//! tells the objects. [`settings`] is the environment, [`log_format`] what texts in it may say, [`serve`] health and metrics, [`counted`] what HAProxy counts.

mod counted;
mod default_certificate;
mod families;
mod files;
pub mod haproxy;
mod log;
pub(crate) mod log_format;
mod metrics;
pub mod model;
mod reachable;
mod run;
mod secrets;
mod select;
mod serve;
mod service_ca;
pub mod settings;
mod status;
pub(crate) mod text;
mod waiting;
mod watch;

pub use run::{RouterOptions, grace, start};
pub use select::Selector;
