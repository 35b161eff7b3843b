//! What CoreDNS answered for the cluster in `testdata/dns`, asked again; and what changes when the cluster does.

mod fixture;
mod memory;
mod services;
mod stanza;
mod topology;
mod zones;

use super::{index::Sort, *};
use crate::{
    corefile::{self, Disk},
    testing,
    wire::{Record, code::rtype},
};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::{
    io::Read,
    path::{Path, PathBuf},
};

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dns").join(name)
}

pub(crate) fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(data(name)).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const SORTS: [Sort; 4] = [Sort::Services, Sort::Slices, Sort::Namespaces, Sort::Pods];

/// A cluster with the objects of a list such as `content.json`.
pub(crate) fn index(content: &Value, ttl: u32) -> (Index, Arc<Records>) {
    let records = Arc::new(Records::new(ttl));
    let mut index =
        Index::new(Arc::clone(&records), &SORTS, Details { pod_names: false, zones: true, externals: true });
    SORTS.iter().for_each(|sort| index.apply(Change::Listing(*sort), 1));
    let mut namespaces = vec!["default".to_owned()];
    for entry in content.as_array().unwrap() {
        let path: Vec<&str> = entry["path"].as_str().unwrap().split('/').collect();
        let at = path.iter().position(|part| *part == "namespaces").unwrap();
        let mut object = entry["object"].clone();
        object["metadata"]["namespace"] = path[at + 1].into();
        if let Some(status) = entry.get("status") {
            object["status"] = status.clone();
        }
        namespaces.push(path[at + 1].to_owned());
        index.apply(change(path[at + 2], object), 1);
    }
    for name in namespaces {
        index.apply(change("namespaces", serde_json::json!({"metadata": {"name": name}})), 1);
    }
    assert!(!records.synced());
    SORTS.iter().for_each(|sort| index.apply(Change::Listed(*sort), 7));
    assert!(records.synced());
    (index, records)
}

fn change(plural: &str, object: Value) -> Change {
    match plural {
        "services" => Change::Service(serde_json::from_value(object).unwrap()),
        "endpointslices" => Change::Slice(serde_json::from_value(object).unwrap()),
        "namespaces" => Change::Namespace(serde_json::from_value(object).unwrap()),
        "pods" => Change::Pod(serde_json::from_value(object).unwrap()),
        other => panic!("{other}"),
    }
}

pub(crate) fn content() -> Value {
    serde_json::from_str(&std::fs::read_to_string(data("content.json")).unwrap()).unwrap()
}

/// A cluster of lines (see `fixture`) whose Services are seen from outside.
pub(crate) fn outside(lines: &str) -> (Index, Arc<Records>) {
    fixture::cluster(lines, false)
}

/// A Service is deleted.
pub(crate) fn forget_service(index: &mut Index, namespace: &str, name: &str) {
    let service = serde_json::json!({"metadata": {"namespace": namespace, "name": name}});
    index.apply(Change::NoService(serde_json::from_value(service).unwrap()), 8);
}

/// A list names no Service any more.
pub(crate) fn forget_services(index: &mut Index) {
    index.apply(Change::Listing(Sort::Services), 9);
    index.apply(Change::Listed(Sort::Services), 9);
}

/// The plugin of a stanza, over these records.
pub(crate) fn plugin(stanza: &str, records: &Arc<Records>, local: &[&str]) -> Kubernetes {
    let file = corefile::parse("Corefile", &format!(". {{\n {stanza}\n}}"), &Disk).unwrap();
    let options = parse::options(&file.blocks[0].directives[0], &[Name::ROOT], Path::new("")).unwrap();
    let cluster = Cluster { records: Arc::clone(records), _watched: CancellationToken::new().drop_guard() };
    Kubernetes::new(&options, local.iter().map(|address| address.parse().unwrap()).collect(), Arc::new(cluster))
}

/// What a stanza finds when it looks for its cluster: these records, for as long as the second is there.
pub(crate) fn lasting(stanza: &str, records: &Arc<Records>) -> (crate::compile::Lasting, Arc<Cluster>) {
    lasting_of(&format!(". {{\n {stanza}\n}}"), records)
}

