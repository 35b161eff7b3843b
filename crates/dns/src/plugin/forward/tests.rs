//! Upstreams of ours on loopback, in both families.

use super::testing::Upstream;
use crate::{
    query::Transport,
    testing::{Asked, query, refused, shown},
    wire::code::rtype,
};

#[test]
fn both_families_are_asked_over_udp_and_tcp() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let upstream = Upstream::start_at(address, &["www.test. 300 IN A 192.0.2.1"]);
        let asked = Asked::new(&format!(". {{\n forward . {}\n}}", upstream.address()));
        assert_eq!(asked.ask("Www.test.", "A"), "NOERROR ra | Www.test. 300 IN A 192.0.2.1");
        assert_eq!(asked.ask("none.test.", "A"), "NXDOMAIN ra | | test. 900 IN SOA ns.test. h.test. 1 2 3 4 800");
        let mut over_tcp = query("www.test.", rtype::A);
        over_tcp.transport = Transport::Tcp;
        for _ in 0..2 {
            assert_eq!(shown(&asked.answer(over_tcp.clone())), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
        }
    }
}

#[test]
fn a_cut_answer_is_passed_on_or_asked_for_again() {
    let texts: Vec<String> = (0..100).map(|n| format!("big.test. 300 IN A 192.0.2.{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let upstream = Upstream::start(&texts);
    let asked = Asked::new(&format!(". {{\n forward . {}\n}}", upstream.address()));
    assert!(asked.ask("big.test.", "A").starts_with("NOERROR tc ra | "));
    let asked = Asked::new(&format!(". {{\n forward . {} {{\n prefer_udp\n }}\n}}", upstream.address()));
    let whole = asked.answer(query("big.test.", rtype::A));
    assert_eq!((whole.tc, whole.count(crate::wire::Section::Answer)), (false, 100));
    let asked = Asked::new(&format!(". {{\n forward . {} {{\n force_tcp\n }}\n}}", upstream.address()));
    assert!(!asked.answer(query("big.test.", rtype::A)).tc);
}

#[test]
fn tls_is_spoken_to_who_can_prove_its_name() {
    runtime::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let authority = runtime::pki::Authority::create("test", std::time::SystemTime::now()).unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, authority.certificate_pem()).unwrap();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let upstream = Upstream::start_tls(address, &authority, &["www.test. 300 IN A 192.0.2.1"]);
        let conf = |name: &str| {
            let (to, file) = (upstream.address(), file.display());
            Asked::new(&format!(". {{\n forward . tls://{to} {{\n tls {file}\n tls_servername {name}\n }}\n}}"))
        };
        let right = conf("localhost");
        for _ in 0..3 {
            assert_eq!(right.ask("www.test.", "A"), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
        }
        drop(right);
        assert_eq!(conf("elsewhere.test").ask("www.test.", "A"), "SERVFAIL");
    }
}

#[test]
fn the_next_upstream_is_asked_when_one_does_not_answer() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
    // Nobody listens there.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let asked = Asked::new(&format!(
        ". {{\n forward . {} {} {{\n policy sequential\n read_timeout 1s\n }}\n}}",
        silent.local_addr().unwrap(),
        upstream.address()
    ));
    assert_eq!(asked.ask("www.test.", "A"), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
}

#[test]
fn zones_and_exceptions_are_kept() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1", "a.inner.test. 300 IN A 192.0.2.2"]);
    let asked = Asked::new(&format!(". {{\n forward test {} {{\n except inner.test\n }}\n}}", upstream.address()));
    assert!(asked.ask("www.test.", "A").starts_with("NOERROR ra"));
    assert_eq!(asked.ask("a.inner.test.", "A"), "SERVFAIL");
    assert_eq!(asked.ask("www.example.", "A"), "SERVFAIL");
}

