//! The router with a real HAProxy (one thread) in a network namespace: requests per second, memory, the time to write a
//! configuration and the time until a change is live, for growing numbers of Routes. Beside it the shape of configuration that
//! OpenShift's router writes, on the same HAProxy: regular expressions that are tried one after the other, and everything
//! written and loaded anew for each change. A second table has the ratios.
//!
//! `cargo bench -p ingress --bench router` as root, about two minutes; ROUTES=100,1000 chooses other sizes, SECONDS how long
//! each rate is measured.

use ingress::router::{
    haproxy::{Files, Haproxy, Layout, Live, Process, Socket, write},
    model::{Certificate, Model, Objects, Source},
    settings::Settings,
};
use k8s_openapi::api::{
    core::v1::{Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::Ingress,
};
use kernel::netns::Namespace;
use runtime::{
    controller::Key,
    operator::Route,
    pki::{Authority, Purpose},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PODS: [&str; 2] = ["10.1.0.1", "10.1.0.2"];
const PORT: u16 = 8080;
const CONNECTIONS: usize = 16;

/// As many Routes as asked for, each with a Service of its own and one pod.
#[derive(Default)]
struct Cluster {
    routes: HashMap<Key, Arc<Route>>,
    services: HashMap<Key, Arc<Service>>,
    slices: HashMap<Key, Arc<EndpointSlice>>,
}

impl Objects for Cluster {
    fn route(&self, key: &Key) -> Option<Arc<Route>> {
        self.routes.get(key).cloned()
    }
    fn ingress(&self, _: &Key) -> Option<Arc<Ingress>> {
        None
    }
    fn service(&self, key: &Key) -> Option<Arc<Service>> {
        self.services.get(key).cloned()
    }
    fn slices(&self, service: &Key) -> Vec<Arc<EndpointSlice>> {
        self.slices.get(service).cloned().into_iter().collect()
    }
    fn secret(&self, _: &Key) -> Option<Arc<Secret>> {
        None
    }
    fn namespace_labels(&self, _: &str) -> Option<BTreeMap<String, String>> {
        None
    }
    fn reaches(&self, _: IpAddr) -> bool {
        true
    }
}

fn host(number: usize) -> String {
    format!("app-{number}.apps.bench.test")
}

impl Cluster {
    fn put(&mut self, number: usize, pod: usize, path: &str) -> Outcome<Key> {
        let name = format!("app-{number}");
        let key = Key::new("bench", name.clone());
        let meta =
            json!({"name": name, "namespace": "bench", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let spec = json!({"host": host(number), "path": path, "to": {"kind": "Service", "name": name}});
        self.routes.insert(key.clone(), Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec}))?));
        let spec = json!({"ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]});
        self.services.insert(key.clone(), Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec}))?));
        let endpoint = json!({"addresses": [PODS[pod]], "targetRef": {"kind": "Pod", "name": format!("{name}-{pod}")}});
        let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"name": "http", "port": PORT}], "endpoints": [endpoint]});
        self.slices.insert(key.clone(), Arc::new(serde_json::from_value(slice)?));
        Ok(key)
    }
}

/// Pods: answer every request on every connection with their address.
fn pods() -> Outcome<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || -> Outcome<()> {
        let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        threads.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for pod in PODS {
                let listener = tokio::net::TcpListener::bind((pod, PORT)).await?;
                all.spawn(async move {
                    let mut connections = tokio::task::JoinSet::new();
                    while let Ok((mut stream, _)) = listener.accept().await {
                        connections.spawn(async move {
                            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{pod}", pod.len());
                            let mut buffer = [0; 4096];
                            while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                                if stream.write_all(answer.as_bytes()).await.is_err() {
                                    break;
                                }
                            }
                        });
                    }
                });
            }
            ready.send(())?;
            while all.join_next().await.is_some() {}
            Ok(())
        })
    });
    Ok(is_ready.recv()?)
}

/// One request on a connection; the body.
fn ask(stream: &mut TcpStream, host: &str, path: &str) -> Outcome<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    answer(stream)
}

fn answer(stream: &mut TcpStream) -> Outcome<String> {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err("the connection was closed".into());
        }
        text += &String::from_utf8_lossy(&buffer[..count]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length.is_none_or(|length| body.len() >= length) {
            return Ok(text);
        }
    }
}

