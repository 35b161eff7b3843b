//! The real AWS, or whatever stands at its endpoints: clients of the few calls that are needed.
//!
//! A [`Session`] knows the region, the credentials and where each API is, and makes the account of its clients. `query` speaks the protocol of EC2, load
//! balancers and STS, `route53` that of Route53; both send through `api`, which signs, and `caller`: rate limit, retries, metrics, log. Why
//! not the SDK: docs/adr/0010-one-way-to-aws.md.

pub mod actions;
mod api;
mod bucket;
mod caller;
mod classic;
mod clock;
mod credentials;
mod discover;
mod ec2;
mod elbv2;
mod environment;
mod failure;
mod http;
mod metadata;
mod paging;
mod partition;
mod profile;
mod query;
pub(crate) mod role;
pub(crate) mod route53;
mod session;
mod sign;
mod tags;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod xml;

pub use discover::{DiscoverError, Found, discover};
pub use session::{Keys, OpenError, Session};
#[doc(hidden)]
pub use xml::is_answer;
