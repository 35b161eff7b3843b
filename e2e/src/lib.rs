//! Black-box tests: the real binary with its real neighbours (kubectl, etcd), as a user runs them.
//!
//! This library starts and stops things; the tests are in `tests/`, one program per topic. Everything that is started ends with
//! its handle, also when a test fails.
//!
//! Tests of a program run side by side, one per core: each has ports, folders and namespaces of its own.

pub mod account;
pub mod aws_strict;
mod binary;
pub mod definition;
pub mod dns;
mod etcd;
pub mod haproxy;
mod kube_apiserver;
mod kubectl;
pub mod node_lab;
mod port;
mod process;
pub mod proxy_lab;
mod server;
pub mod webhook;

pub use binary::{run, twinstack};
pub use etcd::Etcd;
pub use kube_apiserver::{KubeApiserver, words as kube_apiserver_words};
pub use kubectl::{Kubectl, Output};
pub use port::free_port;
pub use process::{Process, Usage, wait_for};
pub use server::Server;

use std::io::Write;

/// What the ingress operator defines. Tests ask by these paths whether it is served: before kubectl looks for a kind that is not there, it asks for
/// everything that is.
pub const INGRESS_LISTS: [&str; 7] = [
    "config.openshift.io/v1/dnses",
    "config.openshift.io/v1/infrastructures",
    "config.openshift.io/v1/ingresses",
    "config.openshift.io/v1/networks",
    "ingress.operator.openshift.io/v1/dnsrecords",
    "operator.openshift.io/v1/ingresscontrollers",
    "route.openshift.io/v1/routes",
];

/// Notes that a test could not run here, and how it could. In CI that is a failure.
pub fn skip(what: &str, enable: &str) {
    let line = format!("{what}: skipped; to run it: {enable}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "in CI no test may be skipped: {line}");
    eprintln!("SKIP {line}");
    if let Ok(path) = std::env::var("TWINSTACK_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        // The list is for people; the test itself has already said so.
        let _ = writeln!(file, "{line}");
    }
}