/// Requests per second over a few connections, each begun with a header of the PROXY protocol or nothing, each for a random host and a path that nobody asked for before.
fn rate(port: u16, routes: usize, seconds: u64, header: &str) -> Outcome<f64> {
    let at = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.write_all(header.as_bytes())?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        streams.push(stream);
    }
    let mut state = 88_172_645_463_325_252_u64;
    let (begun, mut done) = (Instant::now(), 0_u64);
    loop {
        for stream in &mut streams {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let host = host((state % routes as u64) as usize);
            stream.write_all(format!("GET /{state} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
        }
        for stream in &mut streams {
            let text = answer(stream)?;
            if !text.starts_with("HTTP/1.1 200") {
                return Err(format!("not answered: {text}").into());
            }
            done += 1;
        }
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

fn resident_kb(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// How many connections HAProxy may have, the same for both sides: upstream's default, or what the limit of open files
/// allows. It also bounds how many connections to pods are kept.
fn max_connections(files_each: u64) -> u64 {
    let wanted = Rlimit { current: Some(200_000), maximum: Some(200_000) };
    let given = getrlimit(Resource::Nofile);
    // Only the administrator may raise it; the pods here need it as well.
    let enough = given.current.is_none_or(|files| files >= 200_000);
    if !enough && setrlimit(Resource::Nofile, wanted).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, ..given });
    }
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(200_000);
    (files.saturating_sub(1_000) / files_each).min(50_000)
}

fn settings(more: &[(&str, &str)]) -> Outcome<Settings> {
    let connections = max_connections(2).to_string();
    let common = [
        ("ROUTER_THREADS", "1"),
        ("ROUTER_SERVICE_HTTP_PORT", "9080"),
        ("ROUTER_SERVICE_HTTPS_PORT", "9081"),
        ("ROUTER_MAX_CONNECTIONS", connections.as_str()),
    ];
    let variables = common.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::from_environment(variables).map_err(|mistakes| format!("{mistakes:?}").into())
}

/// A certificate for names without one of their own.
fn certificate() -> Outcome<Certificate> {
    let now = SystemTime::now();
    let purpose = Purpose::Serving { names: vec!["router.test".to_owned()], addresses: Vec::new() };
    let identity = Authority::create("bench", now)?.issue(&purpose, now)?;
    Ok(Certificate::read(identity.chain_pem(), identity.key_pem().expose(), "")?)
}

/// What the PROXY protocol costs: none of it, its header read by HAProxy alone, its header waited for.
fn proxy_protocol(seconds: u64, folder: &Path) -> Outcome<()> {
    let (on, alone) = (("ROUTER_USE_PROXY_PROTOCOL", "true"), ("ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS", "false"));
    let header = "PROXY TCP4 198.51.100.7 127.0.0.1 4242 9080\r\n";
    let connections = max_connections(4).to_string();
    let connections = ("ROUTER_MAX_CONNECTIONS", connections.as_str());
    println!("\nThe PROXY protocol, 100 Routes\n\n| header | requests/s |\n|---|---|");
    for (name, more, header) in [
        ("none", &[connections][..], ""),
        ("read by HAProxy alone", &[connections, on, alone], header),
        ("may arrive in pieces", &[connections, on], header),
    ] {
        let settings = settings(more)?;
        let layout = Layout::new(&folder.join(name.replace(' ', "-")))?;
        let mut cluster = Cluster::default();
        let mut model = Model::new(settings.admission.clone());
        for number in 0..100 {
            model.object_changed(Source::Route, cluster.put(number, 0, "")?);
        }
        model.settle(&cluster);
        let certificate = certificate()?;
        write(
            Files { settings: &settings, layout: &layout, default_certificate: &certificate, service_ca: "" },
            1,
            &model,
        )?;
        let mut process = Process::new("haproxy", layout);
        process.start(1)?;
        let rate = rate(9080, 100, seconds, header);
        process.end();
        println!("| {name} | {:.0} |", rate?);
    }
    Ok(())
}

/// What one size comes to. Times are in milliseconds, memory in KB.
struct Figures {
    rate: f64,
    write: f64,
    check: f64,
    start: f64,
    new_route: f64,
    new_path: Option<f64>,
    endpoint: f64,
    /// Before and after the load.
    resident: [u64; 2],
}

impl Figures {
    fn print(&self, routes: usize, name: &str) {
        let Self { rate, write, check, start, new_route, new_path, endpoint, resident } = self;
        let path = new_path.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        println!(
            "| {routes} {name} | {rate:.0} | {write:.0} | {check:.0} | {start:.0} | {new_route:.1} | {path} | {endpoint:.1} | {:.0} | {:.1} | {:.1} |",
            resident[0] as f64 / 1024.0,
            resident[0] as f64 / routes as f64,
            resident[1] as f64 / routes as f64,
        );
    }
}

fn ours(routes: usize, seconds: u64, folder: &Path) -> Outcome<Figures> {
    let settings = Arc::new(settings(&[])?);
    let layout = Layout::new(folder)?;
    let mut cluster = Cluster::default();
    let mut model = Model::new(settings.admission.clone());
    for number in 0..routes {
        model.object_changed(Source::Route, cluster.put(number, 0, "")?);
    }
    model.settle(&cluster);
    let certificate = certificate()?;
    let begun = Instant::now();
    let generation = write(
        Files { settings: &settings, layout: &layout, default_certificate: &certificate, service_ca: "" },
        1,
        &model,
    )?;
    let written = begun.elapsed();
    let mut process = Process::new("haproxy", layout.clone());
    let begun = Instant::now();
    process.check(1)?;
    let checked = begun.elapsed();
    process.start(1)?;
    let started = begun.elapsed() - checked;
    let outcome = (|| {
        let mut live = Live::new(Arc::clone(&settings), layout.clone(), generation, String::new(), &model);
        let mut socket = Socket::new(&layout.admin());
        let resident = || resident_kb(process.pid().unwrap_or_default());
        let before = resident();
        let rate = rate(9080, routes, seconds, "")?;
        let after = resident();
        let mut stream = TcpStream::connect(("127.0.0.1", 9080))?;
        // A change from the object to the answer of the pod that it leads to.
        let mut live_after = |cluster: &Cluster, source: Change, key: Key, asked: (usize, &str), pod: usize| {
            let begun = Instant::now();
            match source {
                Change::Route => model.object_changed(Source::Route, key),
                Change::Endpoint => model.service_changed(key),
            }
            let delta = model.settle(cluster);
            let need = live.apply(&model, &delta, &mut socket);
            if need.is_some() || !ask(&mut stream, &host(asked.0), asked.1)?.ends_with(PODS[pod]) {
                return Err(format!("a change is not live: {need:?}").into());
            }
            Outcome::Ok(begun.elapsed())
        };
        let (mut adds, mut paths, mut moves) = (Vec::new(), Vec::new(), Vec::new());
        for number in routes..routes + CHANGES {
            let key = cluster.put(number, 0, "")?;
            adds.push(live_after(&cluster, Change::Route, key, (number, "/"), 0)?);
        }
        for number in routes + CHANGES..routes + 2 * CHANGES {
            let key = cluster.put(number, 0, "/shop")?;
            paths.push(live_after(&cluster, Change::Route, key, (number, "/shop/x"), 0)?);
        }
        for number in 0..CHANGES.min(routes) {
            let key = cluster.put(number, 1, "")?;
            moves.push(live_after(&cluster, Change::Endpoint, key, (number, "/"), 1)?);
        }
        Ok(Figures {
            rate,
            write: ms(written),
            check: ms(checked),
            start: ms(started),
            new_route: ms(middle(adds)),
            new_path: Some(ms(middle(paths))),
            endpoint: ms(middle(moves)),
            resident: [before, after],
        })
    })();
    process.end();
    outcome
}

/// How many changes of each sort are measured.
const CHANGES: usize = 20;

#[derive(Clone, Copy)]
enum Change {
    Route,
    Endpoint,
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Writes the peer's shape: one regular expression for each Route in each of two maps, tried in turn. Upstream's own program
/// takes longer for this: it fills a template.
fn write_peer(routes: usize, pod: usize, folder: &Path) -> Outcome<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let (mut map, mut redirect, mut backends) = (String::new(), String::new(), String::new());
    for number in (0..routes).rev() {
        let pattern = format!("^{}\\.?(:[0-9]+)?(/.*)?$", host(number).replace('.', "\\."));
        writeln!(map, "{pattern} be_http:bench:app-{number}")?;
        writeln!(redirect, "{pattern} 0")?;
        let address = PODS[if number == 0 { pod } else { 0 }];
        writeln!(
            backends,
            "backend be_http:bench:app-{number}\n  balance random\n  timeout check 5000ms\n  cookie c{number} insert indirect nocache httponly\n  server pod:app-{number}:http:{address}:{PORT} {address}:{PORT} cookie c{number} weight 1",
        )?;
    }
    fs::write(at("os_http_be.map"), map)?;
    fs::write(at("os_route_http_redirect.map"), redirect)?;
    let config = format!(
        "global\n  maxconn {connections}\n  nbthread 1\n  stats socket {admin} level admin expose-fd listeners\n  tune.bufsize 32768\n  tune.maxrewrite 8192\ndefaults\n  mode http\n  option forwardfor\n  \
         timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n  timeout http-request 10s\n  timeout http-keep-alive 300s\n\
         frontend public\n  bind 127.0.0.1:9180\n  acl redirect base,map_reg_int({redirect}) -m bool\n  http-request set-header Host %[req.hdr(Host),lower]\n  \
         http-request redirect scheme https if redirect\n  use_backend %[base,map_reg({map})]\n  default_backend none\nbackend none\n{backends}",
        connections = max_connections(2),
        admin = at("admin.sock"),
        redirect = at("os_route_http_redirect.map"),
        map = at("os_http_be.map"),
    );
    Ok(fs::write(at("haproxy.config"), config)?)
}

fn peer(routes: usize, seconds: u64, folder: &Path) -> Outcome<Figures> {
    fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name).display().to_string();
    let (config, pid_file, admin) = (at("haproxy.config"), at("pid"), at("admin.sock"));
    let timed = |work: &dyn Fn() -> Outcome<()>| {
        let begun = Instant::now();
        work().map(|()| ms(begun.elapsed()))
    };
    let haproxy = |words: &[&str]| -> Outcome<()> { Ok(kernel::process::run("haproxy", words, "").map(|_| ())?) };
    let pid = || -> Outcome<i32> { Ok(fs::read_to_string(at("pid"))?.trim().parse()?) };
    let write = timed(&|| write_peer(routes, 0, folder))?;
    let check = timed(&|| haproxy(&["-c", "-q", "-f", &config]))?;
    let start = timed(&|| haproxy(&["-D", "-f", &config, "-p", &pid_file]))?;
    let outcome = (|| {
        let before = resident_kb(pid()?);
        let rate = rate(9180, routes, seconds, "")?;
        let after = resident_kb(pid()?);
        // Any change is everything written and loaded anew; the old process goes on for its connections.
        let changed = timed(&|| {
            write_peer(routes + 1, 1, folder)?;
            haproxy(&["-c", "-q", "-f", &config])?;
            let old = pid()?.to_string();
            haproxy(&["-D", "-f", &config, "-p", &pid_file, "-x", &admin, "-sf", &old])?;
            let mut stream = TcpStream::connect(("127.0.0.1", 9180))?;
            let both = [(routes, 0), (0, 1)];
            for (number, pod) in both {
                if !ask(&mut stream, &host(number), "/")?.ends_with(PODS[pod]) {
                    return Err("a change is not live after a reload".into());
                }
            }
            Ok(())
        })?;
        Ok(Figures {
            rate,
            write,
            check,
            start,
            new_route: changed,
            new_path: None,
            endpoint: changed,
            resident: [before, after],
        })
    })();
    kernel::process::run("kill", &[&pid()?.to_string()], "")?;
    outcome
}

