//! Certificates and authorities that come, change and go while HAProxy runs.

use super::*;
use runtime::pki::{Authority, Identity, Purpose};
use std::{fs, time::SystemTime};

fn authority(name: &str) -> Authority {
    Authority::create(name, SystemTime::now()).expect("an authority")
}

fn identity(authority: &Authority, names: &[&str]) -> Identity {
    let purpose =
        Purpose::Serving { names: names.iter().map(|name| (*name).to_owned()).collect(), addresses: Vec::new() };
    authority.issue(&purpose, SystemTime::now()).expect("an identity")
}

fn edge(identity: &Identity) -> serde_json::Value {
    json!({"tls": {"termination": "edge", "certificate": identity.chain_pem(), "key": identity.key_pem().expose()}})
}

/// What a host answers over TLS to a client that trusts this authority alone, one answer for each family; nothing to one that
/// does not take the certificate.
fn trusting(world: &World, router: &Router, authority: &Authority, host: &str) -> [String; 2] {
    let file = world.folder.path().join("trusted.pem");
    fs::write(&file, authority.certificate_pem()).expect("a file");
    let file = file.display().to_string();
    ["127.0.0.1", "[::1]"].map(|address| {
        let to = format!("{host}:{}:{address}", router.ports.https);
        let url = format!("https://{host}:{}/", router.ports.https);
        let words = ["-s", "-i", "--max-time", "30", "--cacert", &file, "--resolve", &to, &url];
        world.space.run("curl", &words, "").map(|printed| printed.stdout.to_lowercase()).unwrap_or_default()
    })
}

/// Waits until a host is served with a certificate of this authority over both families, and of no other.
#[track_caller]
fn comes_from(world: &World, router: &Router, [good, bad]: [&Authority; 2], host: &str) {
    let ask = |authority| trusting(world, router, authority, host);
    let taken = wait_for(PATIENCE, || ask(good).iter().all(|text| text.contains("pod-0 answers")).then_some(()));
    assert!(taken.is_some(), "{host}: {:?}\n{}", ask(good), router.process.output());
    assert_eq!(ask(bad), ["", ""], "{host} has another certificate");
}

/// The files with keys in a router's folder.
fn keys(router: &Router) -> usize {
    let files = fs::read_dir(router.folder.join("certificates")).expect("a folder").flatten();
    files.filter(|file| fs::read_to_string(file.path()).is_ok_and(|text| text.contains("PRIVATE KEY"))).count()
}

#[test]
fn certificates_come_change_and_go_without_a_reload() {
    everywhere("certificates", "certificates of the running HAProxy", without_a_reload);
}

fn without_a_reload(world: &World) {
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    let (one, two) = (authority("one"), authority("two"));
    let folder = world.folder.path().join("default");
    fs::create_dir(&folder).expect("a folder");
    let set_default = |authority: &Authority| {
        let identity = identity(authority, &["plain.apps.test", "own.apps.test"]);
        for (name, text) in [("tls.crt", identity.chain_pem()), ("tls.key", identity.key_pem().expose())] {
            fs::write(folder.join(name), text).expect("a file");
        }
    };
    set_default(&one);
    world.route("plain", "plain.apps.test", "web", json!({"tls": {"termination": "edge"}}), json!({}));
    world.route("there", "there.apps.test", "web", edge(&identity(&one, &["there.apps.test"])), json!({}));
    let router = world.router("certificates", 8080, &[("DEFAULT_CERTIFICATE_DIR", &folder.display().to_string())]);
    comes_from(world, &router, [&one, &two], "plain.apps.test");
    comes_from(world, &router, [&one, &two], "there.apps.test");
    world.route("http", "http.apps.test", "web", json!({}), json!({}));
    world.until((LOOPBACK[0], router.ports.http), "http.apps.test", "/", "pod-0 answers");
    let before = router.generations();
    let load = Load::new(world, router.ports.http, "http.apps.test");
    assert_eq!(keys(&router), 2, "the default one and that of a Route");

    // A new one, and the same host with another one. Both have been there since the start, or come now.
    world.route("own", "own.apps.test", "web", edge(&identity(&two, &["own.apps.test"])), json!({}));
    comes_from(world, &router, [&two, &one], "own.apps.test");
    for (authority, other) in [(&one, &two), (&two, &one)] {
        world.route("own", "own.apps.test", "web", edge(&identity(authority, &["own.apps.test"])), json!({}));
        comes_from(world, &router, [authority, other], "own.apps.test");
        world.route("there", "there.apps.test", "web", edge(&identity(authority, &["there.apps.test"])), json!({}));
        comes_from(world, &router, [authority, other], "there.apps.test");
    }
    assert_eq!(keys(&router), 1, "keys of certificates that were replaced are gone; those in memory need no file");

    // One that two hosts share; then each of them goes, and what is left goes on.
    let shared = identity(&two, &["left.apps.test", "right.apps.test"]);
    for name in ["left", "right"] {
        world.route(name, &format!("{name}.apps.test"), "web", edge(&shared), json!({}));
        comes_from(world, &router, [&two, &one], &format!("{name}.apps.test"));
    }
    world.kubectl(&["delete", "route", "left", "own"], "");
    comes_from(world, &router, [&two, &one], "right.apps.test");

    // The default one, which hosts have whose own one went.
    world.route("own", "own.apps.test", "web", json!({"tls": {"termination": "edge"}}), json!({}));
    comes_from(world, &router, [&one, &two], "own.apps.test");
    set_default(&two);
    comes_from(world, &router, [&two, &one], "plain.apps.test");
    comes_from(world, &router, [&two, &one], "own.apps.test");
    assert_eq!(router.generations(), before, "no reload: {}", router.process.output());
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // A reload brings all of it along, and keeps no other key.
    world.route(
        "least",
        "least.apps.test",
        "web",
        json!({}),
        json!({"haproxy.router.openshift.io/balance": "leastconn"}),
    );
    comes_to(&router, before + 1);
    for host in ["plain.apps.test", "own.apps.test", "there.apps.test", "right.apps.test"] {
        comes_from(world, &router, [&two, &one], host);
    }
    assert_eq!(keys(&router), 3, "the default one and those of two Routes");
}

