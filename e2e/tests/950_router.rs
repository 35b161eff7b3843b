//! `twinstack router` with a real HAProxy and a real API server, in a network namespace, both families at once.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use e2e::haproxy::{proxy_v1, proxy_v2, proxy_v2_local};
use e2e::{Process, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};

/// Addresses of both families that mean the same thing.
type Pair = [&'static str; 2];

const PODS: [Pair; 3] = [["10.1.0.1", "fd01::1"], ["10.1.0.2", "fd01::2"], ["10.1.0.3", "fd01::3"]];
/// Of this machine, but not loopback.
const OWN: Pair = ["192.0.2.10", "2001:db8::10"];
const LOOPBACK: Pair = ["127.0.0.1", "::1"];
/// Where clients of load balancers come from.
const CLIENTS: Pair = ["198.51.100.7", "2001:db8:a::7"];
/// Where pods listen; routers have the ports from 8080 on.
const POD_PORT: u16 = 8888;
const PATIENCE: Duration = Duration::from_secs(30);
const ROUTE_DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/api/src/config/crds/routes.yaml");

/// A namespace with an API server, pods that answer, and routers.
struct World {
    space: Arc<Namespace>,
    folder: tempfile::TempDir,
    kubectl: PathBuf,
    _api: Process,
}

impl Drop for World {
    fn drop(&mut self) {
        // HAProxy outlives its router; here it ends with the test.
        let pids = e2e_run("ip", &["netns", "pids", self.space.name()]);
        for pid in pids.split_whitespace() {
            e2e_run("kill", &["-9", pid]);
        }
    }
}

fn e2e_run(program: &str, words: &[&str]) -> String {
    let output = std::process::Command::new(program).args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let more = [std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from), Some(PathBuf::from("/usr/sbin"))];
    std::env::split_paths(&folders)
        .chain(more.into_iter().flatten())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// What is missing to run this at all.
fn missing() -> Option<&'static str> {
    if Namespace::new("probe").is_err() {
        return Some("run as root on a machine with network namespaces and ip (apt-get install iproute2)");
    }
    if tool("haproxy").is_none() {
        return Some("apt-get install haproxy");
    }
    if tool("kubectl").is_none() { Some("scripts/need test, or put kubectl on the PATH") } else { None }
}

/// The ports of one router.
#[derive(Clone, Copy)]
struct Ports {
    http: u16,
    https: u16,
    stats: u16,
}

struct Router {
    process: Process,
    ports: Ports,
}

