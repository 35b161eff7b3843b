//! AWS: load balancers of Services with their security groups, and DNS records.

pub mod account;