#[test]
fn the_next_line_is_asked_after_answers_that_say_so() {
    let first = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
    let second = Upstream::start(&["www.test. 300 IN AAAA 2001:db8::1", "other.test. 300 IN A 192.0.2.2"]);
    let conf = |property: &str| {
        let (first, second) = (first.address(), second.address());
        Asked::new(&format!(
            ". {{\n forward . {first} {{\n {property}\n }}\n forward . {second} {{\n {property}\n }}\n}}"
        ))
    };
    let soa = "test. 900 IN SOA ns.test. h.test. 1 2 3 4 800";
    for (property, name, rtype, expected) in [
        ("next NXDOMAIN", "other.test.", "A", "NOERROR ra | other.test. 300 IN A 192.0.2.2".to_owned()),
        ("next NXDOMAIN", "www.test.", "A", "NOERROR ra | www.test. 300 IN A 192.0.2.1".to_owned()),
        ("next NXDOMAIN", "www.test.", "AAAA", format!("NOERROR ra | | {soa}")),
        // There is no line after the second.
        ("next NXDOMAIN", "none.test.", "A", format!("NXDOMAIN ra | | {soa}")),
        ("next SERVFAIL", "other.test.", "A", format!("NXDOMAIN ra | | {soa}")),
        ("next_on_nodata", "www.test.", "AAAA", "NOERROR ra | www.test. 300 IN AAAA 2001:db8::1".to_owned()),
        ("next_on_nodata", "other.test.", "A", format!("NXDOMAIN ra | | {soa}")),
    ] {
        assert_eq!(conf(property).ask(name, rtype), expected, "{property} {name} {rtype}");
    }
}

#[test]
fn queries_come_from_the_address_that_is_named() {
    for (address, source) in [("127.0.0.1:0", "127.4.3.2"), ("[::1]:0", "::1")] {
        let upstream = Upstream::start_at(address, &["www.test. 300 IN A 192.0.2.1"]);
        for more in ["", "force_tcp\n max_age 20s\n max_idle_conns 1"] {
            let to = upstream.address();
            let asked = Asked::new(&format!(". {{\n forward . {to} {{\n source_address {source}\n {more}\n }}\n}}"));
            for _ in 0..2 {
                assert_eq!(asked.ask("www.test.", "A"), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
            }
        }
    }
    // An address that is not ours cannot be one to ask from.
    let upstream = Upstream::start(&[]);
    let to = upstream.address();
    let text =
        format!(". {{\n forward . {to} {{\n source_address 192.0.2.1\n max_fails 0\n max_connect_attempts 1\n }}\n}}");
    assert_eq!(Asked::new(&text).ask("www.test.", "A"), "SERVFAIL");
    assert_eq!(upstream.asked(), 0);
}

#[test]
fn servers_come_from_a_file_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "# us\nnameserver 192.0.2.53\nnameserver 2001:db8::53\noptions x\n").unwrap();
    assert!(crate::testing::build(&format!(". {{\n forward . {}\n}}", file.display())).is_ok());
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("forward", "\"forward\": plugin forward: needs a zone and at least one server"),
        ("forward .", "\"forward\": plugin forward: needs at least one server"),
        ("forward . nowhere", "\"nowhere\": plugin forward: is no address, no host name and no file; accepted: IP"),
        ("forward . 192.0.2.256", "plugin forward: is no address, no host name and no file"),
        ("forward . tls://192.0.2", "plugin forward: is no address, no host name and no file"),
        ("forward . dns.test:x", "plugin forward: is no address, no host name and no file"),
        ("forward . quic://192.0.2.1", "plugin forward: is not spoken here; accepted: dns://, tls://, https://"),
        ("forward . https://dns.test/path", "plugin forward: has a path; the path is always /dns-query"),
        ("forward . https://dns.test {\n doh_method PUT\n }", "\"PUT\": plugin forward: accepted: GET, POST"),
        ("forward . dns.test {\n resolver dns.test\n }", "\"dns.test\": plugin forward: is no address"),
        (
            "forward . 192.0.2.1 {\n policy best\n }",
            "\"best\": plugin forward: accepted: random, round_robin, sequential",
        ),
        ("forward . 192.0.2.1 {\n polcy random\n }", "unknown property; did you mean policy?"),
        ("forward . 192.0.2.1 {\n max_concurrent x\n }", "\"x\": plugin forward: accepted: a number"),
        ("forward . 192.0.2.1 {\n next\n }", "\"next\": plugin forward: needs at least one response code"),
        ("forward . 192.0.2.1 {\n max_age 1s\n }", "\"1s\": plugin forward: is less than expire"),
        (
            "forward . 192.0.2.1 {\n source_address 127.0.0.1 127.0.0.2\n }",
            "\"127.0.0.2\": plugin forward: is the second of its family",
        ),
        ("forward . 192.0.2.1 {\n source_address lo\n }", "\"lo\": plugin forward: is no IP address"),
        ("forward . 192.0.2.1 {\n failover NOPE\n }", "\"NOPE\": plugin forward: is no response code"),
    ] {
        let problem = refused(&format!(". {{\n {text}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
    let many = (1..=16).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(" ");
    assert!(refused(&format!(". {{\n forward . {many}\n}}")).contains("has 16 servers; accepted: up to 15"));
}

/// An upstream that answers one datagram after another by hand.
fn by_hand(mut answer: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> std::net::SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            if let Some(answer) = answer(&buffer[..length]) {
                socket.send_to(&answer, client).unwrap();
            }
        }
    });
    address
}