impl World {
    fn new(name: &str) -> Self {
        let space = Namespace::new(&format!("router-{name}")).expect("a namespace");
        for (v4, v6) in PODS.iter().chain([&OWN]).map(|pair| (pair[0], pair[1])) {
            space.run("ip", &["addr", "add", &format!("{v4}/32"), "dev", "lo"], "").expect("an address");
            space.run("ip", &["addr", "add", &format!("{v6}/128"), "dev", "lo"], "").expect("an address");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let data = format!("--data-dir={}", folder.path().join("data").display());
        let words = [
            "netns",
            "exec",
            space.name(),
            &twinstack().display().to_string(),
            "apiserver",
            "--bind-address=127.0.0.1,::1",
            "--secure-port=6443",
            "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
            &data,
        ]
        .map(str::to_owned);
        let api = Process::start("ip", &words.each_ref().map(String::as_str), &folder.path().join("apiserver.log"));
        let world = Self { space: Arc::new(space), folder, kubectl: tool("kubectl").expect("checked"), _api: api };
        let ready = wait_for(PATIENCE, || world._api.output().contains("API server is ready").then_some(()));
        assert!(ready.is_some(), "{}", world._api.output());
        world.kubectl(&["apply", "--validate=false", "-f", ROUTE_DEFINITION], "");
        let served = wait_for(PATIENCE, || world.try_kubectl(&["get", "routes"], "").ok());
        assert!(served.is_some(), "Routes are served");
        world
    }

    fn kubeconfig(&self) -> String {
        self.folder.path().join("data/admin.kubeconfig").display().to_string()
    }

    fn try_kubectl(&self, words: &[&str], input: &str) -> Result<String, String> {
        let config = format!("--kubeconfig={}", self.kubeconfig());
        let program = self.kubectl.display().to_string();
        let home = format!("HOME={}", self.folder.path().display());
        let mut all = vec![home.as_str(), &program, &config];
        all.extend(words);
        self.space.run("env", &all, input).map(|printed| printed.stdout).map_err(|error| error.to_string())
    }

    fn kubectl(&self, words: &[&str], input: &str) -> String {
        self.try_kubectl(words, input).expect("kubectl is content")
    }

    fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "--validate=false", "-f", "-"], &object.to_string());
    }

    /// A Service of both families with these pods behind it, on this port.
    fn service(&self, name: &str, pods: &[usize], port: u16) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "http", "port": 80, "targetPort": port}]}}));
        self.slices(name, pods, port);
    }

    fn slices(&self, service: &str, pods: &[usize], port: u16) {
        for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
            let endpoint = |pod: &usize| {
                json!({"addresses": [PODS[*pod][at]], "conditions": {"ready": true},
                    "targetRef": {"kind": "Pod", "name": format!("pod-{pod}"), "namespace": "default"}})
            };
            let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
            self.apply(&json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{service}-{}", family.to_lowercase()), "labels": {"kubernetes.io/service-name": service}},
                "addressType": family, "ports": [{"name": "http", "port": port, "protocol": "TCP"}], "endpoints": endpoints}));
        }
    }

    fn route(&self, name: &str, host: &str, service: &str, more: Value, annotations: Value) {
        let mut spec = json!({"host": host, "to": {"kind": "Service", "name": service}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.apply(&json!({"apiVersion": "route.openshift.io/v1", "kind": "Route",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec}));
    }

    /// A pod's server on both of its addresses: answers with its number and what it was asked.
    fn pod(&self, pod: usize, port: u16) {
        for address in PODS[pod] {
            let at = SocketAddr::new(ip(address), port);
            let listener = self.space.within(|| TcpListener::bind(at)).expect("the namespace").expect("an address");
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || answer_all(stream, pod));
                }
            });
        }
    }

    fn router(&self, name: &str, first: u16, environment: &[(&str, &str)]) -> Router {
        let ports = Ports { http: first, https: first + 1, stats: first + 2 };
        let router = self.start_router(name, ports, environment);
        let ready =
            wait_for(PATIENCE, || (self.get(LOOPBACK[1], ports.stats, "/healthz/ready").ok()? == 200).then_some(()));
        assert!(ready.is_some(), "{name}: {}", router.process.output());
        router
    }

    fn start_router(&self, name: &str, ports: Ports, environment: &[(&str, &str)]) -> Router {
        let work = self.folder.path().join(name);
        let mut words: Vec<String> = ["netns", "exec", self.space.name(), "env"].map(String::from).into();
        let common = [
            ("ROUTER_SERVICE_NAME", name.to_owned()),
            ("ROUTER_CANONICAL_HOSTNAME", "router.apps.test".to_owned()),
            ("ROUTER_IP_V4_V6_MODE", "v4v6".to_owned()),
            ("ROUTER_SERVICE_HTTP_PORT", ports.http.to_string()),
            ("ROUTER_SERVICE_HTTPS_PORT", ports.https.to_string()),
            ("STATS_PORT", ports.stats.to_string()),
            ("ROUTER_SYSLOG_ADDRESS", "stdout".to_owned()),
            ("ROUTER_THREADS", "2".to_owned()),
            ("ROUTER_MAX_CONNECTIONS", "4000".to_owned()),
            ("RELOAD_INTERVAL", "100ms".to_owned()),
            ("ROUTER_GRACEFUL_SHUTDOWN_DELAY", "1s".to_owned()),
        ];
        words.extend(common.into_iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend([twinstack().display().to_string(), "router".to_owned()]);
        words.push(format!("--kubeconfig={}", self.kubeconfig()));
        words.push(format!("--working-dir={}", work.display()));
        words.push(format!("--haproxy={}", tool("haproxy").expect("checked").display()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = self.folder.path().join(format!("{name}-{}.log", ports.http));
        Router { process: Process::start("ip", &words, &log), ports }
    }

    /// A connection from inside the namespace.
    fn connect(&self, address: &str, port: u16) -> io::Result<TcpStream> {
        let at = SocketAddr::new(ip(address), port);
        let stream = self.space.within(|| TcpStream::connect_timeout(&at, Duration::from_secs(5)))??;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(stream)
    }

    /// The status of a plain GET.
    fn get(&self, address: &str, port: u16, path: &str) -> io::Result<u16> {
        let mut stream = self.connect(address, port)?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| io::Error::other("no status"))
    }

    /// Sends pieces one after the other and then a request; the whole answer, empty when the connection was closed instead.
    fn ask(&self, (address, port): (&str, u16), pieces: &[&[u8]], host: &str, path: &str) -> String {
        let mut stream = self.connect(address, port).expect("the router listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut sent = Ok(());
        for (at, piece) in pieces.iter().enumerate() {
            stream.set_nodelay(true).expect("an option");
            sent = sent.and_then(|()| stream.write_all(piece));
            if at + 1 < pieces.len() {
                // The next piece goes into a packet of its own.
                wait_for(Duration::from_millis(30), || None::<()>);
            }
        }
        let _ = sent.and_then(|()| stream.write_all(request.as_bytes()));
        let mut answer = Vec::new();
        // A connection that is reset has answered nothing.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).to_lowercase()
    }

    /// Asks until the answer contains `wanted`.
    fn until(&self, at: (&str, u16), host: &str, path: &str, wanted: &str) {
        let mut last = String::new();
        let found = wait_for(PATIENCE, || {
            last = self.ask(at, &[], host, path);
            last.contains(wanted).then_some(())
        });
        assert!(found.is_some(), "{host}{path} at {at:?}: {wanted:?} is not in {last:?}");
    }

    fn curl(&self, words: &[&str]) -> String {
        let mut all = vec!["-s", "-i", "-k", "--max-time", "10"];
        all.extend(words);
        self.space.run("curl", &all, "").map(|printed| printed.stdout.to_lowercase()).unwrap_or_default()
    }
}

impl Router {
    /// How often HAProxy was started or replaced so far.
    fn generations(&self) -> usize {
        self.process.output().matches("HAProxy runs what is wanted").count()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Answers requests on one connection until it ends.
fn answer_all(mut stream: TcpStream, pod: usize) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        while !buffer.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            }
        }
        let body = format!("pod-{pod} answers\n{}", String::from_utf8_lossy(&buffer));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
        buffer.clear();
    }
}

