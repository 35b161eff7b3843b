//! `twinstack router` with a real HAProxy in a network namespace, both families at once, on Twinstack's API server and on a
//! real one when `KUBE_APISERVER` names it.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

use e2e::haproxy::{
    Api, CLIENTS, LOOPBACK, Load, OWN, PATIENCE, POD_PORT, PODS, Ports, Router, World, ip, missing, proxy_v1, proxy_v2,
    proxy_v2_local, tool,
};
use e2e::{Process, wait_for};
use serde_json::json;

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
    let mut router = world.router("plain", 8080, &[]);
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
    world.until((LOOPBACK[0], ports.http), "edge.apps.test:8080", "/", "location: https://edge.apps.test/\r\n");
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
    let mut router = world.router("plain", 8080, &[]);
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

    // A Route that would break out of the configuration is refused, with its field, and the others are served.
    let condition = "jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].conditions[0].reason} {.status.ingress[0].conditions[0].message}";
    let text = wait_for(PATIENCE, || {
        Some(world.kubectl(&["get", "route", "bad", "-o", condition], "")).filter(|text| !text.trim().is_empty())
    });
    let text = text.expect("a status");
    assert!(
        text.starts_with("False ExtendedValidationFailed metadata.annotations[haproxy.router.openshift.io/timeout]: "),
        "{text}"
    );
    assert!(world.ask((LOOPBACK[0], port), &[], "bad.apps.test", "/").starts_with("http/1.1 503"));

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

#[test]
fn wishes_and_shares_change_without_a_reload() {
    everywhere("tuned", "changes of the running HAProxy", changes_without_a_reload);
}