/// The same for a whole file; the first block that has a cluster says which.
pub(crate) fn lasting_of(text: &str, records: &Arc<Records>) -> (crate::compile::Lasting, Arc<Cluster>) {
    let file = corefile::parse("Corefile", text, &Disk).unwrap();
    let find = |name: &str| file.blocks.iter().flat_map(|block| &block.directives).find(|line| line.name.text == name);
    let mut options = parse::options(find("kubernetes").unwrap(), &[Name::ROOT], Path::new("")).unwrap();
    options.watch.details.externals = find("k8s_external").is_some();
    let watched = CancellationToken::new().drop_guard();
    let cluster = Arc::new(Cluster { records: Arc::clone(records), _watched: watched });
    let lasting = crate::compile::Lasting::default();
    lasting.clusters.lock().insert(options.source(), Arc::downgrade(&cluster));
    (lasting, cluster)
}

const STANZA: &str =
    "kubernetes cluster.local in-addr.arpa ip6.arpa {\n pods insecure\n fallthrough in-addr.arpa ip6.arpa\n }";

fn ask(plugin: &Kubernetes, name: &str, rtype: &str) -> String {
    let query = testing::query(name, rtype::number(rtype).unwrap());
    let mut reply = Reply::new();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    match plugin.serve(&query, &mut reply) {
        Step::Next => "next".to_owned(),
        Step::Later => "later ".to_owned() + &testing::shown(&reply),
        Step::Done => testing::shown(&reply),
    }
}

pub(crate) fn section(records: &[Record]) -> Vec<Value> {
    let mut list: Vec<Value> = records
        .iter()
        .map(|record| {
            let mut data = record.data_text().to_lowercase();
            if record.rtype == rtype::SOA {
                let mut words: Vec<&str> = data.split(' ').collect();
                words[2] = "serial";
                data = words.join(" ");
            }
            serde_json::json!([record.name.to_string().to_lowercase(), record.ttl, rtype::text(record.rtype), data])
        })
        .collect();
    list.sort_by_key(Value::to_string);
    list
}

/// Asks a block for everything that was recorded, and lists what differs.
fn replay(routes: &Arc<crate::routes::Routes>, recorded: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut differences = Vec::new();
    let lines = lines(recorded);
    assert!(lines.len() > 800);
    for line in lines {
        let (name, sort, got) = (line["name"].as_str().unwrap(), line["type"].as_str().unwrap(), &line["got"]);
        let mut query = testing::query(name, rtype::number(sort).unwrap());
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        runtime.block_on(crate::server::resolve(routes, &[], &mut query, &mut reply));
        let message = reply.message().unwrap();
        let mut expected = got.clone();
        for part in ["answer", "authority", "additional"] {
            expected[part].as_array_mut().unwrap().sort_by_key(Value::to_string);
        }
        let ours = serde_json::json!({
            "rcode": rcode::text(reply.rcode), "aa": reply.aa, "tc": reply.tc, "ra": reply.ra,
            "answer": section(message.answer()), "authority": section(message.authority()),
            "additional": section(message.additional()), "question": expected["question"],
        });
        if ours != expected {
            differences.push(format!("{name} {sort}\n  ours     {ours}\n  recorded {expected}"));
        }
    }
    differences
}

