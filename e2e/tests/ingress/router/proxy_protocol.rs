//! The PROXY protocol: whom a router believes, and headers that come in pieces.

use super::*;

/// What becomes of a connection.
#[derive(Clone)]
enum Outcome {
    /// The pod sees this client.
    Seen(String),
    /// It is closed.
    Refused,
}

/// What a connection begins with, and what becomes of it.
///
/// A header in several pieces is put together, unless the router is told not to: HAProxy alone closes the connection.
fn headers(at: usize, router: SocketAddr, split_headers: bool) -> Vec<(&'static str, Vec<Vec<u8>>, Outcome)> {
    let client = SocketAddr::new(ip(CLIENTS[at]), 4242);
    let other_client = SocketAddr::new(ip(CLIENTS[1 - at]), 4242);
    let to = SocketAddr::new(router.ip(), router.port());
    let other_to = SocketAddr::new(ip(LOOPBACK[1 - at]), router.port());
    let own = router.ip().to_string();
    let bytes = |header: Vec<u8>| header.into_iter().map(|byte| vec![byte]).collect::<Vec<_>>();
    let halves = |header: Vec<u8>| vec![header[..header.len() / 2].to_vec(), header[header.len() / 2..].to_vec()];
    let fields: &[(u8, &[u8])] =
        &[(0x04, &[0; 7]), (0x02, b"web.apps.test"), (0xea, b"\x01vpce-0123456789abcdef0"), (0x05, b"unique")];
    let seen = |client: SocketAddr| Outcome::Seen(client.ip().to_string());
    // HAProxy alone takes neither pieces, nor what may follow UNKNOWN, nor the binary form without a family.
    let unless_alone = |outcome: Outcome| if split_headers { outcome } else { Outcome::Refused };
    let split = |client: SocketAddr| unless_alone(seen(client));
    let unknown = || b"PROXY UNKNOWN\r\n".to_vec();
    let long = vec![(0xe0, &[7_u8; 2000][..])];
    vec![
        ("v1", vec![proxy_v1(client, to)], seen(client)),
        ("v1 of the other family", vec![proxy_v1(other_client, other_to)], seen(other_client)),
        ("v1 byte by byte", bytes(proxy_v1(client, to)), split(client)),
        ("v1 of the other family in halves", halves(proxy_v1(other_client, other_to)), split(other_client)),
        ("v1 UNKNOWN", vec![unknown()], Outcome::Seen(own.clone())),
        ("v1 UNKNOWN in halves", halves(unknown()), unless_alone(Outcome::Seen(own.clone()))),
        (
            "v1 UNKNOWN with addresses, which are not read",
            vec![b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec()],
            unless_alone(Outcome::Seen(own.clone())),
        ),
        ("v2", vec![proxy_v2(client, to, &[])], seen(client)),
        ("v2 of the other family", vec![proxy_v2(other_client, other_to, &[])], seen(other_client)),
        ("v2 with further fields", vec![proxy_v2(client, to, fields)], seen(client)),
        ("v2 in halves", halves(proxy_v2(client, to, fields)), split(client)),
        ("v2 byte by byte", bytes(proxy_v2(client, to, &[])), split(client)),
        ("v2 of the other family in halves", halves(proxy_v2(other_client, other_to, &[])), split(other_client)),
        ("v2 with long fields", vec![proxy_v2(client, to, &long)], seen(client)),
        ("v2 with long fields in halves", halves(proxy_v2(client, to, &long)), split(client)),
        ("v2 LOCAL", vec![proxy_v2_local()], Outcome::Seen(own.clone())),
        ("v2 LOCAL in halves", halves(proxy_v2_local()), unless_alone(Outcome::Seen(own.clone()))),
        (
            "v2 without addresses",
            vec![{
                let mut header = proxy_v2_local();
                header[12] = 0x21;
                header
            }],
            unless_alone(Outcome::Seen(own)),
        ),
        ("nothing", vec![], Outcome::Refused),
        ("v1 with nonsense", vec![b"PROXY TCP4 x y 1 2\r\n".to_vec()], Outcome::Refused),
        ("v1 with an unknown family", vec![b"PROXY SCTP4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec()], Outcome::Refused),
        ("v1 without an end", vec![[b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat()], Outcome::Refused),
        ("v1 without an end in two pieces", vec![b"PROXY TCP4 1".to_vec(), vec![b'1'; 200]], Outcome::Refused),
        ("a beginning of v1", vec![b"PROX".to_vec()], Outcome::Refused),
        ("v1 in small letters", vec![b"proxy tcp4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec()], Outcome::Refused),
        ("v2 with a broken signature", vec![b"\r\n\r\n\0\r\nQUIX\n\x20\0\0\0".to_vec()], Outcome::Refused),
        (
            "v2 with another version",
            vec![{
                let mut header = proxy_v2(client, to, &[]);
                header[12] = 0x31;
                header
            }],
            Outcome::Refused,
        ),
    ]
}

#[test]
fn the_proxy_protocol_carries_the_client_for_both_families() {
    everywhere("proxy", "the PROXY protocol with a real HAProxy", proxy_protocol);
}

fn proxy_protocol(world: &World) {
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    let list = "haproxy.router.openshift.io/ip_allowlist";
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    world.route("allow", "allow.apps.test", "web", json!({}), json!({list: "198.51.100.0/24 2001:db8:a::/48"}));
    world.route("edge", "edge.apps.test", "web", json!({"tls": {"termination": "edge"}}), json!({}));
    // Longer than a busy machine takes to send a header byte by byte.
    let router = world.router("proxy", 8080, &[PROXY, ("ROUTER_INSPECT_DELAY", "30s")]);
    let port = router.ports.http;
    take_headers(world, port, true);
    for (at, address) in LOOPBACK.into_iter().enumerate() {
        // The allow list looks at the client, not at the load balancer.
        for (client, status) in [(CLIENTS[at], "200"), (if at == 0 { "203.0.113.9" } else { "2001:db8:b::9" }, "403")] {
            let header = proxy_v2(SocketAddr::new(ip(client), 1), SocketAddr::new(ip(address), port), &[]);
            let answer = world.ask((address, port), &[&header], "allow.apps.test", "/");
            assert!(answer.starts_with(&format!("http/1.1 {status}")), "{client}: {answer}");
        }
        // So does the log, and TLS that ends here.
        let logged =
            wait_for(PATIENCE, || router.process.output().contains(&format!("{}:4242 [", CLIENTS[at])).then_some(()));
        assert!(logged.is_some(), "{}", router.process.output());
        let bracketed = if at == 0 { address.to_owned() } else { format!("[{address}]") };
        let to = format!("edge.apps.test:{}:{bracketed}", router.ports.https);
        let url = format!("https://edge.apps.test:{}/", router.ports.https);
        let answer = world.curl(&["--haproxy-protocol", "--resolve", &to, &url]);
        assert!(
            answer.contains(&format!("x-forwarded-for: {address}")) && answer.contains("pod-0 answers"),
            "{answer}"
        );
        assert!(!world.curl(&["--resolve", &to, &url]).contains("pod-0"), "TLS without the header is refused");
        // Health probes go on without the header.
        for path in ["/healthz", "/healthz/ready"] {
            assert_eq!(world.get(address, router.ports.stats, path).expect("an answer"), 200, "{path}");
        }
    }

    // HAProxy alone does the same, but for headers in pieces.
    let alone = world.router("alone", 7080, &[PROXY, WHOLE]);
    take_headers(world, alone.ports.http, false);
    for (name, first, more) in [("trusted", 9080, None), ("trusted-alone", 9180, Some(WHOLE))] {
        let environment: Vec<(&str, &str)> = [Some(PROXY), Some(TRUSTED), more].into_iter().flatten().collect();
        trusted_senders(world, &world.router(name, first, &environment));
    }

    slow_answers_pass(world);

    // Every router has an entry of its own in the status of the same Route.
    let names = wait_for(PATIENCE, || {
        let printed = world.kubectl(&["get", "route", "web", "-o", "jsonpath={.status.ingress[*].routerName}"], "");
        let mut names: Vec<String> = printed.split_whitespace().map(str::to_owned).collect();
        names.sort();
        Some(names).filter(|names| names.len() >= 5)
    });
    assert_eq!(names.unwrap_or_default(), ["alone", "patient", "proxy", "trusted", "trusted-alone"]);
}

const PROXY: (&str, &str) = ("ROUTER_USE_PROXY_PROTOCOL", "true");
const TRUSTED: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "127.0.0.0/8,::1/128");
const WHOLE: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS", "false");

/// Begins connections in every way and looks at what becomes of them.
fn take_headers(world: &World, port: u16, split_headers: bool) {
    for (at, address) in LOOPBACK.into_iter().enumerate() {
        for (name, pieces, expected) in headers(at, SocketAddr::new(ip(address), port), split_headers) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            if !split_headers && pieces.len() > 1 {
                // HAProxy alone does not wait for the second piece. On a busy machine it may look late and find both.
                assert!(world.is_closed_after((address, port), pieces[0]), "{address} {name}: a part is refused");
                continue;
            }
            let answer = world.ask((address, port), &pieces, "web.apps.test", &format!("/{at}"));
            match expected {
                Outcome::Refused => assert_eq!(answer, "", "{address} {name}: the connection is refused"),
                Outcome::Seen(client) => {
                    assert!(answer.contains(&format!("x-forwarded-for: {client}\r\n")), "{address} {name}: {answer:?}");
                    let spelled = if client.contains(':') { format!("\"[{client}]\"") } else { client };
                    let forwarded = format!("forwarded: for={spelled};host=web.apps.test;proto=http\r\n");
                    assert!(answer.contains(&forwarded), "{address} {name}: {answer:?}");
                }
            }
        }
    }
}

/// A Route's own patience is not cut short by the router's on the way through HAProxy's frontends.
fn slow_answers_pass(world: &World) {
    let timeout = json!({"haproxy.router.openshift.io/timeout": "20s"});
    world.route("slow", "slow.apps.test", "web", json!({}), timeout.clone());
    world.route("slow-edge", "slow-edge.apps.test", "web", json!({"tls": {"termination": "edge"}}), timeout);
    let short = ["SERVER", "CLIENT", "TUNNEL"].map(|which| format!("ROUTER_DEFAULT_{which}_TIMEOUT"));
    let mut environment = vec![PROXY];
    environment.extend(short.iter().map(|name| (name.as_str(), "2s")));
    let router = world.router("patient", 6080, &environment);
    for (at, address) in LOOPBACK.into_iter().enumerate() {
        let to = SocketAddr::new(ip(address), router.ports.http);
        let header = proxy_v2(SocketAddr::new(ip(CLIENTS[at]), 4242), to, &[]);
        let slow = world.ask((address, router.ports.http), &[&header], "slow.apps.test", "/slow");
        assert!(slow.contains("pod-0 answers"), "{slow}");
        let cut = world.ask((address, router.ports.http), &[&header], "web.apps.test", "/slow");
        assert!(cut.contains("504 gateway"), "{cut}");
        let bracketed = if at == 0 { address.to_owned() } else { format!("[{address}]") };
        let to = format!("slow-edge.apps.test:{}:{bracketed}", router.ports.https);
        let url = format!("https://slow-edge.apps.test:{}/slow", router.ports.https);
        let slow = world.curl(&["--haproxy-protocol", "--resolve", &to, &url]);
        assert!(slow.contains("pod-0 answers"), "{slow}");
    }
}

/// With trusted senders the others are served plainly, and cannot pretend.
fn trusted_senders(world: &World, router: &Router) {
    let port = router.ports.http;
    for at in 0..2 {
        world.until((OWN[at], port), "web.apps.test", "/", &format!("x-forwarded-for: {}\r\n", OWN[at]));
        let header = proxy_v1(SocketAddr::new(ip(CLIENTS[at]), 1), SocketAddr::new(ip(LOOPBACK[at]), port));
        let answer = world.ask((LOOPBACK[at], port), &[&header], "web.apps.test", "/");
        assert!(answer.contains(&format!("x-forwarded-for: {}\r\n", CLIENTS[at])), "{answer}");
        assert_eq!(
            world.ask((LOOPBACK[at], port), &[], "web.apps.test", "/"),
            "",
            "a trusted sender must send the header"
        );
        let pretended = world.ask((OWN[at], port), &[&header], "web.apps.test", "/");
        assert!(pretended.starts_with("http/1.1 400"), "{pretended}");
        assert_eq!(world.get(LOOPBACK[at], router.ports.stats, "/healthz/ready").expect("an answer"), 200);
    }
}
