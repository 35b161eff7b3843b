//! The router: Routes and Ingresses of anybody, and the configuration that HAProxy reads of them.

use crate::{Target, input};
use ingress::router::{
    haproxy::{Files, Layout, rows, write},
    model::{Certificate, Model, Objects, Source},
    settings::{Mistake, Settings},
};
use k8s_openapi::api::{
    core::v1::{Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::Ingress,
};
use runtime::{
    controller::Key,
    operator::Route,
    pki::{Authority, Purpose},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::SystemTime,
};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("route", route).up_to(8 << 10),
    Target::new("ingress", ingress_object).up_to(8 << 10),
    Target::new("router-settings", settings).up_to(4096),
    Target::new("haproxy-stat", stat),
];

struct Cluster {
    route: Option<Arc<Route>>,
    ingress: Option<Arc<Ingress>>,
}

impl Objects for Cluster {
    fn route(&self, _: &Key) -> Option<Arc<Route>> {
        self.route.clone()
    }
    fn ingress(&self, _: &Key) -> Option<Arc<Ingress>> {
        self.ingress.clone()
    }
    fn service(&self, key: &Key) -> Option<Arc<Service>> {
        let service = json!({"metadata": {"name": key.name, "namespace": key.namespace},
            "spec": {"ipFamilies": ["IPv4", "IPv6"], "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
        serde_json::from_value(service).ok().map(Arc::new)
    }
    fn slices(&self, _: &Key) -> Vec<Arc<EndpointSlice>> {
        let slice = |family: &str, address: &str| {
            serde_json::from_value(json!({"metadata": {"name": family}, "addressType": family,
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "conditions": {"ready": true}}]}))
            .ok()
            .map(Arc::new)
        };
        [slice("IPv4", "10.1.0.1"), slice("IPv6", "fd01::1")].into_iter().flatten().collect()
    }
    fn secret(&self, _: &Key) -> Option<Arc<Secret>> {
        None
    }
    fn namespace_labels(&self, _: &str) -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::new())
    }
    fn reaches(&self, _: IpAddr) -> bool {
        true
    }
}

/// Where one process writes, one generation over the other.
struct Scratch {
    layout: Layout,
    certificate: Certificate,
}

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| {
    // In memory where the machine has that: a generation is a dozen files.
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let layout = Layout::new(&base.join(format!("twinstack-fuzz-{}", std::process::id()))).expect("a plain path");
    let now = SystemTime::now();
    let authority = Authority::create("test", now).expect("an authority can be made");
    let purpose = Purpose::Serving { names: vec!["router.test".to_owned()], addresses: Vec::new() };
    let identity = authority.issue(&purpose, now).expect("a certificate can be made");
    let certificate = Certificate::read(identity.chain_pem(), identity.key_pem().expose(), "").expect("a pair");
    Scratch { layout, certificate }
});

fn read_settings(variables: &[(&str, &str)]) -> Result<Settings, Vec<Mistake>> {
    Settings::from_environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let variables = [
        ("ROUTER_BLUEPRINT_ROUTE_POOL_SIZE", "0"),
        ("ROUTER_ALLOW_WILDCARD_ROUTES", "true"),
        ("ROUTER_DOMAIN", "apps.test"),
        ("ROUTER_IP_V4_V6_MODE", "v4v6"),
    ];
    read_settings(&variables).expect("good settings")
});

fn route(data: &[u8]) {
    let Ok(mut route) = serde_json::from_slice::<Route>(data) else { return };
    // The API server has looked at these.
    route.metadata.name = Some("r".to_owned());
    route.metadata.namespace = Some("a".to_owned());
    serve(Source::Route, Cluster { route: Some(Arc::new(route)), ingress: None });
}

fn ingress_object(data: &[u8]) {
    let Ok(mut ingress) = serde_json::from_slice::<Ingress>(data) else { return };
    ingress.metadata.name = Some("i".to_owned());
    ingress.metadata.namespace = Some("a".to_owned());
    serve(Source::Ingress, Cluster { route: None, ingress: Some(Arc::new(ingress)) });
}

fn serve(source: Source, cluster: Cluster) {
    let mut model = Model::new(SETTINGS.admission.clone());
    model.object_changed(source, Key::new("a", if source == Source::Route { "r" } else { "i" }));
    model.settle(&cluster);
    if model.backends().next().is_some() {
        check(&SETTINGS, &model);
    }
}

/// The configuration of a generation.
fn written(settings: &Settings, model: &Model) -> String {
    let Scratch { layout, certificate } = &*SCRATCH;
    let files = Files { settings, layout, default_certificate: certificate, service_ca: "" };
    write(files, 1, model).expect("files can be written");
    fs::read_to_string(layout.config(1)).expect("a configuration")
}

