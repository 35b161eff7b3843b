//! What `twinstack router` does not let in: requests that could be read in two ways, hosts of others, Secrets that nobody named; and what its
//! HAProxy may touch. With a real HAProxy in a network namespace, both families, HTTP and TLS.

mod requests;
mod up;

use e2e::{
    account,
    haproxy::{Api, LOOPBACK, OWN, PATIENCE, POD_PORT, Router, World, missing, proxy_v1},
    wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::Duration,
};

/// Runs a test in a world of its own for each API server that is there.
fn everywhere(name: &str, what: &str, test: fn(&World)) {
    match missing() {
        Some(how) => e2e::skip(what, how),
        None => Api::all().into_iter().for_each(|api| test(&World::new(name, api))),
    }
}

/// What comes back for these bytes, in lower case; a connection that is closed answers nothing.
fn raw(world: &World, address: &str, port: u16, bytes: &[u8]) -> String {
    let mut stream = world.connect(address, port).expect("the router listens");
    let mut answer = Vec::new();
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// curl to a port of the router at this address, whatever the URL's host.
fn curl(world: &World, address: &str, port: u16, words: &[&str], url: &str) -> String {
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let to = format!("::{address}:{port}");
    let mut all = vec!["--connect-to", to.as_str(), "--path-as-is"];
    all.extend(words);
    all.push(url);
    world.curl(&all)
}

/// Chain and key for a name.
fn certificate(name: &str) -> (String, String) {
    let now = std::time::SystemTime::now();
    let authority = runtime::pki::Authority::create("test", now).expect("an authority");
    let purpose = runtime::pki::Purpose::Serving { names: vec![name.to_owned()], addresses: Vec::new() };
    let identity = authority.issue(&purpose, now).expect("an identity");
    (identity.chain_pem().to_owned(), identity.key_pem().expose().clone())
}

/// A Service in another namespace, and an Ingress of the router's class.
fn somebody_else(world: &World, name: &str, spec: &Value) {
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    world.apply(&json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "ours"},
        "spec": {"controller": "twinstack.dev/router"}}));
    world.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "other"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}]}}));
    world.apply(&json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web", "namespace": "other", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": POD_PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [e2e::haproxy::PODS[1][0]], "conditions": {"ready": true}}]}));
    let mut spec = spec.clone();
    spec["ingressClassName"] = json!("ours");
    world.apply(&json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "other"}, "spec": spec}));
}

#[test]
fn a_claimed_host_never_falls_to_a_rule_without_host() {
    everywhere("hostless", "rules without a host with a real HAProxy", hostless);
}

fn hostless(world: &World) {
    (0..2).for_each(|pod| world.pod(pod, POD_PORT));
    world.service("web", &[0], POD_PORT);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    // Older than all claims, and for TLS as well.
    somebody_else(world, "all", &json!({"defaultBackend": backend}));
    somebody_else(
        world,
        "tls",
        &json!({"tls": [{}], "rules": [{"http": {"paths": [{"path": "/tls", "pathType": "Prefix", "backend": backend}]}}]}),
    );
    let edge = json!({"termination": "edge"});
    world.route("path", "path.test", "web", json!({"path": "/x"}), json!({}));
    world.route("edge", "edge.test", "web", json!({"path": "/x", "tls": edge}), json!({}));
    world.route("wild", "any.wild.test", "web", json!({"path": "/x", "wildcardPolicy": "Subdomain"}), json!({}));
    let router = world.router("hostless", 8080, &[("ROUTER_ALLOW_WILDCARD_ROUTES", "true")]);
    let (http, https) = (router.ports.http, router.ports.https);
    let later = |host: &str| world.until((LOOPBACK[0], http), host, "/", "pod-1 answers");
    later("later.test");
    for address in LOOPBACK {
        for (host, path, expected) in [
            ("nobody.test", "/", "pod-1 answers"),
            ("path.test", "/x", "pod-0 answers"),
            ("path.test", "/", "503 service"),
            ("path.test.:80", "/y", "503 service"),
            ("PATH.test", "/y", "503 service"),
            ("edge.test", "/x", "503 service"),
            ("edge.test", "/", "503 service"),
            ("a.wild.test", "/x", "pod-0 answers"),
            ("a.wild.test", "/", "503 service"),
            ("a.b.wild.test", "/", "pod-1 answers"),
        ] {
            world.until((address, http), host, path, expected);
        }
        for (host, path, expected) in [
            ("nobody.test", "/tls", "pod-1 answers"),
            ("edge.test", "/x", "pod-0 answers"),
            ("edge.test", "/tls", "503 service"),
            ("path.test", "/tls", "503 service"),
            ("a.wild.test", "/tls", "503 service"),
        ] {
            let found = wait_for(PATIENCE, || {
                Some(curl(world, address, https, &["--http1.1"], &format!("https://{host}{path}")))
                    .filter(|answer| answer.contains(expected))
            });
            assert!(found.is_some(), "https://{host}{path} at {address}: {expected:?} does not come");
        }
    }
    // A host that is claimed while HAProxy runs is no longer everybody's, and is again when the claim goes.
    let before = router.generations();
    world.route("later", "later.test", "web", json!({"path": "/x", "tls": edge}), json!({}));
    for address in LOOPBACK {
        world.until((address, http), "later.test", "/", "503 service");
    }
    world.kubectl(&["delete", "route", "later"], "");
    later("later.test");
    assert_eq!(router.generations(), before, "{}", router.process.output());
    refused_without_wildcards(world);
}