fn run() -> Outcome<()> {
    // As a test, without `--bench`, it only shows that it runs.
    let (sizes, seconds) =
        if std::env::args().any(|word| word == "--bench") { ("100,1000,10000,20000", 4) } else { ("50", 0) };
    let text = std::env::var("ROUTES").unwrap_or_else(|_| sizes.to_owned());
    let sizes: Vec<usize> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seconds);
    let folder = tempfile::tempdir()?;
    pods()?;
    println!("\nRouter: HAProxy with one thread, {CONNECTIONS} connections, random hosts, unique paths\n");
    println!(
        "| Routes | requests/s | write, ms | check, ms | start, ms | new Route live, ms | new path live, ms | endpoint live, ms | resident, MB | KB per Route | KB per Route after load |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut ratios = String::new();
    for routes in sizes {
        let ours = ours(routes, seconds, &folder.path().join(format!("ours-{routes}")))?;
        ours.print(routes, "");
        let peer = peer(routes, seconds, &folder.path().join(format!("peer-{routes}")))?;
        peer.print(routes, "(regular expressions, reloads)");
        writeln!(
            ratios,
            "| {routes} | {:.1} | {:.0} | {:.0} | {:.1} | {:.1} |",
            ours.rate / peer.rate,
            peer.new_route / ours.new_route,
            peer.endpoint / ours.endpoint,
            (peer.check + peer.start) / (ours.check + ours.start),
            peer.resident[0] as f64 / ours.resident[0] as f64,
        )?;
    }
    println!(
        "\nTimes as many requests, times as fast, times less memory; targets at 10000: 40 and 50 ms for a new Route\n"
    );
    println!("| Routes | requests/s | new Route live | endpoint live | load of a configuration | memory |");
    println!("|---|---|---|---|---|---|\n{ratios}");
    proxy_protocol(seconds, &folder.path().join("proxy"))
}

fn main() -> Outcome<()> {
    let space = match Namespace::new("bench-router") {
        Ok(space) => space,
        Err(error) => {
            println!("router: skipped, needs root and network namespaces: {error}");
            return Ok(());
        }
    };
    for pod in PODS {
        space.run("ip", &["addr", "add", &format!("{pod}/32"), "dev", "lo"], "")?;
    }
    space.within(run)?
}