/// A question for `a.test` with these options, each with its code and length in front.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'a', 4, b't', b'e', b's', b't', 0, 0, 1, 0, 1];
    packet.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, options.len() as u8]);
    packet.extend(options);
    packet
}

#[test]
fn options_of_clients_go_upstream_and_those_of_upstreams_come_back() {
    let (seen, got) = std::sync::mpsc::channel();
    let address = by_hand(move |packet| {
        seen.send(packet.to_vec()).unwrap();
        // The same back, with another scope and a name.
        let mut answer = packet.to_vec();
        answer[2] |= 0x80;
        let scope = answer.windows(2).position(|two| two == [24, 0]).unwrap();
        answer[scope + 1] = 16;
        Some(answer)
    });
    let asked = Asked::new(&format!(". {{\n forward . {address}\n}}"));
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2];
    let (nsid, cookie, padding) = ([0, 3, 0, 0], [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8], [0, 12, 0, 1, 0]);
    let answer = asked.exchange(&with_options(&[&subnet[..], &nsid, &cookie, &padding].concat()));
    let sent = got.recv().unwrap();
    // Cookies and padding are between two hosts.
    assert!(sent.ends_with(&[&subnet[..], &nsid].concat()), "{sent:?}");
    let found = |wanted: &[u8]| answer.windows(wanted.len()).any(|part| part == wanted);
    assert!(found(&[0, 8, 0, 7, 0, 1, 24, 16, 192, 0, 2]), "{answer:?}");
    assert!(found(&[0, 10, 0, 24, 1, 2, 3, 4, 5, 6, 7, 8]), "{answer:?}");
}

#[test]
fn an_upstream_that_does_not_know_edns_is_asked_without() {
    let address = by_hand(|packet| {
        let mut answer = packet.to_vec();
        answer[2] |= 0x80;
        if packet[11] == 1 {
            answer.truncate(12);
            answer[3] |= 1;
            answer[4..12].fill(0);
        }
        Some(answer)
    });
    let asked = Asked::new(&format!(". {{\n forward . {address}\n}}"));
    assert_eq!(asked.ask("a.test.", "A"), "NOERROR");
}

#[test]
fn an_answer_that_is_only_a_header_is_an_answer() {
    for (code, expected) in [(1, "FORMERR"), (2, "SERVFAIL"), (4, "NOTIMP"), (5, "REFUSED")] {
        let (seen, got) = std::sync::mpsc::channel();
        let address = by_hand(move |packet| {
            seen.send(()).unwrap();
            let mut answer = packet[..12].to_vec();
            answer[2] |= 0x80;
            answer[3] = answer[3] & 0xf0 | code;
            answer[4..12].fill(0);
            Some(answer)
        });
        let asked = Asked::new(&format!(". {{\n forward . {address}\n}}"));
        assert_eq!(asked.ask("a.test.", "A"), expected);
        assert!(got.try_iter().count() <= 2, "{expected}");
    }
}

