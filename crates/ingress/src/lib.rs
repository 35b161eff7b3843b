//! Ingress: the operator that makes routers, and the router that drives HAProxy.

pub mod operator;
pub mod router;
