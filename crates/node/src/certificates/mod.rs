//! Certificates of a node: asked of the cluster by request, kept in `--cert-dir` under upstream's names, and replaced before they run out.
//!
//! `bootstrap` turns the right to ask (`--bootstrap-kubeconfig`) into a kubeconfig of the node's own, `rotate` keeps what the kubelet shows to the
//! API server and to its own clients fresh, `request` asks, `files` keeps. Whoever is killed in between goes on where it was: the key is
//! kept before anything is asked, and the name of a request follows from key and wish.

mod bootstrap;
mod files;
mod request;
mod rotate;

pub use bootstrap::{Bootstrap, bootstrap};
pub use files::Files;
pub use request::CertificateError;
pub use rotate::{ClientRotation, Rotation, ServingRotation};

use runtime::pki::Wish;
use std::net::IpAddr;

/// What a kubelet is to the API server.
fn client_wish(node: &str) -> Wish {
    Wish { user: format!("system:node:{node}"), group: "system:nodes".to_owned(), ..Wish::default() }
}

/// What a kubelet is to those who ask it.
fn serving_wish(node: &str, hostname: &str, addresses: &[IpAddr]) -> Wish {
    Wish { names: vec![hostname.to_owned()], addresses: addresses.to_vec(), ..client_wish(node) }
}
