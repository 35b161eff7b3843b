//! Packets through real sockets of both families: from where they are answered, and what it costs.

use super::*;
use crate::{
    compile::Endpoint,
    corefile::Scheme,
    plugin::{forward::testing::Upstream, kubernetes::tests as cluster},
    server::sockets,
    testing,
    wire::{Message, code::rtype},
};
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
    metrics: runtime::metrics::Metrics,
}

impl Asked {
    /// Of both families, on every address of the machine.
    fn all(corefile: &str) -> Vec<(bool, Self)> {
        let (_index, records) = cluster::index(&cluster::content(), 5);
        let (lasting, _cluster) = cluster::lasting(STANZA, &records);
        let metrics = runtime::metrics::Metrics::new();
        lasting.counters.register(&metrics);
        let instance = testing::build_with(corefile, &lasting).unwrap_or_else(|problem| panic!("{problem}"));
        let routes = Arc::clone(instance.routes.values().next().unwrap());
        let mut opened = sockets::open(Endpoint { address: None, port: 0, scheme: Scheme::Dns }, 1).unwrap();
        let own = |socket: UdpSocket| {
            let v6 = socket.local_addr().unwrap().is_ipv6();
            let socket = Arc::new(tokio::net::UdpSocket::from_std(socket).unwrap());
            let server = Server::new(socket, Arc::new(ArcSwap::new(Arc::clone(&routes))));
            (v6, Self { server, inbox: Inbox::new(QUERY), port: opened.port, metrics: metrics.clone() })
        };
        opened.udp.remove(0).into_iter().map(own).collect()
    }

