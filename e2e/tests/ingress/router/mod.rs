//! `twinstack router` with a real HAProxy in a network namespace, both families at once, on Twinstack's API server and on a
//! real one when `KUBE_APISERVER` names it.

mod certificates;
mod proxy_protocol;
mod reload;

use e2e::{
    Process,
    haproxy::{
        Api, CLIENTS, LOOPBACK, Load, OWN, PATIENCE, POD_PORT, PODS, Ports, Router, World, ip, missing, proxy_v1,
        proxy_v2, proxy_v2_local, tool,
    },
    wait_for,
};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

/// Runs a test in a world of its own for each API server that is there.
fn everywhere(name: &str, what: &str, test: fn(&World)) {
    match missing() {
        Some(how) => e2e::skip(what, how),
        None => Api::all().into_iter().for_each(|api| test(&World::new(name, api))),
    }
}

#[test]
fn routes_answer_over_both_families_and_change_without_a_gap() {
    everywhere("plain", "the router with a real HAProxy", answers_without_a_gap);
}

fn answers_without_a_gap(world: &World) {
    (0..3).for_each(|pod| world.pod(pod, POD_PORT));
    world.service("web", &[0], POD_PORT);
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    // By default a kept connection may be ended while its next request is on the way; Deferred promises that none is.
    let deferred = [("ROUTER_IDLE_CLOSE_ON_RESPONSE", "true")];
    let mut router = world.router("plain", 8080, &deferred);
    let ports = router.ports;
    for address in LOOPBACK.into_iter().chain(OWN) {
        world.until((address, ports.http), "Web.Apps.test:8080", "/x", "pod-0 answers");
        assert_eq!(world.get(address, ports.stats, "/healthz").expect("an answer"), 200);
        assert_eq!(world.get(address, ports.stats, "/healthz/ready").expect("an answer"), 200);
    }
    assert!(world.ask((LOOPBACK[0], ports.http), &[], "none.apps.test", "/").starts_with("http/1.1 503"));
    let admitted = r#"jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].host} {.status.ingress[0].routerCanonicalHostname}"#;
    let status = wait_for(PATIENCE, || {
        Some(world.kubectl(&["get", "route", "web", "-o", admitted], "")).filter(|text| text.contains("True"))
    });
    assert_eq!(status.as_deref(), Some("True web.apps.test router.apps.test"));

    // New Routes and other endpoints come without a reload, under load.
    let before = router.generations();
    let load = Load::new(world, ports.http, "web.apps.test");
    world.route("second", "second.apps.test", "web", json!({}), json!({}));
    world.until((LOOPBACK[0], ports.http), "second.apps.test", "/", "pod-0 answers");
    world.route(
        "edge",
        "edge.apps.test",
        "web",
        json!({"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"}}),
        json!({}),
    );
    world.until((LOOPBACK[1], ports.http), "edge.apps.test", "/a?b", "location: https://edge.apps.test/a?b");
    // Whoever names the router's own port comes to its own port.
    let beside = format!("location: https://edge.apps.test:{}/\r\n", ports.https);
    world.until((LOOPBACK[0], ports.http), "edge.apps.test:8080", "/", &beside);
    for (flag, address) in [("-4", "127.0.0.1"), ("-6", "[::1]")] {
        let to = format!("edge.apps.test:{}:{address}", ports.https);
        let url = format!("https://edge.apps.test:{}/deep", ports.https);
        let answer = world.curl(&[flag, "--resolve", &to, &url]);
        assert!(answer.contains("pod-0 answers") && answer.contains("set-cookie: router-server="), "{answer}");
        assert!(answer.contains("x-forwarded-proto: https"), "{answer}");
    }
    world.slices("web", &[1], POD_PORT);
    for address in LOOPBACK {
        world.until((address, ports.http), "web.apps.test", "/", "pod-1 answers");
    }
    world.kubectl(&["delete", "route", "second"], "");
    world.until((LOOPBACK[0], ports.http), "second.apps.test", "/", "503 service unavailable");
    assert_eq!(router.generations(), before, "no reload: {}", router.process.output());

    // What needs a reload gets one, and nobody is refused or cut.
    for number in 0..5 {
        let name = format!("special-{number}");
        let host = format!("{name}.apps.test");
        world.route(
            &name,
            &host,
            "web",
            json!({"path": "/p"}),
            json!({"haproxy.router.openshift.io/balance": "leastconn"}),
        );
        world.until((LOOPBACK[number % 2], ports.http), &host, "/p/x", "pod-1 answers");
        assert!(world.ask((LOOPBACK[0], ports.http), &[], &host, "/px").starts_with("http/1.1 503"));
    }
    comes_to(&router, before + 5);
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // The router dies: HAProxy goes on, and the next router takes over under load.
    let load = Load::new(world, ports.http, "web.apps.test");
    router.process.kill();
    for address in LOOPBACK {
        world.until((address, ports.http), "web.apps.test", "/", "pod-1 answers");
    }
    world.slices("web", &[1, 2], POD_PORT);
    let mut router = world.router("plain", 8080, &deferred);
    world.until((LOOPBACK[1], ports.http), "web.apps.test", "/", "pod-2 answers");
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // Told to stop it fails its readiness first, and HAProxy ends with it.
    let ended = router.process.terminate(Duration::from_secs(60));
    assert!(ended.is_some_and(|status| status.success()), "{}", router.process.output());
    assert!(world.connect(LOOPBACK[0], ports.http).is_err(), "HAProxy has ended");
}

