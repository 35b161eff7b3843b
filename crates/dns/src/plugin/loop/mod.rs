//! `loop`: notices when queries that are forwarded come back.

use super::{Plugin, Step, only};
use crate::{
    compile::{Building, Fatal, Job},
    corefile::{Directive, Problem},
    query::Query,
    random,
    wire::{
        Name, Reply, Request,
        code::{class, rtype},
    },
};
use futures::future::BoxFuture;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

struct Watch {
    /// A name that nobody else asks for.
    name: Name,
    seen: AtomicU32,
    over: AtomicBool,
    fatal: Fatal,
}

struct Loop(Arc<Watch>);

/// How often the name may be seen: our own query, and one more that was on its way.
const SEEN: u32 = 2;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    line.no_block()?;
    let zone = building.zones.first().copied().unwrap_or(Name::ROOT);
    let labels = [random::next().to_string(), random::next().to_string()];
    let name = Name::under(labels.iter().map(String::as_bytes), &zone).unwrap_or(zone);
    let fatal = building.lasting.fatal.clone();
    let watch = Arc::new(Watch { name, seen: AtomicU32::new(0), over: AtomicBool::new(false), fatal });
    let host = building.addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = building.ports.first().copied().unwrap_or(53);
    let probe = Arc::clone(&watch);
    let run = move |stop: CancellationToken| {
        let probe = Arc::clone(&probe);
        let work = async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = probe.run(SocketAddr::new(host, port)) => {}
            }
            Ok(())
        };
        Box::pin(work) as BoxFuture<'static, _>
    };
    building.whole.jobs.push(Job { name: "dns-loop".to_owned(), run: Box::new(run) });
    building.plugins.push(Box::new(Loop(watch)));
    Ok(())
}

impl Watch {
    /// Asks ourselves for the name until there is an answer, then forgets about it.
    async fn run(&self, server: SocketAddr) {
        let request = Request {
            id: 0,
            rd: true,
            ad: false,
            cd: false,
            name: self.name,
            rtype: rtype::HINFO,
            class: class::IN,
            edns: None,
        };
        for _ in 0..30 {
            let id = random::next() as u16;
            if ask(server, &request.to_wire(id)).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.over.store(true, Ordering::Relaxed);
    }
}

async fn ask(server: SocketAddr, packet: &[u8]) -> std::io::Result<()> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = tokio::net::UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(packet).await?;
    let mut buffer = [0; 512];
    let answer = tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut buffer)).await;
    answer.map_err(|_| std::io::ErrorKind::TimedOut)?.map(|_| ())
}

impl Plugin for Loop {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn before(&self, query: &mut Query, _: &mut Reply) -> Step {
        let watch = &self.0;
        let ours =
            query.request.rtype == rtype::HINFO && !watch.over.load(Ordering::Relaxed) && query.lower == watch.name;
        if ours && watch.seen.fetch_add(1, Ordering::Relaxed) >= SEEN {
            let from = query.source;
            watch.fatal.raise(format!(
                "plugin/loop: a query for {} came back from {from}: this server forwards to itself",
                watch.name
            ));
        }
        Step::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_name_that_comes_back_is_told() {
        let fatal = Fatal::default();
        let name = Name::parse("1.2.test").unwrap();
        let watch = Watch { name, seen: AtomicU32::new(0), over: AtomicBool::new(false), fatal: fatal.clone() };
        let plugin = Loop(Arc::new(watch));
        for _ in 0..=SEEN {
            let mut query = testing::query("1.2.test.", rtype::HINFO);
            assert_eq!(plugin.before(&mut query, &mut Reply::new()), Step::Next);
        }
        assert!(fatal.raised().await.contains("forwards to itself"));
    }
}