    /// The lines of a metric that are about what no block saw, in their order, without the labels that are always there.
    fn dropped(&self, metric: &str) -> Vec<String> {
        let body = self.metrics.render(runtime::metrics::TextFormat::Classic).body;
        let own = format!("{metric}{{server=\"dns://:53\"");
        let mut lines: Vec<String> = body
            .lines()
            .filter_map(|line| line.strip_prefix(&own))
            .map(|line| line.replacen(",zone=\"dropped\",view=\"\"", "", 1))
            .filter(|line| !line.contains("zone="))
            .map(|line| line.trim_start_matches(',').to_owned())
            .collect();
        lines.sort();
        lines
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

/// CoreDNS sends two for these codes.
#[tokio::test]
async fn a_template_that_refuses_sends_one_reply() {
    for code in ["REFUSED", "FORMERR", "NOTIMP"] {
        for (v6, mut asked) in Asked::all(&format!(". {{\n template IN A . {{\n rcode {code}\n }}\n}}")) {
            let host: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
            let client = tokio::net::UdpSocket::bind((host, 0)).await.unwrap();
            client.connect((host, asked.port)).await.unwrap();
            for id in 0..3u16 {
                client.send(&testing::query("a.test.", rtype::A).request.to_wire(id)).await.unwrap();
            }
            asked.server.socket.readable().await.unwrap();
            while asked.server.take(&mut asked.inbox) == Taken::Some {}
            let mut buffer = [0; 512];
            for id in 0..3 {
                client.recv(&mut buffer).await.unwrap();
                assert_eq!((buffer[1], buffer[3] & 15), (id, rcode::number(code).unwrap() as u8));
            }
            assert!(client.try_recv(&mut buffer).is_err(), "{code}");
        }
    }
}

/// Packets that no good client sends, and the code of the answer; `None` when there is to be none.
fn corpus() -> Vec<(&'static str, Vec<u8>, Option<u16>)> {
    let good = testing::query("a.test.", rtype::A).request;
    let plain = Request { edns: None, ..good }.to_wire(7);
    let with_edns = good.to_wire(7);
    let changed = |packet: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = packet.to_vec();
        change(&mut packet);
        packet
    };
    let named = |wire: &[u8]| {
        let mut packet = plain[..12].to_vec();
        packet.extend_from_slice(wire);
        packet.extend([0, 1, 0, 1]);
        packet
    };
    let option = |bytes: &[u8]| {
        let mut packet = with_edns.clone();
        let length = packet.len();
        packet[length - 1] = bytes.len() as u8;
        packet.extend_from_slice(bytes);
        packet
    };
    let formerr = Some(rcode::FORMERR);
    vec![
        ("nothing", Vec::new(), None),
        ("less than a header", plain[..11].to_vec(), None),
        ("an answer", changed(&plain, &|packet| packet[2] |= 0x80), None),
        ("a header alone", plain[..12].to_vec(), formerr),
        ("no question", changed(&plain[..12], &|packet| packet[5] = 0), formerr),
        (
            "two questions",
            changed(&plain, &|packet| {
                packet[5] = 2;
                packet.extend_from_within(12..);
            }),
            formerr,
        ),
        ("65535 questions", changed(&plain, &|packet| packet[4..6].fill(255)), formerr),
        ("many answers", changed(&plain, &|packet| packet[7] = 9), formerr),
        ("a name that breaks off", plain[..15].to_vec(), formerr),
        ("a question without its class", plain[..plain.len() - 2].to_vec(), formerr),
        ("a pointer to itself", named(&[0xc0, 12]), formerr),
        ("a pointer forward", named(&[0xc0, 40]), formerr),
        ("a pointer into the header", named(&[0xc0, 0]), formerr),
        ("pointers in a circle", named(&[1, b'a', 0xc0, 12]), formerr),
        ("a reserved kind of label", named(&[0x41, b'a', 0]), formerr),
        ("a name that is too long", named(&[[63; 64]; 5].concat()), formerr),
        ("status", changed(&plain, &|packet| packet[2] |= 2 << 3), Some(rcode::NOTIMP)),
        ("notify", changed(&plain, &|packet| packet[2] |= 4 << 3), Some(rcode::NOTIMP)),
        ("update", changed(&plain, &|packet| packet[2] |= 5 << 3), Some(rcode::NOTIMP)),
        ("an unknown kind of request", changed(&plain, &|packet| packet[2] |= 15 << 3), Some(rcode::NOTIMP)),
        ("class ANY", changed(&plain, &|packet| *packet.last_mut().unwrap() = 255), Some(rcode::REFUSED)),
        ("class 0", changed(&plain, &|packet| *packet.last_mut().unwrap() = 0), Some(rcode::REFUSED)),
        ("another zone", named(&[5, b'o', b't', b'h', b'e', b'r', 0]), Some(rcode::REFUSED)),
        ("a zone transfer", testing::query("a.test.", rtype::AXFR).request.to_wire(7), Some(rcode::REFUSED)),
        ("bytes at the end", changed(&plain, &|packet| packet.extend([7; 200])), Some(rcode::NOERROR)),
        (
            "two OPT",
            changed(&with_edns, &|packet| {
                packet[11] = 2;
                packet.extend_from_within(packet.len() - 11..);
            }),
            formerr,
        ),
        (
            "an OPT with a name",
            changed(&with_edns, &|packet| {
                let at = packet.len() - 11;
                packet.splice(at..at + 1, [1, b'a', 0]);
            }),
            formerr,
        ),
        ("an OPT that breaks off", with_edns[..with_edns.len() - 3].to_vec(), formerr),
        (
            "EDNS of another version",
            changed(&with_edns, &|packet| {
                let at = packet.len() - 5;
                packet[at] = 1;
            }),
            Some(0),
        ),
        (
            "EDNS with size 0",
            changed(&with_edns, &|packet| {
                let at = packet.len() - 8;
                packet[at..at + 2].fill(0);
            }),
            Some(0),
        ),
        (
            "EDNS with size 65535",
            changed(&with_edns, &|packet| {
                let at = packet.len() - 8;
                packet[at..at + 2].fill(255);
            }),
            Some(0),
        ),
        ("an option that breaks off", option(&[0, 10, 0]), formerr),
        ("an option that is longer than it", option(&[0, 10, 0, 99, 1]), formerr),
        ("a cookie of 7 bytes", option(&[0, 10, 0, 7, 1, 2, 3, 4, 5, 6, 7]), formerr),
        ("a cookie of 8 bytes", option(&[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]), Some(rcode::NOERROR)),
        ("an unknown option", option(&[255, 255, 0, 1, 7]), Some(rcode::NOERROR)),
    ]
}

const FUZZED: &str = "test {\n hosts {\n 192.0.2.1 a.test\n 2001:db8::1 a.test\n }\n template IN TXT a.test {\n answer \"{{ .Name }} 5 IN TXT x\"\n }\n}";

/// A socket that asks a server, and waits for answers that are to come.
fn client(host: IpAddr, port: u16) -> UdpSocket {
    let client = UdpSocket::bind((host, 0)).unwrap();
    client.connect((host, port)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

#[tokio::test]
async fn bad_packets_are_answered_as_the_rfcs_say_and_never_with_more() {
    for (v6, mut asked) in Asked::all(FUZZED) {
        let host: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let client = client(host, asked.port);
        for (what, packet, expected) in corpus() {
            client.send(&packet).unwrap();
            asked.server.socket.readable().await.unwrap();
            asked.server.take(&mut asked.inbox);
            client.set_nonblocking(expected.is_none()).unwrap();
            let mut buffer = [0; 4096];
            let answer = client.recv(&mut buffer).ok().map(|length| &buffer[..length]);
            assert_eq!(answer.map(|answer| u16::from(answer[3] & 15)), expected, "{what}");
            let Some(answer) = answer else { continue };
            assert!(answer[2] & 0x80 != 0 && answer[..2] == packet[..2], "{what}");
            if answer[3] & 15 != 0 {
                assert!(answer.len() <= packet.len(), "{what}: {} bytes for {}", answer.len(), packet.len());
            }
        }
    }
}

#[tokio::test]
async fn what_no_block_sees_is_counted_by_family_and_code() {
    let mut families = Asked::all(FUZZED);
    for (v6, asked) in &mut families {
        let host: IpAddr = if *v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let client = client(host, asked.port);
        // REFUSED, FORMERR, BADVERS, NOTIMP, nothing, and one that a block answers.
        for what in [
            "another zone",
            "a zone transfer",
            "two questions",
            "EDNS of another version",
            "notify",
            "an answer",
            "bytes at the end",
        ] {
            let (_, packet, _) = corpus().into_iter().find(|(name, ..)| *name == what).unwrap();
            client.send(&packet).unwrap();
            asked.server.socket.readable().await.unwrap();
            asked.server.take(&mut asked.inbox);
        }
    }
    let (_, asked) = &families[0];
    assert_eq!(
        asked.dropped("coredns_dns_requests_total"),
        [
            "proto=\"udp\",family=\"1\",type=\"A\"} 2",
            "proto=\"udp\",family=\"1\",type=\"AXFR\"} 1",
            "proto=\"udp\",family=\"1\",type=\"other\"} 2",
            "proto=\"udp\",family=\"2\",type=\"A\"} 2",
            "proto=\"udp\",family=\"2\",type=\"AXFR\"} 1",
            "proto=\"udp\",family=\"2\",type=\"other\"} 2",
        ]
    );
    assert_eq!(
        asked.dropped("coredns_dns_responses_total"),
        [
            "rcode=\"BADVERS\",plugin=\"\"} 2",
            "rcode=\"FORMERR\",plugin=\"\"} 2",
            "rcode=\"NOTIMP\",plugin=\"\"} 2",
            "rcode=\"REFUSED\",plugin=\"\"} 4",
        ]
    );
    assert_eq!(
        asked.dropped("twinstack_dns_ignored_packets_total"),
        ["proto=\"udp\",family=\"1\"} 1", "proto=\"udp\",family=\"2\"} 1"]
    );
}

#[tokio::test]
async fn no_packet_crashes_or_gets_more_than_a_small_answer() {
    for (v6, mut asked) in Asked::all(FUZZED) {
        let host: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let client = client(host, asked.port);
        client.set_nonblocking(true).unwrap();
        let seeds: Vec<Vec<u8>> = corpus().into_iter().map(|(_, packet, _)| packet).collect();
        // The same packets every time.
        let mut state = 7u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        for id in 0..20_000u16 {
            let mut packet = seeds[below(seeds.len())].clone();
            for _ in 0..below(4) {
                if !packet.is_empty() {
                    let at = below(packet.len());
                    packet[at] = below(256) as u8;
                }
            }
            packet.truncate(packet.len() - below(4).min(packet.len()));
            if let Some(place) = packet.first_chunk_mut::<2>() {
                *place = id.to_be_bytes();
            }
            client.send(&packet).unwrap();
            asked.server.socket.readable().await.unwrap();
            asked.server.take(&mut asked.inbox);
            let mut buffer = [0; 4096];
            while let Ok(length) = client.recv(&mut buffer) {
                // A question with one address, EDNS and a cookie: no more than that. Late ones are not this packet's.
                let own = buffer[..2] == id.to_be_bytes();
                assert!(!own || length <= packet.len() + 28 + 39, "{length} bytes for {packet:?}");
            }
        }
        let (answer, _) = asked.ask(host, "a.test.", rtype::A).await;
        assert_eq!(answer, "NOERROR 192.0.2.1");
    }
}