#[test]
fn no_pod_is_trusted_because_an_authority_came_late() {
    everywhere("late", "an authority of Services that comes late", |world| {
        let service_ca = authority("services");
        let pod = identity(&service_ca, &["tls.default.svc"]);
        let folder = world.folder.path();
        let pem = folder.join("pod.pem");
        fs::write(&pem, format!("{}{}", pod.chain_pem(), pod.key_pem().expose())).expect("a file");
        let binds: String =
            PODS[0].iter().map(|address| format!(" bind {address}:8443 ssl crt {}\n", pem.display())).collect();
        let config = folder.join("pod.cfg");
        let times = " timeout client 30s\n timeout server 30s\n timeout connect 30s\n";
        fs::write(&config, format!("defaults\n mode http\n{times}frontend pod\n{binds} http-request return status 200 content-type text/plain string 'pod-0 answers'\n")).expect("a file");
        let haproxy = tool("haproxy").expect("checked").display().to_string();
        let _pod = world.start(&[&haproxy, "-db", "-f", &config.display().to_string()], "pod");
        world.service("tls", &[0], 8443);
        let reencrypt = json!({"tls": {"termination": "reencrypt"}});
        world.route("first", "first.apps.test", "tls", reencrypt.clone(), json!({}));
        let ca = folder.join("service-ca.crt");
        let router = world.router("late", 8080, &[("DEFAULT_DESTINATION_CA_PATH", &ca.display().to_string())]);
        world.route("second", "second.apps.test", "tls", reencrypt, json!({}));
        let ask = |host: &str| {
            ["-4", "-6"].map(|flag| {
                let address = if flag == "-4" { "127.0.0.1" } else { "[::1]" };
                let to = format!("{host}:{}:{address}", router.ports.https);
                world.curl(&[flag, "--resolve", &to, &format!("https://{host}:{}/", router.ports.https)])
            })
        };
        let all = |words: &str| {
            for host in ["first.apps.test", "second.apps.test"] {
                let found = wait_for(PATIENCE, || ask(host).iter().all(|text| text.contains(words)).then_some(()));
                assert!(found.is_some(), "{host} {words}: {:?}\n{}", ask(host), router.process.output());
            }
        };
        let before = router.generations();
        all(" 503");
        nothing_happens_meanwhile();
        all(" 503");
        let reason = |wanted: &str| {
            let path = "jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].conditions[0].reason}";
            let told = || world.kubectl(&["get", "route", "second", "-o", path], "").trim().to_owned();
            assert!(wait_for(PATIENCE, || (told() == wanted).then_some(())).is_some(), "{} is not {wanted}", told());
        };
        reason("True PartlyServed");
        fs::write(&ca, service_ca.certificate_pem()).expect("a file");
        all("pod-0 answers");
        reason("True");
        comes_to(&router, before + 1);
    });
}

#[test]
fn pages_for_errors_are_read_again_when_they_change() {
    everywhere("pages", "pages for errors", |world| {
        let page = world.folder.path().join("503.http");
        let write = |text: &str| {
            let whole = format!("HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\n{text}");
            fs::write(&page, whole).expect("a file");
        };
        // It is not there at the start.
        let router = world.router("pages", 8080, &[("ROUTER_ERRORFILE_503", &page.display().to_string())]);
        for text in ["the first page", "another page"] {
            write(text);
            LOOPBACK.iter().for_each(|address| world.until((address, router.ports.http), "none.apps.test", "/", text));
        }
    });
}
