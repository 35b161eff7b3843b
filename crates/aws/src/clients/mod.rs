//! The real AWS: [`RealAccount`] asks for load balancers, security groups, nodes and routes; [`Route53`] for DNS records.
//!
//! A [`Session`] knows the region, the credentials and where each API is. ELBv2, classic load balancers and Route53 are asked through the
//! official SDK; EC2 and STS through `query`, a client of the few calls that are needed (the SDK for EC2 is larger than everything else
//! here together). Every attempt of every call passes `caller`: rate limit, retries, metrics, log. Types of the SDK stay in here.

mod account;
pub mod actions;
mod bucket;
mod caller;
mod classic;
mod clock;
mod credentials;
mod discover;
mod ec2;
mod elbv2;
mod failure;
mod paging;
mod place;
mod query;
mod role;
mod route53;
mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod xml;

pub use account::RealAccount;
pub use discover::{DiscoverError, Found, discover};
pub use route53::Route53;
pub use session::{Keys, OpenError, Session};
#[doc(hidden)]
pub use xml::is_answer;