/// A router that allows no wildcards, or only some domains, serves no rule without a host and says why.
fn refused_without_wildcards(world: &World) {
    let allowed = [("ROUTER_ALLOW_WILDCARD_ROUTES", "true"), ("ROUTER_DENIED_DOMAINS", "denied.test")];
    for (name, first, environment) in [("strict", 8180, &[][..]), ("domains", 8280, &allowed[..])] {
        let router = world.router(name, first, environment);
        for address in LOOPBACK {
            world.until((address, router.ports.http), "path.test", "/x", "pod-0 answers");
            for host in ["nobody.test", "x.denied.test", "path.test"] {
                let answer = world.ask((address, router.ports.http), &[], host, "/");
                assert!(answer.starts_with("http/1.1 503"), "{host} at {address}: {answer}");
            }
        }
    }
    let reported = wait_for(PATIENCE, || {
        let events = world.kubectl(&["-n", "other", "get", "events", "-o", "jsonpath={.items[*].message}"], "");
        events.contains("without a host it is for every host").then_some(())
    });
    assert!(reported.is_some(), "an event says why");
}

/// The HAProxy of a router that serves now.
fn haproxy(router: &Router) -> String {
    std::fs::read_to_string(router.folder.join("haproxy.pid")).expect("a process id").trim().to_owned()
}

/// Whether HAProxy is somebody else than root, sees its folder of sockets alone, and can put nothing in.
fn is_locked_in(router: &Router) {
    let pid = haproxy(router);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    for word in ["Uid:", "Gid:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(word)).expect("a line");
        let ids: Vec<u32> = line.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        assert!(ids.len() == 4 && ids.iter().all(|id| *id != 0 && *id == ids[0]), "{word} {ids:?}");
    }
    let none =
        |word: &str| status.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default().trim().to_owned();
    assert_eq!(none("Groups:"), "", "no other groups");
    assert_eq!(none("CapEff:"), "0000000000000000");
    let root = std::fs::read_link(format!("/proc/{pid}/root")).expect("a root");
    assert_eq!(root, router.folder.join("run").canonicalize().expect("a folder"), "{}", router.process.output());
    let (folder, whole) =
        (std::fs::metadata(&root).expect("a folder"), std::fs::metadata(&router.folder).expect("a folder"));
    assert_eq!((folder.uid(), folder.mode() & 0o777), (0, 0o711));
    assert_eq!((whole.uid(), whole.mode() & 0o777), (0, 0o700));
    for entry in std::fs::read_dir(&root).expect("a folder").flatten() {
        let name = entry.file_name();
        assert!(name.to_str().is_some_and(|name| name.ends_with(".sock")), "{name:?} is no socket");
        assert_eq!(entry.metadata().expect("a socket").mode() & 0o777, 0o600, "{name:?}");
    }
}

#[test]
fn haproxy_is_locked_in_and_goes_on_as_ever() {
    everywhere("jail", "a user of HAProxy's own", jail);
}

fn jail(world: &World) {
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    let tls = json!({"termination": "edge", "insecureEdgeTerminationPolicy": "Allow"});
    world.route("web", "web.test", "web", json!({"tls": tls}), json!({}));
    let proxied =
        [("ROUTER_USE_PROXY_PROTOCOL", "true"), ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "192.0.2.0/24,2001:db8::/64")];
    let mut router = world.router("jail", 8080, &proxied);
    let works = |router: &Router, path: &str| {
        for (at, address) in LOOPBACK.into_iter().enumerate() {
            world.until((address, router.ports.http), "web.test", path, "pod-0 answers");
            let answer = curl(world, address, router.ports.https, &[], &format!("https://web.test{path}"));
            assert!(answer.contains("pod-0 answers"), "{address}: {answer}\n{}", router.process.output());
            // A trusted sender, whose header comes in pieces.
            let to = SocketAddr::new(e2e::haproxy::ip(OWN[at]), router.ports.http);
            let header = proxy_v1(SocketAddr::new(e2e::haproxy::ip(e2e::haproxy::CLIENTS[at]), 999), to);
            let (first, rest) = header.split_at(9);
            let answer = world.ask((OWN[at], router.ports.http), &[first, rest], "web.test", path);
            assert!(answer.contains(&format!("x-forwarded-for: {}", e2e::haproxy::CLIENTS[at])), "{answer}");
        }
        let logged =
            || router.process.output().contains(&format!("{path} http/1.1").replace("http", "HTTP")).then_some(());
        assert!(wait_for(PATIENCE, logged).is_some(), "{path} is logged\n{}", router.process.output());
        is_locked_in(router);
    };
    works(&router, "/first");
    // Changes through the socket, and a replacement that takes the sockets over.
    world.route("live", "live.test", "web", json!({"path": "/p"}), json!({}));
    world.until((LOOPBACK[1], router.ports.http), "live.test", "/p", "pod-0 answers");
    let (before, generations) = (haproxy(&router), router.generations());
    world.route(
        "web",
        "web.test",
        "web",
        json!({"tls": tls}),
        json!({"haproxy.router.openshift.io/balance": "leastconn"}),
    );
    let replaced = wait_for(PATIENCE, || (router.generations() > generations).then_some(()));
    assert!(replaced.is_some(), "{}", router.process.output());
    assert_ne!(haproxy(&router), before);
    works(&router, "/second");
    // The next router takes it over; one that ends by itself is started again.
    router.process.kill();
    let router = world.router("jail", 8080, &proxied);
    works(&router, "/third");
    world.kill_haproxies();
    // A connection that was waiting in its queue is reset, and answers nothing.
    for address in LOOPBACK {
        let ask = || world.try_ask((address, router.ports.http), &[], "web.test", "/").ok();
        let back = wait_for(PATIENCE, || ask()?.contains("pod-0 answers").then_some(()));
        assert!(back.is_some(), "{address}: {:?}\n{}", ask(), router.process.output());
    }
    works(&router, "/fourth");
}