#[test]
fn an_upstream_that_is_silent_comes_last_until_it_is_heard_again() {
    let upstream = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
    let (seen, got) = std::sync::mpsc::channel();
    let silent = by_hand(move |_| {
        seen.send(()).unwrap();
        None
    });
    let asked = Asked::new(&format!(
        ". {{\n forward . {silent} {} {{\n policy sequential\n read_timeout 200ms\n }}\n}}",
        upstream.address()
    ));
    for _ in 0..5 {
        assert_eq!(asked.ask("www.test.", "A"), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
    }
    assert_eq!(got.try_iter().count(), 1);
}

#[test]
fn https_is_spoken_to_who_can_prove_its_name() {
    runtime::tls::install_provider();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let folder = tempfile::tempdir().unwrap();
        let to = crate::server::start_secure("https", address, folder.path());
        let conf = |more: &str| {
            let ca = folder.path().join("ca");
            let tls = format!("tls {}\n max_fails 0\n max_connect_attempts 1", ca.display());
            Asked::new(&format!(". {{\n forward . https://{to} {{\n {tls}\n {more}\n }}\n}}"))
        };
        for method in ["", "doh_method GET", "doh_method post", "expire 0s"] {
            let right = conf(&format!("tls_servername localhost\n {method}"));
            for _ in 0..3 {
                assert_eq!(right.ask("a.test.", "A"), "NOERROR aa | a.test. 77 IN A 192.0.2.1", "{method}");
                assert_eq!(right.ask("A.test.", "AAAA"), "NOERROR aa | A.test. 77 IN AAAA 2001:db8::1", "{method}");
            }
        }
        assert_eq!(conf("tls_servername elsewhere.test").ask("a.test.", "A"), "SERVFAIL");
        assert_eq!(conf("").ask("a.test.", "A"), "SERVFAIL");
    }
}

#[test]
fn upstreams_have_names_that_are_looked_up_in_both_families() {
    let four = Upstream::start(&["www.test. 300 IN A 192.0.2.1"]);
    let six = Upstream::start_at("[::1]:0", &["www.test. 300 IN A 192.0.2.1"]);
    for (upstream, record) in [(&four, "dns.host.test. 300 IN A 127.0.0.1"), (&six, "dns.host.test. 300 IN AAAA ::1")] {
        for resolver in ["127.0.0.1:0", "[::1]:0"] {
            let resolver = Upstream::start_at(resolver, &[record, "empty.host.test. 300 IN TXT x"]);
            let port = upstream.address().port();
            let conf = |name: &str| {
                let resolver = resolver.address();
                Asked::new(&format!(". {{\n forward . {name}:{port} {{\n resolver {resolver}\n max_fails 0\n }}\n}}"))
            };
            let named = conf("Dns.host.test");
            for _ in 0..3 {
                assert_eq!(named.ask("www.test.", "A"), "NOERROR ra | www.test. 300 IN A 192.0.2.1");
            }
            // Once for each family: what was found is kept.
            assert_eq!(resolver.asked(), 2);
            for name in ["none.host.test", "empty.host.test"] {
                assert_eq!(conf(name).ask("www.test.", "A"), "SERVFAIL", "{name}");
            }
        }
    }
}

#[test]
fn the_name_of_a_host_is_the_one_that_it_must_prove() {
    runtime::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let authority = runtime::pki::Authority::create("test", std::time::SystemTime::now()).unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, authority.certificate_pem()).unwrap();
    let upstream = Upstream::start_tls("127.0.0.1:0", &authority, &["www.test. 300 IN A 192.0.2.1"]);
    let resolver = Upstream::start(&["dns.host.test. 300 IN A 127.0.0.1"]);
    // The server is `localhost`.
    for (to, more, expected) in [
        ("dns.host.test", "", "SERVFAIL"),
        ("dns.host.test", "tls_servername localhost", "NOERROR ra | www.test. 300 IN A 192.0.2.1"),
        ("dns.host.test%localhost", "", "NOERROR ra | www.test. 300 IN A 192.0.2.1"),
        ("127.0.0.1%localhost", "", "NOERROR ra | www.test. 300 IN A 192.0.2.1"),
    ] {
        let (port, resolver, file) = (upstream.address().port(), resolver.address(), file.display());
        let rest = format!("tls {file}\n resolver {resolver}\n max_fails 0\n {more}");
        let asked = Asked::new(&format!(". {{\n forward . tls://{to}:{port} {{\n {rest}\n }}\n}}"));
        assert_eq!(asked.ask("www.test.", "A"), expected, "{to} {more}");
    }
}
