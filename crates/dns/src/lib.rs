//! A DNS server that executes Corefiles.
//!
//! [`wire`] is the protocol and [`corefile`] the language, both pure. A Corefile becomes server blocks, each a chain of
//! [`plugin`]s in a fixed order; [`server`] feeds them packets, one thread and one socket per core.

pub mod cache;
pub mod chain;
pub mod compile;
pub mod corefile;
mod fetch;
mod follow;
mod hash;
pub mod metrics;
pub mod observe;
pub mod operator;
pub mod plugin;
pub mod query;
mod random;
pub mod routes;
pub mod server;
mod sha512;
#[cfg(test)]
mod testing;
mod text;
pub mod wire;
mod zones;

/// So that tests can show which paths do not allocate.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: kernel::allocations::Counting = kernel::allocations::Counting;