/// The lines where nobody has a Route, and what they begin with.
struct Usual {
    lines: BTreeSet<String>,
    words: BTreeSet<String>,
}

static USUAL: LazyLock<Usual> = LazyLock::new(|| {
    let config = written(&SETTINGS, &Model::new(SETTINGS.admission.clone()));
    let words = config.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    Usual { lines: config.lines().map(str::to_owned).collect(), words }
});

/// Writes a generation and reads it as HAProxy would: no field ends its line, its word or its quotes.
fn check(settings: &Settings, model: &Model) {
    let usual = &*USUAL;
    let layout = &SCRATCH.layout;
    let config = written(settings, model);
    let backends = model.backends().count();
    let sections = ["global", "defaults", "frontend", "backend", "listen", "resolvers", "peers", "userlist"];
    let mut own = 0;
    for line in config.lines().filter(|line| !usual.lines.contains(*line)) {
        let Some(words) = words(line) else { panic!("quotes do not end: {line:?}") };
        let Some(first) = words.first() else { continue };
        if line.starts_with(' ') {
            let known = usual.words.contains(first) || ASKED_FOR.contains(&first.as_str());
            assert!(known, "{first:?} is not a word of ours: {line:?}");
            assert!(words.len() <= most_words(first), "more words than {first} takes: {line:?}");
        } else {
            assert!(sections.contains(&first.as_str()), "{first:?} begins no section: {line:?}");
            own += usize::from(words.get(1).is_some_and(|name| name.starts_with("be_")));
        }
    }
    assert_eq!(own, backends, "{config}");
    for name in ["http-exact", "http-prefix", "tls-exact", "tls-prefix", "sni"] {
        let map = fs::read_to_string(layout.generation(1).join(format!("{name}.map"))).unwrap_or_default();
        for line in map.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [key, value] = words.as_slice() else { panic!("{name}: {line:?}") };
            assert!(!key.starts_with('#') && (*value == "to_https" || value.starts_with("be_")), "{name}: {line:?}");
        }
    }
    let _ = fs::remove_dir_all(layout.folder());
}

/// What else may begin a line, because a Route or a setting asks for it.
const ASKED_FOR: &[&str] = &[
    "acl",
    "balance",
    "capture",
    "compression",
    "cookie",
    "dynamic-cookie-key",
    "errorfile",
    "hard-stop-after",
    "hash-type",
    "http-after-response",
    "http-request",
    "http-response",
    "log",
    "log-format",
    "lua-load-per-thread",
    "maxconn",
    "option",
    "server",
    "stick-table",
    "tcp-request",
    "timeout",
    "unique-id-format",
    "unique-id-header",
];

/// As many words as the longest line of a directive that Routes have a say in.
fn most_words(directive: &str) -> usize {
    match directive {
        "timeout" | "dynamic-cookie-key" | "monitor-uri" => 3,
        "balance" | "hash-type" => 3,
        "cookie" => 12,
        _ => 64,
    }
}

/// The words of a line: strong quotes, weak quotes, backslashes and comments as HAProxy reads them. None when a quote or
/// an escape does not end.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let (mut word, mut begun) = (String::new(), false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            '#' => break,
            '\'' => loop {
                match letters.next()? {
                    '\'' => break,
                    other => word.push(other),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => word.push(letters.next()?),
                    '$' => panic!("the environment gets into {line:?}"),
                    other => word.push(other),
                }
            },
            '\\' => word.push(letters.next()?),
            control if control.is_control() => panic!("a control character in {line:?}"),
            plain => word.push(plain),
        }
        begun = true;
    }
    if begun {
        words.push(word);
    }
    Some(words)
}

/// `NAME=value` lines of the environment.
fn settings(data: &[u8]) {
    let text = input::text(data);
    let mut variables: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    // No files of the machine, and no spare backends, which are many.
    variables.retain(|(name, value)| !name.ends_with("_FILE") && !value.contains('/'));
    variables.push(("ROUTER_BLUEPRINT_ROUTE_POOL_SIZE", "0"));
    if let Ok(settings) = read_settings(&variables) {
        check(&settings, &Model::new(settings.admission.clone()));
    }
}

/// What HAProxy answers to `show stat`.
fn stat(data: &[u8]) {
    let wanted = ["status", "stot", "none"];
    for row in rows(&input::text(data), &wanted) {
        assert_eq!(row.cells.len(), wanted.len());
    }
}
