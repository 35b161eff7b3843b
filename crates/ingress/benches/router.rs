//! The router with a real HAProxy (one thread) in a network namespace: requests per second, memory, and the time until a change
//! is live, for growing numbers of Routes. Beside it the shape of configuration that OpenShift's router writes: regular
//! expressions that are tried one after the other.
//!
//! `cargo bench -p ingress --bench router` as root; ROUTES=100,1000 chooses other sizes, SECONDS how long each rate is measured.

use ingress::router::{
    haproxy::{Files, Haproxy, Live, Places, Process, Socket, write},
    model::{Certificate, Model, Objects, Source},
    object::Route,
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
    pki::{Authority, Purpose},
};
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
    fn put(&mut self, number: usize, pod: usize) -> Outcome<Key> {
        let name = format!("app-{number}");
        let key = Key::new("bench", name.clone());
        let meta =
            json!({"name": name, "namespace": "bench", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let spec = json!({"host": host(number), "to": {"kind": "Service", "name": name}});
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

/// Requests per second over a few connections, each for a random host and a path that nobody asked for before.
fn rate(port: u16, routes: usize, seconds: u64) -> Outcome<f64> {
    let at = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
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

fn settings(port: u16) -> Outcome<Settings> {
    let variables = [
        ("ROUTER_THREADS", "1".to_owned()),
        ("ROUTER_SERVICE_HTTP_PORT", port.to_string()),
        ("ROUTER_SERVICE_HTTPS_PORT", (port + 1).to_string()),
        ("ROUTER_MAX_CONNECTIONS", "4000".to_owned()),
    ];
    Settings::from_environment(variables.map(|(name, value)| (name.to_owned(), value)))
        .map_err(|mistakes| mistakes.join("; ").into())
}

/// What one size comes to.
fn ours(routes: usize, seconds: u64, folder: &Path) -> Outcome<()> {
    let settings = Arc::new(settings(9080)?);
    let places = Places::new(folder)?;
    let mut cluster = Cluster::default();
    let mut model = Model::new(settings.admission.clone());
    for number in 0..routes {
        model.object_changed(Source::Route, cluster.put(number, 0)?);
    }
    model.settle(&cluster);
    let now = SystemTime::now();
    let purpose = Purpose::Serving { names: vec!["router.test".to_owned()], addresses: Vec::new() };
    let identity = Authority::create("bench", now)?.issue(&purpose, now)?;
    let certificate = Certificate::read(identity.chain_pem(), identity.key_pem().expose(), "")?;
    let begun = Instant::now();
    let generation =
        write(Files { settings: &settings, places: &places, default_certificate: &certificate }, 1, &model)?;
    let written = begun.elapsed();
    let mut process = Process::new("haproxy", places.clone());
    let begun = Instant::now();
    process.check(1)?;
    let checked = begun.elapsed();
    process.start(1)?;
    let started = begun.elapsed() - checked;
    let outcome = (|| {
        let mut live = Live::new(Arc::clone(&settings), places.clone(), generation, &model);
        let mut socket = Socket::new(&places.admin());
        let empty = resident_kb(process.pid().unwrap_or_default());
        let rate = rate(9080, routes, seconds)?;
        let full = resident_kb(process.pid().unwrap_or_default());
        let mut stream = TcpStream::connect(("127.0.0.1", 9080))?;
        let (mut adds, mut moves) = (Vec::new(), Vec::new());
        for number in routes..routes + 20 {
            let key = cluster.put(number, 0)?;
            let begun = Instant::now();
            model.object_changed(Source::Route, key);
            let delta = model.settle(&cluster);
            let need = live.apply(&model, &delta, &mut socket);
            if need.is_some() || !ask(&mut stream, &host(number), "/")?.ends_with(PODS[0]) {
                return Err(format!("a new Route does not answer: {need:?}").into());
            }
            adds.push(begun.elapsed());
        }
        for number in 0..20.min(routes) {
            let key = cluster.put(number, 1)?;
            let begun = Instant::now();
            model.service_changed(key);
            let delta = model.settle(&cluster);
            let need = live.apply(&model, &delta, &mut socket);
            if need.is_some() || !ask(&mut stream, &host(number), "/")?.ends_with(PODS[1]) {
                return Err(format!("an endpoint does not answer: {need:?}").into());
            }
            moves.push(begun.elapsed());
        }
        let middle = |times: &mut Vec<Duration>| {
            times.sort();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        println!(
            "| {routes} | {rate:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.1} |",
            ms(written),
            ms(middle(&mut adds)),
            ms(middle(&mut moves)),
            ms(checked),
            ms(started),
            empty as f64 / 1024.0,
            (full as f64) / routes as f64,
        );
        Ok(())
    })();
    process.end();
    outcome
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The peer's shape: one regular expression for each Route in each of two maps, tried in turn.
fn peer(routes: usize, seconds: u64, folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name).display().to_string();
    let (mut map, mut redirect, mut backends) = (String::new(), String::new(), String::new());
    for number in (0..routes).rev() {
        let pattern = format!("^{}\\.?(:[0-9]+)?(/.*)?$", host(number).replace('.', "\\."));
        writeln!(map, "{pattern} be_http:bench:app-{number}")?;
        writeln!(redirect, "{pattern} 0")?;
        writeln!(
            backends,
            "backend be_http:bench:app-{number}\n  balance random\n  timeout check 5000ms\n  cookie c{number} insert indirect nocache httponly\n  server pod:app-{number}:http:{}:{PORT} {}:{PORT} cookie c{number} weight 1",
            PODS[0], PODS[0]
        )?;
    }
    fs::write(at("os_http_be.map"), map)?;
    fs::write(at("os_route_http_redirect.map"), redirect)?;
    let config = format!(
        "global\n  maxconn 4000\n  nbthread 1\n  stats socket {admin} level admin\n  tune.bufsize 32768\n  tune.maxrewrite 8192\ndefaults\n  mode http\n  option forwardfor\n  \
         timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n  timeout http-request 10s\n  timeout http-keep-alive 300s\n\
         frontend public\n  bind 127.0.0.1:9180\n  acl redirect base,map_reg_int({redirect}) -m bool\n  http-request set-header Host %[req.hdr(Host),lower]\n  \
         http-request redirect scheme https if redirect\n  use_backend %[base,map_reg({map})]\n  default_backend none\nbackend none\n{backends}",
        admin = at("admin.sock"),
        redirect = at("os_route_http_redirect.map"),
        map = at("os_http_be.map"),
    );
    fs::write(at("haproxy.config"), config)?;
    let begun = Instant::now();
    kernel::process::run("haproxy", &["-D", "-f", &at("haproxy.config"), "-p", &at("pid")], "")?;
    let started = begun.elapsed();
    let pid: i32 = fs::read_to_string(at("pid"))?.trim().parse()?;
    let empty = resident_kb(pid);
    let measured = rate(9180, routes, seconds);
    kernel::process::run("kill", &[&pid.to_string()], "")?;
    println!(
        "| {routes} (regular expressions) | {:.0} | - | - | - | - | {:.0} | {:.0} | - |",
        measured?,
        ms(started),
        empty as f64 / 1024.0
    );
    Ok(())
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
        "| Routes | requests/s | write, ms | new Route live, ms | endpoint live, ms | check, ms | start, ms | resident, MB | after load, KB per Route |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for routes in sizes {
        ours(routes, seconds, &folder.path().join(format!("ours-{routes}")))?;
        peer(routes, seconds, &folder.path().join(format!("peer-{routes}")))?;
    }
    Ok(())
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
