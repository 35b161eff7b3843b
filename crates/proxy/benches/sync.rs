//! The nftables backend with a real kernel, in a network namespace of its own: first sync of everything, then the change of
//! one endpoint, for each family and several sizes. Run by `scripts/bench`; needs root and nft.

use kernel::{
    netns::Namespace,
    nft::{Nft, RealNft},
};
use net::Family;
use proxy::{
    backend::{Backend, Fixed, nft::NftBackend},
    plan::{Frontend, LocalPods, NodePortMatch, Pool, Route, ServicePlan, Sources, To},
    track::{Name, Protocol},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

const SIZES: [u32; 3] = [100, 10_000, 30_000];
const CHANGES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(40);
const SECOND_FROM: u32 = 1 << 24;

fn main() {
    let Ok(namespace) = Namespace::new("bench") else {
        println!("proxy: skipped; needs root, ip and nft");
        return;
    };
    println!("{:<8} {:>9} {:>12} {:>13} {:>13}", "family", "Services", "first sync", "change p50", "change p99");
    for size in SIZES {
        for family in Family::BOTH {
            let measured = namespace.within(|| measure(family, size));
            match measured {
                Ok((first, mut changes)) => {
                    changes.sort_unstable();
                    let at = |percent: usize| changes[(changes.len() - 1) * percent / 100];
                    println!("{family:<8} {size:>9} {:>9.1?} {:>10.2?} {:>10.2?}", first, at(50), at(99));
                }
                Err(error) => println!("{family}: skipped; {error}"),
            }
        }
    }
}

fn measure(family: Family, size: u32) -> (Duration, Vec<Duration>) {
    let nft: Arc<dyn Nft> = Arc::new(RealNft::default());
    let mut backend = NftBackend::new(family, nft);
    let fixed = Fixed {
        masquerade_mark: 0x4000,
        masquerade_all: false,
        local: LocalPods::Unknown,
        node_ports: NodePortMatch::All,
        service_cidrs: Vec::new(),
    };
    let plans: Vec<_> = (0..size).map(|n| (name(n), plan(family, n, 0))).collect();
    let start = Instant::now();
    backend.sync(&fixed, &mut plans.into_iter()).expect("a first sync");
    let first = start.elapsed();
    let (_never, quiet) = std::sync::mpsc::channel::<()>();
    let changes = (1..=CHANGES)
        .map(|step| {
            // Changes come one by one: what the kernel does after the last one is over.
            let _ = quiet.recv_timeout(PAUSE);
            let start = Instant::now();
            backend
                .sync(&fixed, &mut std::iter::once((name(step % size), plan(family, step % size, step))))
                .expect("a change");
            start.elapsed()
        })
        .collect();
    (first, changes)
}

fn name(n: u32) -> Name {
    Name::new("default", &format!("service-{n}"))
}

/// Three endpoints, of which `step` changes one.
fn plan(family: Family, n: u32, step: u32) -> ServicePlan {
    let address = |network: u32, host: u32| match family {
        Family::V4 => IpAddr::V4((network << 24 | host).into()),
        Family::V6 => IpAddr::V6(((0xfd00_u128 << 112) | u128::from(network) << 64 | u128::from(host)).into()),
    };
    let pods = [n * 3, n * 3 + 1, if step == 0 { n * 3 + 2 } else { SECOND_FROM - step }];
    let mut endpoints: Vec<SocketAddr> = pods.iter().map(|pod| SocketAddr::new(address(11, *pod), 8080)).collect();
    endpoints.sort_unstable();
    let ip = address(10, n);
    let frontend = Frontend::Address { ip, protocol: Protocol::Tcp, port: 80 };
    let to = To::Inside(Pool { endpoints: endpoints.into(), affinity: None });
    let routes = vec![Route { frontend, sources: Sources::Everyone, to, serving: Arc::default() }];
    ServicePlan { routes, cluster_ips: vec![ip], ..ServicePlan::default() }
}
