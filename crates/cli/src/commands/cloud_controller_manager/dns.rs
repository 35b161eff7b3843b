//! Route53 for the ingress operator: `--dns-provider aws`.

use aws::{clients::Session, cloud_config::CloudConfig, route53::Route53};
use runtime::{cloud::DnsProvider, metrics::Metrics};
use std::sync::Arc;

/// Opens Route53 with the region, credentials and endpoints of the environment.
pub(crate) async fn route53(metrics: &Metrics) -> anyhow::Result<Arc<dyn DnsProvider>> {
    let session = Session::open(&CloudConfig::default(), metrics).await?;
    tracing::info!(region = session.region(), "publishes DNS records in Route53");
    Ok(Arc::new(Route53::new(&session)))
}