/// Clients that ask without pause, each request on a connection of its own or on one that is kept, until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Vec<String>>>,
    answered: Arc<AtomicUsize>,
}

impl Load {
    fn new(world: &World, port: u16, host: &'static str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = LOOPBACK.into_iter().flat_map(|address| [(address, false), (address, true)]);
        let threads = clients.map(|(address, keeps)| {
            let (stop, answered, space) = (Arc::clone(&stop), Arc::clone(&answered), Arc::clone(&world.space));
            thread::spawn(move || {
                let work = || load(address, port, host, keeps, &stop, &answered);
                space.within(work).unwrap_or_else(|error| vec![error.to_string()])
            })
        });
        let threads = threads.collect();
        Self { stop, threads, answered }
    }

    /// Everything that went wrong. At least something went right.
    fn end(self) -> Vec<String> {
        let before = self.answered.load(Ordering::Relaxed);
        wait_for(PATIENCE, || (self.answered.load(Ordering::Relaxed) > before + 20).then_some(()))
            .expect("answers go on");
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    }
}

fn load(address: &str, port: u16, host: &str, keeps: bool, stop: &AtomicBool, answered: &AtomicUsize) -> Vec<String> {
    let mut failures = Vec::new();
    let mut kept: Option<TcpStream> = None;
    while !stop.load(Ordering::Relaxed) && failures.len() < 20 {
        let outcome = one(address, port, host, keeps, &mut kept);
        match outcome {
            Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
            Err(error) => failures.push(format!("{address} keeps={keeps}: {error}")),
        }
    }
    failures
}

fn one(address: &str, port: u16, host: &str, keeps: bool, kept: &mut Option<TcpStream>) -> io::Result<()> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect(SocketAddr::new(ip(address), port))?,
    };
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let close = if keeps { "" } else { "Connection: close\r\n" };
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{close}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            if length.is_some_and(|length| body.len() >= length) {
                if !head.starts_with("http/1.1 200") {
                    return Err(io::Error::other(head.to_owned()));
                }
                if keeps && !head.contains("connection: close") {
                    *kept = Some(stream);
                }
                return Ok(());
            }
        }
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
}

