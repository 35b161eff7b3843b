//! `twinstack dns` and its operator.

mod coredns;
mod operator;
mod server;