#[test]
fn routes_do_what_they_ask_for() {
    everywhere("features", "the router's features with a real HAProxy", features);
}

fn features(world: &World) {
    (0..3).for_each(|pod| world.pod(pod, POD_PORT));
    world.service("web", &[0], POD_PORT);
    world.service("pair", &[1, 2], POD_PORT);
    let haproxy = |name: &str| format!("haproxy.router.openshift.io/{name}");
    world.route(
        "allow",
        "allow.apps.test",
        "web",
        json!({}),
        json!({haproxy("ip_allowlist"): "192.0.2.0/24 2001:db8::/64"}),
    );
    world.route("nobody", "nobody.apps.test", "web", json!({}), json!({haproxy("ip_allowlist"): "nothing-valid"}));
    world.route(
        "rewrite",
        "rewrite.apps.test",
        "web",
        json!({"path": "/foo"}),
        json!({haproxy("rewrite-target"): "/bar"}),
    );
    let headers = json!({"actions": {"request": [{"name": "X-Quote", "action": {"type": "Set", "set": {"value": "it's \"50%%\" # {x} %[req.hdr(host),lower]"}}}],
        "response": [{"name": "X-Answer", "action": {"type": "Set", "set": {"value": "yes; no"}}}]}});
    world.route("headers", "headers.apps.test", "web", json!({"httpHeaders": headers}), json!({}));
    world.route("sticky", "sticky.apps.test", "pair", json!({}), json!({}));
    world.route("bad", "bad.apps.test", "web", json!({}), json!({haproxy("timeout"): "1s\n  http-request deny"}));
    for (name, pod) in [("one", 1), ("two", 2)] {
        world.service(name, &[pod], POD_PORT);
    }
    for (name, host, service, more) in [
        ("root", "paths.apps.test", "web", json!({})),
        ("foo", "paths.apps.test", "one", json!({"path": "/foo"})),
        ("below", "paths.apps.test", "two", json!({"path": "/foo/bar/"})),
        ("wild", "any.wild.test", "one", json!({"wildcardPolicy": "Subdomain"})),
        ("own", "own.wild.test", "two", json!({})),
    ] {
        world.route(name, host, service, more, json!({}));
    }
    for policy in ["append", "replace", "if-none", "never"] {
        let host = format!("{policy}.apps.test");
        world.route(policy, &host, "web", json!({}), json!({haproxy("set-forwarded-headers"): policy}));
    }
    let router = world.router("features", 8080, &[("ROUTER_ALLOW_WILDCARD_ROUTES", "true")]);
    let port = router.ports.http;
    requests_find_their_route(world, port);
    pods_are_told_who_asks(world, port);

    for at in 0..2 {
        world.until((OWN[at], port), "allow.apps.test", "/", "pod-0 answers");
        assert!(world.ask((LOOPBACK[at], port), &[], "allow.apps.test", "/").starts_with("http/1.1 403"));
        assert!(
            world.ask((OWN[at], port), &[], "nobody.apps.test", "/").starts_with("http/1.1 403"),
            "nobody may come in"
        );
        let forwarded = world.ask((OWN[at], port), &[], "allow.apps.test", "/");
        assert!(forwarded.contains(&format!("x-forwarded-for: {}\r\n", OWN[at])), "{forwarded}");
        let spelled = if at == 0 { OWN[0].to_owned() } else { format!("\"[{}]\"", OWN[1]) };
        assert!(
            forwarded.contains(&format!("forwarded: for={spelled};host=allow.apps.test;proto=http\r\n")),
            "{forwarded}"
        );
    }
    for (path, expected) in
        [("/foo", "get /bar "), ("/foo/", "get /bar/ "), ("/foo/x?y=1", "get /bar/x?y=1 "), ("/foox", "503 service")]
    {
        let answer = world.ask((LOOPBACK[0], port), &[], "rewrite.apps.test", path);
        assert!(answer.contains(expected), "{path}: {answer}");
    }
    let answer = world.ask((LOOPBACK[1], port), &[], "headers.apps.test", "/");
    assert!(answer.contains("x-quote: it's \"50%\" # {x} headers.apps.test\r\n"), "{answer}");
    assert!(answer.contains("x-answer: yes; no\r\n"), "{answer}");

    // The cookie brings a client back to its pod, whichever family it comes by.
    let answer = world.ask((LOOPBACK[0], port), &[], "sticky.apps.test", "/");
    let cookie =
        answer.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next()).expect("a cookie").to_owned();
    let pod = answer.split("pod-").nth(1).map(|rest| rest[..1].to_owned()).expect("a pod");
    for number in 0..10 {
        let path = format!("/ HTTP/1.1\r\nHost: sticky.apps.test\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
        let mut stream = world.connect(LOOPBACK[number % 2], port).expect("a connection");
        stream.write_all(format!("GET {path}").as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.contains(&format!("pod-{pod} answers")), "{text}");
    }

    // A wish that would break out of the configuration is named with its field, and the Route is served without it.
    let condition = "jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].conditions[0].reason} {.status.ingress[0].conditions[0].message}";
    let text = wait_for(PATIENCE, || {
        Some(world.kubectl(&["get", "route", "bad", "-o", condition], "")).filter(|text| !text.trim().is_empty())
    });
    let text = text.expect("a status");
    assert!(
        text.starts_with("True PartlyServed metadata.annotations[haproxy.router.openshift.io/timeout]: "),
        "{text}"
    );
    LOOPBACK.iter().for_each(|address| world.until((address, port), "bad.apps.test", "/", " answers"));

    passthrough_and_reencrypt(world, &router);
    replicas_do_not_fight(world);
}