#[test]
fn routes_answer_over_both_families_and_change_without_a_gap() {
    if let Some(how) = missing() {
        e2e::skip("the router with a real HAProxy", how);
        return;
    }
    let world = World::new("plain");
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
    let load = Load::new(&world, ports.http, "web.apps.test");
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
        let timeout = format!("{}s", 20 + number);
        let name = format!("special-{number}");
        let host = format!("{name}.apps.test");
        world.route(
            &name,
            &host,
            "web",
            json!({"path": "/p"}),
            json!({"haproxy.router.openshift.io/timeout": timeout}),
        );
        world.until((LOOPBACK[number % 2], ports.http), &host, "/p/x", "pod-1 answers");
        assert!(world.ask((LOOPBACK[0], ports.http), &[], &host, "/px").starts_with("http/1.1 503"));
    }
    assert!(router.generations() >= before + 5, "reloads: {}", router.process.output());
    assert_eq!(load.end(), [""; 0], "{}", router.process.output());

    // The router dies: HAProxy goes on, and the next router takes over under load.
    let load = Load::new(&world, ports.http, "web.apps.test");
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
    if let Some(how) = missing() {
        e2e::skip("the router's features with a real HAProxy", how);
        return;
    }
    let world = World::new("features");
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
    let router = world.router("features", 8080, &[]);
    let port = router.ports.http;

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

    passthrough_and_reencrypt(&world, &router);
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
            let mut words = vec!["-s", "-i", "--max-time", "10", flag, "--resolve", &to];
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
}

/// What becomes of a connection.
enum Outcome {
    /// The pod sees this client.
    Seen(String),
    /// It is closed.
    Refused,
    /// One of the two. The protocol wants its header in one piece; HAProxy refuses one that arrives in several, unless all of
    /// them have arrived by the time it looks.
    SeenOrRefused(String),
}

/// What a connection begins with, and what becomes of it.
fn headers(at: usize, router: SocketAddr) -> Vec<(&'static str, Vec<Vec<u8>>, Outcome)> {
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
    let split = |client: SocketAddr| Outcome::SeenOrRefused(client.ip().to_string());
    vec![
        ("v1", vec![proxy_v1(client, to)], seen(client)),
        ("v1 of the other family", vec![proxy_v1(other_client, other_to)], seen(other_client)),
        ("v1 byte by byte", bytes(proxy_v1(client, to)), split(client)),
        ("v1 UNKNOWN", vec![b"PROXY UNKNOWN\r\n".to_vec()], Outcome::Seen(own.clone())),
        ("v2", vec![proxy_v2(client, to, &[])], seen(client)),
        ("v2 of the other family", vec![proxy_v2(other_client, other_to, &[])], seen(other_client)),
        ("v2 with further fields", vec![proxy_v2(client, to, fields)], seen(client)),
        ("v2 in halves", halves(proxy_v2(client, to, fields)), split(client)),
        ("v2 LOCAL", vec![proxy_v2_local()], Outcome::Seen(own)),
        ("nothing", vec![], Outcome::Refused),
        ("v1 with nonsense", vec![b"PROXY TCP4 x y 1 2\r\n".to_vec()], Outcome::Refused),
        ("v1 with an unknown family", vec![b"PROXY SCTP4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec()], Outcome::Refused),
        ("v1 without an end", vec![[b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat()], Outcome::Refused),
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
    if let Some(how) = missing() {
        e2e::skip("the PROXY protocol with a real HAProxy", how);
        return;
    }
    let world = World::new("proxy");
    world.pod(0, POD_PORT);
    world.service("web", &[0], POD_PORT);
    let list = "haproxy.router.openshift.io/ip_allowlist";
    world.route("web", "web.apps.test", "web", json!({}), json!({}));
    world.route("allow", "allow.apps.test", "web", json!({}), json!({list: "198.51.100.0/24 2001:db8:a::/48"}));
    world.route("edge", "edge.apps.test", "web", json!({"tls": {"termination": "edge"}}), json!({}));
    let on = ("ROUTER_USE_PROXY_PROTOCOL", "true");
    let router = world.router("proxy", 8080, &[on]);
    let port = router.ports.http;
    for (at, address) in LOOPBACK.into_iter().enumerate() {
        for (name, pieces, expected) in headers(at, SocketAddr::new(ip(address), port)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let answer = world.ask((address, port), &pieces, "web.apps.test", &format!("/{at}"));
            let refused = answer.is_empty();
            match expected {
                Outcome::Refused => assert_eq!(answer, "", "{address} {name}: the connection is refused"),
                Outcome::SeenOrRefused(_) if refused => {}
                Outcome::Seen(client) | Outcome::SeenOrRefused(client) => {
                    assert!(answer.contains(&format!("x-forwarded-for: {client}\r\n")), "{address} {name}: {answer:?}");
                    let spelled = if client.contains(':') { format!("\"[{client}]\"") } else { client };
                    let forwarded = format!("forwarded: for={spelled};host=web.apps.test;proto=http\r\n");
                    assert!(answer.contains(&forwarded), "{address} {name}: {answer:?}");
                }
            }
        }
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

    // With trusted senders the others are served plainly, and cannot pretend.
    let trusted = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "127.0.0.0/8,::1/128");
    let router = world.router("trusted", 9080, &[on, trusted]);
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
