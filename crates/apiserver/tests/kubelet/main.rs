//! Logs, streams and proxied requests, against a stand-in kubelet and over real sockets of both families.

#![allow(unreachable_pub, reason = "nobody outside uses a test")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lab;
mod logs;
mod proxied;
mod standin;
mod streams;
