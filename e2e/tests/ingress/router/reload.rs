//! What changes without a reload, and a router that lost what it needs.

use super::*;

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

    // Access logs have the names that these have after the next reload.
    for name in ["be_http:default:slow/", "be_http:default:split/", "be_http:default:ingress"] {
        let named = wait_for(PATIENCE, || router.process.output().contains(name).then_some(()));
        assert!(named.is_some(), "{name}: {}", router.process.output());
    }
    let output = router.process.output();
    assert!(!output.lines().any(|line| line.contains(" spare_") && line.contains(" HTTP/1.1\"")), "{output}");

    // What goes leaves nothing behind for the next one.
    world.kubectl(&["delete", "route", "slow", "list"], "");
    LOOPBACK.iter().for_each(|address| world.until((address, port), "list.apps.test", "/", "503 service"));
    assert_eq!(router.generations(), before, "no reload: {}", router.process.output());
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // The next reload, for something that needs one, brings all of it along, and what was counted.
    let counted = connections(world, router.ports.stats, "web");
    assert!(counted > 0);
    world.route("least", "least.apps.test", "web", json!({}), haproxy("balance", "leastconn"));
    for address in LOOPBACK {
        world.until((address, port), "least.apps.test", "/", "pod-0 answers");
        world.until((address, port), "split.apps.test", "/", "pod-1 answers");
        world.until((address, port), "ingress.apps.test", "/a/b", "pod-2 answers");
    }
    comes_to(&router, before + 1);
    assert_eq!(connections(world, router.ports.stats, "web"), counted);
    LOOPBACK.iter().for_each(|address| drop(world.ask((address, port), &[], "web.apps.test", "/")));
    assert_eq!(connections(world, router.ports.stats, "web"), counted + 2);
}

/// How many connections the metrics tell of a Route.
fn connections(world: &World, stats: u16, route: &str) -> u64 {
    let series =
        format!("haproxy_backend_connections_total{{backend=\"http\",namespace=\"default\",route=\"{route}\"}} ");
    let text = world.ask((LOOPBACK[1], stats), &[], "x", "/metrics");
    let figure = text.lines().find_map(|line| line.strip_prefix(&series));
    figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("no {series} in {text}"))
}

#[test]
fn a_connection_that_waits_is_ended_at_once_or_after_one_more_answer() {
    everywhere("idle", "connections that wait for a request", |world| {
        world.pod(0, POD_PORT);
        world.service("web", &[0], POD_PORT);
        world.route("web", "web.apps.test", "web", json!({}), json!({}));
        for (name, port, environment, answers) in [
            ("immediate", 8080, &[][..], false),
            ("deferred", 8090, &[("ROUTER_IDLE_CLOSE_ON_RESPONSE", "true")], true),
        ] {
            let router = world.router(name, port, environment);
            let mut waiting = LOOPBACK.map(|address| {
                let mut stream = world.connect(address, router.ports.http).expect("a connection");
                assert!(exchange(&mut stream).contains("200 ok"), "{name} at {address}");
                stream
            });
            let before = router.generations();
            let other = format!("{name}.apps.test");
            world.route(name, &other, "web", json!({}), json!({"haproxy.router.openshift.io/balance": "leastconn"}));
            comes_to(&router, before + 1);
            for (stream, address) in waiting.iter_mut().zip(LOOPBACK) {
                let answer = if answers { exchange(stream) } else { until_the_end(stream) };
                assert_eq!(answer.contains("200 ok"), answers, "{name} at {address}: {answer:?}");
                assert_eq!(until_the_end(stream), "", "{name} at {address}");
            }
        }
    });
}

/// One request on a connection that stays open, and the head of its answer with the body of the pod.
fn exchange(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web.apps.test\r\n\r\n").expect("sent");
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains("pod-0 answers") {
        match stream.read(&mut piece) {
            Ok(length) if length > 0 => text += &String::from_utf8_lossy(&piece[..length]).to_lowercase(),
            _ => break,
        }
    }
    text
}

fn until_the_end(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it is ended");
    String::from_utf8_lossy(&rest).to_lowercase()
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
        // What serves goes on being sent traffic; whoever asks whether all is as it should be hears otherwise.
        let current = world.ask((address, stats), &[], "x", "/readyz");
        assert!(current.contains("500") && current.contains("configuration is refused"), "{current}");
    }
    let verdict = |route: &str| {
        let path = "jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].conditions[0].reason}";
        world.kubectl(&["get", "route", route, "-o", path], "").trim().to_owned()
    };
    let told = wait_for(PATIENCE, || (verdict("special") == "False ConfigurationRefused").then_some(()));
    assert!(told.is_some(), "{}", verdict("special"));
    assert_eq!(verdict("web"), "True");
    assert_eq!(router.generations(), 1);
    std::fs::remove_file(&broken).expect("removed");
    LOOPBACK.iter().for_each(|address| world.until((address, http), "special.apps.test", "/", "pod-0 answers"));
    comes_to(&router, 2);
    assert_eq!(world.get(LOOPBACK[0], stats, "/readyz").expect("an answer"), 200);
    let told = wait_for(PATIENCE, || (verdict("special") == "True").then_some(()));
    assert!(told.is_some(), "{}", verdict("special"));

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

#[test]
fn many_servers_fit_into_few_open_files() {
    if let Some(how) = missing() {
        e2e::skip("a router with few open files", how);
        return;
    }
    let world = World::new("files", Api::Own);
    (0..3).for_each(|pod| world.pod(pod, POD_PORT));
    world.service("web", &[0, 1, 2], POD_PORT);
    let routes: Vec<_> = (0..400)
        .map(|number| {
            json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": format!("r{number}")},
                "spec": {"host": format!("r{number}.apps.test"), "to": {"kind": "Service", "name": "web"}}})
        })
        .collect();
    world.kubectl(&["create", "-f", "-"], &json!({"apiVersion": "v1", "kind": "List", "items": routes}).to_string());
    // 1,200 servers, of which each check takes a file: there is room for them, or they are not checked.
    for (name, first, files, checked) in [("more", 8080, "4096", true), ("few", 8090, "2048", false)] {
        let router = world.router(name, first, &[("NOFILE", files)]);
        for number in (0..400).step_by(7) {
            let host = format!("r{number}.apps.test");
            let answer = world.ask((LOOPBACK[number % 2], router.ports.http), &[], &host, "/");
            assert!(answer.contains(" answers"), "{name} {host}: {answer}\n{}", router.process.output());
        }
        let text = std::fs::read_to_string(router.folder.join("generation-1/haproxy.cfg")).expect("a configuration");
        assert_eq!(text.contains(" check inter "), checked, "{name}");
    }
}
