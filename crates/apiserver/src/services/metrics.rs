//! How full the pools are, under upstream's names; read from the pools when asked.

use super::pools::Pools;
use crate::ApiServer;
use net::{Pool, Space};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// Registers them; the server may go before its metrics do.
pub(super) fn register(server: &Arc<ApiServer>) {
    server.admin.metrics.register_collector(Box::new(Fill(Arc::downgrade(server))));
}

struct Fill(Weak<ApiServer>);

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fill")
    }
}

impl Collector for Fill {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(server) = self.0.upgrade() else { return Ok(()) };
        let pools: &Pools = &server.services.pools;
        let addresses = pools.addresses();
        for (name, help, read) in [
            (
                "kube_apiserver_clusterip_allocator_allocated_ips",
                "service addresses that are taken",
                Pool::used as fn(&Pool<_>) -> u64,
            ),
            ("kube_apiserver_clusterip_allocator_available_ips", "service addresses that are free", Pool::free),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for pool in &addresses {
                let cidr = [("cidr", pool.to_string())];
                ConstGauge::new(number(read(pool))).encode(metric.encode_family(&cidr)?)?;
            }
        }
        let Some(ports) = pools.ports() else { return Ok(()) };
        gauge(
            &mut encoder,
            "kube_apiserver_nodeport_allocator_allocated_ports",
            "node ports that are taken",
            ports,
            Pool::used,
        )?;
        gauge(
            &mut encoder,
            "kube_apiserver_nodeport_allocator_available_ports",
            "node ports that are free",
            ports,
            Pool::free,
        )
    }
}

fn gauge<S: Space>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    pool: &Pool<S>,
    read: fn(&Pool<S>) -> u64,
) -> Result<(), fmt::Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(number(read(pool))).encode(metric)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