fn changes_without_a_reload(world: &World) {
    (0..3).for_each(|pod| world.pod(pod, POD_PORT));
    for (name, pod) in [("web", 0), ("one", 1), ("two", 2)] {
        world.service(name, &[pod], POD_PORT);
    }
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    let router = world.router("tuned", 8080, &[]);
    let port = router.ports.http;
    let before = router.generations();
    let load = Load::new(world, port, "web.apps.test");
    let haproxy = |name: &str, value: &str| json!({format!("haproxy.router.openshift.io/{name}"): value});

    // A path of a host that is there already, with its cookie; a time for an answer comes, and goes again.
    let slow = |annotations| world.route("slow", "web.apps.test", "one", json!({"path": "/slow"}), annotations);
    slow(json!({}));
    for address in LOOPBACK {
        world.until((address, port), "web.apps.test", "/slow", "set-cookie: router-server=");
        let answer = world.ask((address, port), &[], "web.apps.test", "/slow/x");
        assert!(answer.contains("pod-1 answers") && answer.contains("; path=/slow; httponly"), "{answer}");
        let whole = world.ask((address, port), &[], "web.apps.test", "/slower");
        assert!(whole.contains("pod-0 answers") && whole.contains("; path=/; httponly"), "{whole}");
    }
    slow(haproxy("timeout", "1s"));
    LOOPBACK.iter().for_each(|address| world.until((address, port), "web.apps.test", "/slow", "504 gateway"));
    slow(haproxy("timeout", "20s"));
    LOOPBACK.iter().for_each(|address| world.until((address, port), "web.apps.test", "/slow", "pod-1 answers"));

    // Who may come in.
    for (list, own, loopback) in [
        (Some("192.0.2.0/24 2001:db8::/64"), "pod-0 answers", "403 forbidden"),
        (Some("127.0.0.0/8 ::1"), "403 forbidden", "pod-0 answers"),
        (Some("nobody"), "403 forbidden", "403 forbidden"),
        (None, "pod-0 answers", "pod-0 answers"),
    ] {
        let annotations = list.map_or_else(|| json!({}), |list| haproxy("ip_allowlist", list));
        world.route("list", "list.apps.test", "web", json!({}), annotations);
        for at in 0..2 {
            world.until((OWN[at], port), "list.apps.test", "/", own);
            world.until((LOOPBACK[at], port), "list.apps.test", "/", loopback);
        }
    }

    // How several Services share.
    for (shares, seen) in
        [([1, 0], [true, false]), ([0, 1], [false, true]), ([1, 1], [true, true]), ([1, 0], [true, false])]
    {
        let more = json!({"to": {"kind": "Service", "name": "one", "weight": shares[0]},
            "alternateBackends": [{"kind": "Service", "name": "two", "weight": shares[1]}]});
        world.route("split", "split.apps.test", "one", more, json!({}));
        for address in LOOPBACK {
            let found = wait_for(PATIENCE, || {
                let answers: Vec<String> =
                    (0..8).map(|_| world.ask((address, port), &[], "split.apps.test", "/")).collect();
                let found = ["pod-1 answers", "pod-2 answers"].map(|pod| answers.iter().any(|text| text.contains(pod)));
                (found == seen).then_some(())
            });
            assert!(found.is_some(), "{shares:?} at {address}");
        }
    }

    // An Ingress with paths.
    world.apply(&json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "ours"},
        "spec": {"controller": "twinstack.dev/router"}}));
    let path = |path: &str, service: &str, kind: &str| json!({"path": path, "pathType": kind, "backend": {"service": {"name": service, "port": {"number": 80}}}});
    let paths = [path("/", "web", "Prefix"), path("/a", "one", "Prefix"), path("/a/b", "two", "Exact")];
    world.apply(&json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "ingress"},
        "spec": {"ingressClassName": "ours", "rules": [{"host": "ingress.apps.test", "http": {"paths": paths}}]}}));
    for (path, expected) in [("/", 0), ("/a", 1), ("/a/", 1), ("/a/b", 2), ("/a/b/", 1), ("/ab", 0)] {
        for address in LOOPBACK {
            world.until((address, port), "ingress.apps.test", path, &format!("pod-{expected} answers"));
        }
    }

    // What goes leaves nothing behind for the next one.
    world.kubectl(&["delete", "route", "slow", "list"], "");
    LOOPBACK.iter().for_each(|address| world.until((address, port), "list.apps.test", "/", "503 service"));
    assert_eq!(router.generations(), before, "no reload: {}", router.process.output());
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // The next reload, for something that needs one, brings all of it along.
    world.route("least", "least.apps.test", "web", json!({}), haproxy("balance", "leastconn"));
    for address in LOOPBACK {
        world.until((address, port), "least.apps.test", "/", "pod-0 answers");
        world.until((address, port), "split.apps.test", "/", "pod-1 answers");
        world.until((address, port), "ingress.apps.test", "/a/b", "pod-2 answers");
    }
    comes_to(&router, before + 1);
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

/// A folder goes with all that is in it in one step: removed piece by piece, it may be seen with half of it.
fn gone_at_once(world: &World, folder: &Path) {
    let aside = tempfile::tempdir_in(world.folder.path()).expect("a folder");
    std::fs::rename(folder, aside.path().join("gone")).expect("removed");
}

