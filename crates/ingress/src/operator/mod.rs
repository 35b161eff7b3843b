//! The operator: IngressControllers become routers, Services and DNS records; their conditions tell how it went.
//!
//! Three loops. `reconcile` takes an IngressController through `admit` (is it valid, what does it come to), `plan` (objects, pure), `write`
//! (by `runtime::operator`, only what differs) and `status` (conditions, pure). `dns` takes DNSRecords to a DNS service through `runtime::cloud::DnsProvider`.
//! `cluster_operator` tells the cluster how it goes, where the API has such an object.
//! Mirrors OpenShift's ingress operator; docs/guide/ingress-operator.md says where it differs.

pub mod admit;
pub mod cluster;
pub mod cluster_operator;
pub mod default_certificate;
pub mod dns;
pub mod metrics;
pub mod names;
pub mod objects;
pub mod plan;
pub mod process;
mod reconcile;
mod remove;
pub mod status;
pub mod strategy;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod write;

use runtime::{cloud::DnsProvider, controller, operator::definitions};
use std::{fmt, sync::Arc};

/// What flags decide.
#[derive(Clone)]
pub struct OperatorOptions {
    /// Image of routers, for Deployments.
    pub image: String,
    /// Runs routers as processes instead.
    pub process: Option<process::Process>,
    /// Where records are published; none for nowhere.
    pub dns: Option<Arc<dyn DnsProvider>>,
    /// A zone that counts as configured when the DNS configuration names none.
    pub own_zone: Option<String>,
    /// Which Secrets routers may read.
    pub secrets: plan::small::RouterSecrets,
}

impl fmt::Debug for OperatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dns = self.dns.as_ref().map(|provider| provider.name().to_owned());
        let Self { image, process, dns: _, own_zone, secrets } = self;
        f.debug_struct("Options")
            .field("image", image)
            .field("process", process)
            .field("dns", &dns)
            .field("own_zone", own_zone)
            .field("secrets", secrets)
            .finish()
    }
}

/// The loops of the operator.
pub const CONTROLLERS: &[controller::Controller<OperatorOptions>] = &[
    controller::Controller {
        name: "ingress-controller",
        alias: "ingress",
        default_on: true,
        run: |context| Box::pin(reconcile::run(context)),
    },
    controller::Controller {
        name: "dns-controller",
        alias: "dns",
        default_on: true,
        run: |context| Box::pin(dns::run(context)),
    },
    controller::Controller {
        name: "cluster-operator-controller",
        alias: "cluster-operator",
        default_on: true,
        run: |context| Box::pin(cluster_operator::run(context)),
    },
];

/// In whose name fields are owned.
const MANAGER: &str = "ingress-operator";

/// What every loop begins with: the definitions of what it reads and writes.
async fn define(client: &kube::Client) -> controller::Result<()> {
    let needed = api::config::definitions_named(&api::config::INGRESS_OPERATOR_DEFINITIONS);
    Ok(definitions::install(client, &needed).await?)
}

/// Runs the loops.
pub fn start(context: &controller::Context<OperatorOptions>) {
    let all: Vec<_> = CONTROLLERS.iter().collect();
    controller::start(context, &all, &controller::Selection::default());
}