/// A second router of the same name writes what is written already: nothing.
fn replicas_do_not_fight(world: &World) {
    let versions = || world.kubectl(&["get", "routes", "-o", "jsonpath={.items[*].metadata.resourceVersion}"], "");
    let admitted = || {
        let names = world.kubectl(&["get", "routes", "-o", "jsonpath={.items[*].status.ingress[*].routerName}"], "");
        let routes = versions().split_whitespace().count();
        (names.split_whitespace().filter(|name| *name == "features").count() == routes).then_some(())
    };
    wait_for(PATIENCE, admitted).expect("every Route has its status");
    let before = versions();
    let again = [("ROUTER_SERVICE_NAME", "features"), ("ROUTER_ALLOW_WILDCARD_ROUTES", "true")];
    let _replica = world.router("replica", 9080, &again);
    nothing_happens_meanwhile();
    assert_eq!(versions(), before);
}

/// Hosts and paths as requests have them, and the Route that each finds.
fn requests_find_their_route(world: &World, port: u16) {
    for (host, path, expected) in [
        ("paths.apps.test", "/", "pod-0 answers"),
        ("paths.apps.test", "/x", "pod-0 answers"),
        ("paths.apps.test", "/?foo", "pod-0 answers"),
        ("paths.apps.test", "/foo", "pod-1 answers"),
        ("paths.apps.test", "/foo/", "pod-1 answers"),
        ("paths.apps.test", "/foo?x=/y", "pod-1 answers"),
        ("paths.apps.test", "/foobar", "pod-0 answers"),
        ("paths.apps.test", "/FOO", "pod-0 answers"),
        ("paths.apps.test", "/foo/bar", "pod-1 answers"),
        ("paths.apps.test", "/foo/bar/", "pod-2 answers"),
        ("paths.apps.test", "/foo/bar/x", "pod-2 answers"),
        ("paths.apps.test", "/foo/barx", "pod-1 answers"),
        ("Paths.APPS.test", "/foo", "pod-1 answers"),
        ("paths.apps.test:8080", "/foo", "pod-1 answers"),
        ("paths.apps.test.", "/foo", "pod-1 answers"),
        ("paths.apps.test.:80", "/foo", "pod-1 answers"),
        ("xpaths.apps.test", "/foo", "503 service"),
        ("apps.test", "/", "503 service"),
        ("any.wild.test", "/", "pod-1 answers"),
        ("other.wild.test", "/x", "pod-1 answers"),
        ("own.wild.test", "/", "pod-2 answers"),
        ("a.b.wild.test", "/", "503 service"),
        ("wild.test", "/", "503 service"),
    ] {
        for address in LOOPBACK {
            let answer = world.ask((address, port), &[], host, path);
            assert!(answer.contains(expected), "{host}{path} at {address}: {expected:?} is not in {answer:?}");
        }
    }
}