#[test]
fn only_secrets_that_are_named_are_asked_for() {
    everywhere("secrets", "Secrets of Routes", secrets);
}

/// The account has a right to one Secret by its name and to no other: a router that asked for more would be refused, and say so.
fn secrets(world: &World) {
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    let secret = |name: &str, host: &str| {
        let (chain, key) = certificate(host);
        world.apply(
            &json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name},
            "stringData": {"tls.crt": chain, "tls.key": key}}),
        );
    };
    secret("named", "first.test");
    secret("unnamed", "never.test");
    let kubeconfig = narrow(world);
    let external = json!({"tls": {"termination": "edge", "externalCertificate": {"name": "named"}}});
    world.route("web", "first.test", "web", external, json!({}));
    let router = world.router("secrets", 8080, &[("KUBECONFIG", &kubeconfig.display().to_string())]);
    let subject = |address: &str, host: &str| {
        let answer = curl(world, address, router.ports.https, &["-v", "--stderr", "-"], &format!("https://{host}/"));
        answer.lines().find(|line| line.contains("subject:")).unwrap_or_default().to_owned() + &answer
    };
    let serves = |host: &str, name: &str| {
        for address in LOOPBACK {
            let found = wait_for(PATIENCE, || {
                Some(subject(address, host)).filter(|text| text.contains(name) && text.contains("pod-0 answers"))
            });
            assert!(found.is_some(), "{name} at {address}: {}\n{}", subject(address, host), router.process.output());
        }
    };
    serves("first.test", "cn=first.test");
    account::nothing_was_forbidden(&router.process.output());
    // It is renewed, goes, and comes back.
    secret("named", "second.test");
    serves("first.test", "cn=second.test");
    let status = "jsonpath={.status.ingress[0].conditions[0].message}";
    world.kubectl(&["delete", "secret", "named"], "");
    let refused = wait_for(PATIENCE, || {
        world.kubectl(&["get", "route", "web", "-o", status], "").contains("no Secret \"named\"").then_some(())
    });
    assert!(refused.is_some(), "{}", router.process.output());
    secret("named", "third.test");
    serves("first.test", "cn=third.test");
    account::nothing_was_forbidden(&router.process.output());
}

/// A kubeconfig of an account with a router's rights, but for Secrets, of which it has one by its name.
fn narrow(world: &World) -> PathBuf {
    let rules = api::rights::router_without_secrets();
    let rbac = "rbac.authorization.k8s.io";
    let subject = json!([{"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}]);
    let role = |kind: &str, rules: Value| json!({"apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": {"name": "narrow"}, "rules": rules});
    let binding = |kind: &str, of: &str| {
        json!({"apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": {"name": "narrow"}, "subjects": subject,
            "roleRef": {"apiGroup": rbac, "kind": of, "name": "narrow"}})
    };
    world.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "narrow"}}));
    world.apply(&role("ClusterRole", json!(rules)));
    world.apply(&binding("ClusterRoleBinding", "ClusterRole"));
    world.apply(&role(
        "Role",
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["named"], "verbs": ["list", "watch"]}]),
    ));
    world.apply(&binding("RoleBinding", "Role"));
    let user = "system:serviceaccount:default:narrow";
    let known = wait_for(PATIENCE, || {
        world.try_kubectl(&["auth", "can-i", "watch", "secrets/named", &format!("--as={user}")], "").ok()
    });
    assert!(known.is_some(), "the rights are known");
    account::acting_as(user, "narrow", &PathBuf::from(world.kubeconfig()))
}