#[test]
fn a_router_that_lost_what_it_needs_neither_goes_round_in_circles_nor_stays_for_ever() {
    if let Some(how) = missing() {
        e2e::skip("a router that was left behind", how);
        return;
    }
    let mut world = World::new("lost", Api::Own);
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    // The folder of the default certificate is not there, and then the API server goes as well.
    let certificate = world.folder.path().join("certificate").display().to_string();
    let mut router = world.router("lost", 8080, &[("DEFAULT_CERTIFICATE_DIR", &certificate)]);
    let Ports { http, .. } = router.ports;
    nothing_happens_meanwhile();
    world.end_api();
    nothing_happens_meanwhile();
    assert_eq!(router.generations(), 1, "{}", router.process.output());

    // The working folder goes: it is made again, and the HAProxy that served from it is replaced.
    gone_at_once(&world, &router.folder);
    comes_to(&router, 2);
    LOOPBACK.iter().for_each(|address| world.until((address, http), "web.apps.test", "/", "pod-0 answers"));
    nothing_happens_meanwhile();
    assert_eq!(router.generations(), 2, "{}", router.process.output());
    let one = wait_for(PATIENCE, || (world.haproxies().len() == 1).then_some(()));
    assert!(one.is_some(), "{:?}", world.haproxies());

    // It goes with what held it: nobody is left who could want this router.
    gone_at_once(&world, router.folder.parent().expect("a folder above"));
    let ended = router.process.ended(PATIENCE);
    assert!(ended.is_some_and(|status| !status.success()), "{}", router.process.output());
    assert!(
        router.process.output().contains("was removed together with the folder it was in"),
        "{}",
        router.process.output()
    );
    let none = wait_for(PATIENCE, || world.haproxies().is_empty().then_some(()));
    assert!(none.is_some(), "{:?}", world.haproxies());
}

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

#[test]
fn a_configuration_that_is_refused_leaves_the_last_one_and_is_tried_later_each_time() {
    if let Some(how) = missing() {
        e2e::skip("a configuration that HAProxy refuses", how);
        return;
    }
    let world = World::new("refused", Api::Own);
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    // A HAProxy that refuses everything while a file is there.
    let (program, broken) = (world.folder.path().join("haproxy.sh"), world.folder.path().join("broken"));
    let real = tool("haproxy").expect("checked");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in -c) [ ! -e {} ] || exit 1;; esac\nexec {} \"$@\"\n",
        broken.display(),
        real.display()
    );
    std::fs::write(&program, script).expect("a file");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let program = program.display().to_string();
    let router = world.router("refused", 8080, &[("HAPROXY", &program)]);
    let Ports { http, stats, .. } = router.ports;
    std::fs::write(&broken, "").expect("a file");
    let special = json!({"haproxy.router.openshift.io/balance": "leastconn"});
    world.route("special", "special.apps.test", "web", json!({}), special);
    let failures = || router.process.output().matches("HAProxy was not replaced").count();
    let failed = wait_for(PATIENCE, || (failures() > 0).then_some(()));
    assert!(failed.is_some(), "{}", router.process.output());
    nothing_happens_meanwhile();
    // A second, two, four and so on apart; at the interval of reloads it would be dozens.
    assert!(failures() <= 6, "{} attempts", failures());
    assert!(router.folder.join("refused/haproxy.cfg").is_file(), "kept for whoever wants to know");
    for address in LOOPBACK {
        world.until((address, http), "web.apps.test", "/", "pod-0 answers");
        assert_eq!(world.get(address, stats, "/healthz/ready").expect("an answer"), 200);
        let metrics = world.ask((address, stats), &[], "x", "/metrics");
        assert!(metrics.contains("template_router_reload_failure 1"), "{metrics}");
    }
    assert_eq!(router.generations(), 1);
    std::fs::remove_file(&broken).expect("removed");
    LOOPBACK.iter().for_each(|address| world.until((address, http), "special.apps.test", "/", "pod-0 answers"));
    comes_to(&router, 2);

    // A HAProxy that ends by itself is started again, with everything.
    world.kill_haproxies();
    for (address, host) in
        LOOPBACK.iter().flat_map(|address| ["web.apps.test", "special.apps.test"].map(|host| (address, host)))
    {
        let ask = || world.try_ask((address, http), &[], host, "/").ok();
        let answers = wait_for(PATIENCE, || ask()?.contains("pod-0 answers").then_some(()));
        assert!(answers.is_some(), "{host} at {address}: {:?}\n{}", ask(), router.process.output());
    }
    // Whoever has answered goes on.
    for host in ["web.apps.test", "special.apps.test"] {
        LOOPBACK.iter().for_each(|address| world.until((address, http), host, "/", "pod-0 answers"));
    }
    comes_to(&router, 3);
}
