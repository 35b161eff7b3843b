//! What admission asks others: webhooks, policies, and the webhooks that convert custom objects.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod conversion;
mod mutating;
mod policies;
#[path = "../support/mod.rs"]
mod support;
mod webhooks;

use apiserver::{
    ApiServer,
    kubelet::{Kubelets, Settings, reach::Reach},
    testing::Lab,
};
use std::sync::Arc;

const V4: &str = "127.0.0.1";
const V6: &str = "::1";

/// A server that may call loopback addresses.
async fn server() -> Arc<ApiServer> {
    lab().start().await
}

fn lab() -> Lab {
    let mut lab = Lab::new();
    let settings = Settings { reach: Reach::AlsoLoopback, ..Settings::default() };
    lab.server.kubelets = Kubelets::new(settings).unwrap();
    lab
}
