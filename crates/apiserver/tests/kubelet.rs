//! Logs, streams and proxied requests, against a stand-in kubelet and over real sockets of both families.

#![allow(missing_docs, unreachable_pub, reason = "nobody outside uses a test")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "kubelet/lab.rs"]
mod lab;
#[path = "kubelet/logs.rs"]
mod logs;
#[path = "kubelet/proxied.rs"]
mod proxied;
#[path = "kubelet/standin.rs"]
mod standin;
#[path = "kubelet/streams.rs"]
mod streams;
