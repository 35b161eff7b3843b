//! Packets through real sockets of both families: from where they are answered, and what it costs.

use super::*;
use crate::build::Endpoint;
use crate::plugin::forward::testing::Upstream;
use crate::plugin::kubernetes::tests as cluster;
use crate::server::sockets;
use crate::testing;
use crate::wire::{Message, code::rtype};
use kernel::allocations;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const STANZA: &str = "kubernetes cluster.local in-addr.arpa ip6.arpa";

/// A block as clusters have it, with a filter.
fn corefile(upstream: SocketAddr) -> String {
    format!(
        ". {{
 errors
 log . {{
  class error
 }}
 bufsize 1232
 cache 30
 loadbalance
 template IN AAAA . {{
  except cluster.local
  rcode NOERROR
  authority \"{{{{ .Zone }}}} 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30\"
 }}
 {STANZA}
 forward . {upstream}
}}"
    )
}

struct Asked {
    server: Server,
    inbox: Inbox,
    port: u16,
}

impl Asked {
    /// Of both families, on every address of the machine.
    fn all(corefile: &str) -> Vec<(bool, Self)> {
        let (_index, records) = cluster::index(&cluster::content(), 5);
        let (lasting, _cluster) = cluster::lasting(STANZA, &records);
        let instance = testing::build_with(corefile, &lasting).unwrap_or_else(|problem| panic!("{problem}"));
        let routes = Arc::clone(instance.routes.values().next().unwrap());
        let mut opened = sockets::open(Endpoint { address: None, port: 0 }, 1).unwrap();
        let own = |socket: UdpSocket| {
            let v6 = socket.local_addr().unwrap().is_ipv6();
            let socket = Arc::new(tokio::net::UdpSocket::from_std(socket).unwrap());
            let server = Server::new(socket, Arc::new(ArcSwap::new(Arc::clone(&routes))));
            (v6, Self { server, inbox: Inbox::new(QUERY), port: opened.port })
        };
        opened.udp.remove(0).into_iter().map(own).collect()
    }

    /// Asks one address; the answer, and how often answering at once allocated.
    async fn ask(&mut self, host: IpAddr, name: &str, rtype: u16) -> (String, u64) {
        let any: IpAddr = if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let client = tokio::net::UdpSocket::bind((any, 0)).await.unwrap();
        // Connected: an answer from another address would not be seen.
        client.connect((host, self.port)).await.unwrap();
        client.send(&testing::query(name, rtype).request.to_wire(7)).await.unwrap();
        self.server.socket.readable().await.unwrap();
        let before = allocations::on_this_thread();
        self.server.take(&mut self.inbox);
        let allocated = allocations::on_this_thread() - before;
        let mut buffer = vec![0; 4096];
        let length = tokio::time::timeout(Duration::from_secs(10), client.recv(&mut buffer)).await.unwrap().unwrap();
        let message = Message::parse(&buffer[..length]).unwrap();
        let records = message.sections.iter().flatten().map(|record| format!(" {}", record.data_text()));
        (format!("{}{}", rcode::text(message.rcode), records.collect::<String>()), allocated)
    }
}

#[tokio::test]
async fn an_answer_at_hand_costs_no_allocation() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1", "www.test. 300 IN A 192.0.2.2"]);
    for (v6, mut asked) in Asked::all(&corefile(upstream.address())) {
        let host = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        for (name, rtype, expected) in [
            ("dual.dn.svc.cluster.local.", rtype::A, "NOERROR 10.96.1.1"),
            ("DUAL.dn.svc.cluster.local.", rtype::AAAA, "NOERROR fd00:96::101"),
            ("v4.dn.svc.cluster.local.", rtype::AAAA, "NOERROR ns.dns.cluster.local. hostmaster"),
            ("none.dn.svc.cluster.local.", rtype::A, "NXDOMAIN ns.dns.cluster.local. hostmaster"),
            ("www.test.", rtype::A, "NOERROR 192.0.2."),
            ("www.test.", rtype::AAAA, "NOERROR ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30"),
        ] {
            // The first is fetched and the second kept; each makes its counters.
            for _ in 0..2 {
                asked.ask(host, name, rtype).await;
            }
            let (answer, allocated) = asked.ask(host, name, rtype).await;
            assert!(answer.starts_with(expected), "{name} {answer}");
            assert_eq!(allocated, 0, "{name} {rtype}");
        }
    }
    assert_eq!(upstream.asked(), 1);
}

#[tokio::test]
async fn answers_come_from_the_address_that_was_asked_also_after_waiting() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
    for (v6, mut asked) in Asked::all(&format!(". {{\n forward . {}\n}}", upstream.address())) {
        let hosts = if v6 { &["::1"][..] } else { &["127.0.0.1", "127.3.2.1"] };
        for host in hosts {
            // Nothing is kept: each waits.
            let (answer, _) = asked.ask(host.parse().unwrap(), "www.test.", rtype::A).await;
            assert_eq!(answer, "NOERROR 192.0.2.1", "{host}");
            let (answer, _) = asked.ask(host.parse().unwrap(), "none.test.", rtype::A).await;
            assert!(answer.starts_with("NXDOMAIN"), "{host}");
        }
    }
}

#[tokio::test]
async fn a_batch_is_answered_packet_by_packet() {
    for (v6, mut asked) in Asked::all(". {\n hosts {\n 192.0.2.1 a.test\n 2001:db8::1 a.test\n }\n}") {
        let host: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let client = tokio::net::UdpSocket::bind((host, 0)).await.unwrap();
        client.connect((host, asked.port)).await.unwrap();
        let good = testing::query("a.test.", rtype::AAAA).request;
        for id in 0..100u16 {
            let mut packet = good.to_wire(id);
            match id % 4 {
                0 => {}
                // An answer, which nobody asked for; no question; an unknown kind of request.
                1 => packet[2] |= 0x80,
                2 => packet[5] = 0,
                _ => packet[2] |= 0x28,
            }
            client.send(&packet).await.unwrap();
        }
        asked.server.socket.readable().await.unwrap();
        assert!(asked.server.take(&mut asked.inbox) == Taken::Some);
        assert!(asked.server.take(&mut asked.inbox) == Taken::All);
        let mut codes = std::collections::BTreeMap::new();
        for _ in 0..75 {
            let mut buffer = [0; 512];
            client.recv(&mut buffer).await.unwrap();
            *codes.entry((buffer[1] % 4, buffer[3] & 15)).or_insert(0) += 1;
        }
        let expected =
            [((0, rcode::NOERROR as u8), 25), ((2, rcode::FORMERR as u8), 25), ((3, rcode::NOTIMP as u8), 25)];
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), expected);
    }
}