#[test]
fn the_cluster_is_answered_as_coredns_does() {
    let (_index, records) = index(&content(), 5);
    // The machine on which the answers were recorded had these addresses.
    let plugin = plugin(STANZA, &records, &["127.0.0.1", "::1", "192.0.2.2", "fd00::2", "fe80::fc:ff:fe00:1"]);
    let file = corefile::parse("Corefile", ".:5353 {\n errors\n bufsize 1232\n}", &Disk).unwrap();
    let lasting = crate::compile::Lasting::default();
    let observers = crate::observe::Observers::new(&lasting, &[Name::ROOT], &[5353]);
    assert_eq!(file.blocks.len(), 1);
    let chain = crate::chain::Chain {
        plugins: [Box::new(SharedKubernetes(Arc::new(plugin))) as Box<dyn Plugin>].into(),
        observers,
        nsid: None,
        reads_options: false,
    };
    let mut routes = crate::routes::Routes::default();
    routes.add(&Name::ROOT, &Arc::new(chain));
    let differences = replay(&Arc::new(routes), "cluster.jsonl.gz");
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn templates_and_hosts_are_answered_as_coredns_does() {
    let text = std::fs::read_to_string(data("answers.Corefile")).unwrap();
    let instance = testing::build(&text).unwrap();
    let differences = replay(instance.routes.values().next().unwrap(), "answers.jsonl.gz");
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn names_keep_the_case_of_the_question() {
    let (_index, records) = index(&content(), 5);
    let plugin = plugin(STANZA, &records, &[]);
    assert_eq!(
        ask(&plugin, "DuAl.dn.SVC.Cluster.Local.", "A"),
        "NOERROR aa | DuAl.dn.SVC.Cluster.Local. 5 IN A 10.96.1.1"
    );
    assert_eq!(
        ask(&plugin, "_HtTp._TcP.v4.dn.svc.Cluster.local.", "SRV"),
        "NOERROR aa | _HtTp._TcP.v4.dn.svc.Cluster.local. 5 IN SRV 0 100 80 v4.dn.svc.Cluster.local. | | \
         v4.dn.svc.Cluster.local. 5 IN A 10.96.1.3"
    );
    assert_eq!(
        ask(&plugin, "none.dn.svc.Cluster.local.", "A"),
        "NXDOMAIN aa | | Cluster.local. 5 IN SOA ns.dns.Cluster.local. hostmaster.Cluster.local. 7 7200 1800 86400 5"
    );
}

#[test]
fn changes_of_the_cluster_are_answered_at_once() {
    let (mut index, records) = index(&content(), 30);
    let plugin = plugin("kubernetes cluster.local in-addr.arpa ip6.arpa {\n ttl 30\n }", &records, &[]);
    let service = |addresses: &[&str]| {
        let first = addresses[0];
        serde_json::json!({"metadata": {"name": "new", "namespace": "dn"},
            "spec": {"clusterIP": first, "clusterIPs": addresses, "ports": [{"port": 80}]}})
    };
    assert!(ask(&plugin, "new.dn.svc.cluster.local.", "A").starts_with("NXDOMAIN aa"));
    index.apply(change("services", service(&["10.96.9.9", "fd00:96::99"])), 8);
    assert_eq!(
        ask(&plugin, "new.dn.svc.cluster.local.", "A"),
        "NOERROR aa | new.dn.svc.cluster.local. 30 IN A 10.96.9.9"
    );
    let pointer = ask(&plugin, "9.9.96.10.in-addr.arpa.", "PTR");
    assert_eq!(pointer, "NOERROR aa | 9.9.96.10.in-addr.arpa. 30 IN PTR new.dn.svc.cluster.local.");
    index.apply(change("services", service(&["fd00:96::99"])), 9);
    assert!(ask(&plugin, "new.dn.svc.cluster.local.", "A").starts_with("NOERROR aa | | cluster.local."));
    assert!(ask(&plugin, "9.9.96.10.in-addr.arpa.", "PTR").starts_with("NXDOMAIN"));
    let Change::Service(gone) = change("services", service(&["fd00:96::99"])) else { unreachable!() };
    index.apply(Change::NoService(gone), 10);
    assert!(ask(&plugin, "new.dn.svc.cluster.local.", "AAAA").contains(" 10 7200 "));
    // A new list without the Service `v4` takes it away.
    index.apply(Change::Listing(Sort::Services), 11);
    for entry in content().as_array().unwrap().iter().filter(|entry| entry["object"]["kind"] == "Service") {
        let mut object = entry["object"].clone();
        object["metadata"]["namespace"] = "dn".into();
        if object["metadata"]["name"] != "v4" {
            index.apply(change("services", object), 11);
        }
    }
    assert!(ask(&plugin, "v4.dn.svc.cluster.local.", "A").starts_with("NOERROR"));
    index.apply(Change::Listed(Sort::Services), 11);
    assert!(ask(&plugin, "v4.dn.svc.cluster.local.", "A").starts_with("NXDOMAIN"));
    assert!(ask(&plugin, "dual.dn.svc.cluster.local.", "AAAA").starts_with("NOERROR aa | dual"));
}

#[test]
fn pods_are_answered_in_three_ways() {
    let (_index, records) = index(&content(), 5);
    for (mode, known, unknown) in
        [("disabled", "NXDOMAIN", "NXDOMAIN"), ("insecure", "NOERROR", "NOERROR"), ("verified", "NOERROR", "NXDOMAIN")]
    {
        let plugin = plugin(&format!("kubernetes cluster.local {{\n pods {mode}\n }}"), &records, &[]);
        for (name, rtype, expected) in [
            ("10-1-0-1.dn.pod.cluster.local.", "A", known),
            ("fd00-1--1.dn.pod.cluster.local.", "AAAA", known),
            ("10-9-9-9.dn.pod.cluster.local.", "A", unknown),
            ("10-1-0-1.default.pod.cluster.local.", "A", unknown),
            ("10-1-0-1.none.pod.cluster.local.", "A", "NXDOMAIN"),
        ] {
            let answer = ask(&plugin, name, rtype);
            assert_eq!(answer.split(' ').next(), Some(expected), "{mode} {name}");
        }
    }
}

#[test]
fn options_narrow_what_is_seen() {
    let (_index, records) = index(&content(), 5);
    let only = plugin("kubernetes cluster.local {\n namespaces default\n }", &records, &[]);
    assert!(ask(&only, "dual.dn.svc.cluster.local.", "A").starts_with("NXDOMAIN"));
    let full = plugin("kubernetes cluster.local {\n ignore empty_service\n }", &records, &[]);
    assert!(ask(&full, "v4.dn.svc.cluster.local.", "A").starts_with("NXDOMAIN"));
    assert!(ask(&full, "dual.dn.svc.cluster.local.", "A").starts_with("NOERROR aa | dual"));
    assert!(ask(&full, "ext.dn.svc.cluster.local.", "CNAME").starts_with("NOERROR aa | ext"));
}

#[test]
fn nothing_is_denied_before_everything_was_seen() {
    let records = Arc::new(Records::new(5));
    let plugin = plugin("kubernetes cluster.local", &records, &[]);
    assert!(ask(&plugin, "a.b.svc.cluster.local.", "A").starts_with("SERVFAIL aa | | cluster.local. 5 IN SOA"));
}

#[test]
fn a_service_in_front_of_this_server_is_the_name_server() {
    let (_index, records) = index(&content(), 5);
    let plugin = plugin("kubernetes cluster.local", &records, &["10.1.0.1"]);
    let answer = ask(&plugin, "cluster.local.", "NS");
    assert!(answer.contains("cluster.local. 5 IN NS dual.dn.svc.cluster.local."), "{answer}");
    assert!(answer.contains("dual.dn.svc.cluster.local. 5 IN AAAA fd00:96::101"), "{answer}");
}

#[test]
fn mistakes_in_the_stanza_are_named() {
    for (stanza, expected) in [
        ("kubernetes in-addr.arpa", "\"kubernetes\": plugin kubernetes: needs a zone that is not a reverse one"),
        ("kubernetes {\n pods maybe\n }", "\"maybe\": plugin kubernetes: accepted: disabled, insecure, verified"),
        ("kubernetes {\n ttl 3601\n }", "\"3601\": plugin kubernetes: accepted: a number from 0 to 3600"),
        ("kubernetes {\n ttl -1\n }", "\"-1\": plugin kubernetes: accepted: a number from 0 to 3600"),
        ("kubernetes {\n namspaces x\n }", "unknown property; did you mean namespaces?"),
        (
            "kubernetes {\n namespaces a\n namespace_labels b=c\n }",
            "namespaces and namespace_labels do not go together",
        ),
        ("kubernetes\n kubernetes", "may stand only once in a server block"),
    ] {
        let problem = testing::refused(&format!("a.test {{\n {stanza}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
}