/// The four policies, with a client that brings headers of its own.
fn pods_are_told_who_asks(world: &World, port: u16) {
    for (policy, expected) in [
        ("append", &["203.0.113.1", "client"][..]),
        ("replace", &["client"]),
        ("if-none", &["203.0.113.1"]),
        ("never", &["203.0.113.1"]),
    ] {
        for address in LOOPBACK {
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {policy}.apps.test\r\nX-Forwarded-For: 203.0.113.1\r\nConnection: close\r\n\r\n"
            );
            let mut stream = world.connect(address, port).expect("a connection");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("an answer");
            let values: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("x-forwarded-for: ")).collect();
            let expected: Vec<&str> =
                expected.iter().map(|value| if *value == "client" { address } else { *value }).collect();
            assert_eq!(values, expected, "{policy} {address}: {text}");
            assert_eq!(text.contains("x-forwarded-proto: http"), policy != "never", "{policy}: {text}");
        }
    }
}

/// Pods that end TLS themselves: a real one, from OpenSSL.
fn passthrough_and_reencrypt(world: &World, router: &Router) {
    let Some(openssl) = tool("openssl") else {
        e2e::skip("passthrough and reencrypt", "apt-get install openssl");
        return;
    };
    let now = std::time::SystemTime::now();
    let authority = runtime::pki::Authority::create("pods", now).expect("an authority");
    let purpose = runtime::pki::Purpose::Serving { names: vec!["pass.apps.test".to_owned()], addresses: Vec::new() };
    let identity = authority.issue(&purpose, now).expect("an identity");
    let folder = world.folder.path();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (chain, key) = (write("pod.crt", identity.chain_pem()), write("pod.key", identity.key_pem().expose()));
    let _pods: Vec<Process> = PODS[0]
        .iter()
        .map(|address| {
            let at = if address.contains(':') { format!("[{address}]:8443") } else { format!("{address}:8443") };
            let program = openssl.display().to_string();
            let words = [
                "netns",
                "exec",
                world.space.name(),
                &program,
                "s_server",
                "-quiet",
                "-www",
                "-accept",
                &at,
                "-cert",
                &chain,
                "-key",
                &key,
            ];
            Process::start("ip", &words, &folder.join(format!("s_server-{}.log", address.len())))
        })
        .collect();
    world.service("tls", &[0], 8443);
    let before = router.generations();
    world.route("pass", "pass.apps.test", "tls", json!({"tls": {"termination": "passthrough"}}), json!({}));
    let ca = authority.certificate_pem();
    world.route(
        "again",
        "again.apps.test",
        "tls",
        json!({"tls": {"termination": "reencrypt", "destinationCACertificate": ca}}),
        json!({}),
    );
    let strangers = runtime::pki::Authority::create("strangers", now).expect("an authority");
    let ca_file = write("pods-ca.crt", ca);
    world.route(
        "wrong",
        "wrong.apps.test",
        "tls",
        json!({"tls": {"termination": "reencrypt", "destinationCACertificate": strangers.certificate_pem()}}),
        json!({}),
    );
    for (flag, address) in [("-4", "127.0.0.1"), ("-6", "[::1]")] {
        let ask = |host: &str, more: &[&str]| {
            let to = format!("{host}:{}:{address}", router.ports.https);
            let url = format!("https://{host}:{}/", router.ports.https);
            let mut words = vec!["-s", "-i", "--max-time", "30", flag, "--resolve", &to];
            words.extend(more);
            words.push(&url);
            world.space.run("curl", &words, "").map(|printed| printed.stdout.to_lowercase()).unwrap_or_default()
        };
        // The client sees the pod's own certificate.
        let passed = wait_for(PATIENCE, || {
            Some(ask("pass.apps.test", &["--cacert", &ca_file])).filter(|text| text.contains("200 ok"))
        });
        assert!(passed.is_some(), "{flag} {}\n{}", ask("pass.apps.test", &["-k", "-v"]), router.process.output());
        let again = wait_for(PATIENCE, || Some(ask("again.apps.test", &["-k"])).filter(|text| text.contains(" 200 ")));
        assert!(again.is_some(), "{flag} {}\n{}", ask("again.apps.test", &["-k"]), router.process.output());
        let wrong = ask("wrong.apps.test", &["-k"]);
        assert!(wrong.contains("503"), "a pod that cannot prove its name is not used: {wrong}");
    }
    assert_eq!(router.generations(), before, "all of them on spare backends: {}", router.process.output());
}

/// HAProxy has been started or replaced this often. It may answer before the router says so.
fn comes_to(router: &Router, generations: usize) {
    let there = wait_for(PATIENCE, || (router.generations() >= generations).then_some(()));
    assert!(there.is_some() && router.generations() == generations, "{}", router.process.output());
}

/// A pause in which nothing should happen, longer than the router needs to look after things twice.
fn nothing_happens_meanwhile() {
    wait_for(Duration::from_secs(3), || None::<()>);
}
