//! Every shape of path x method x subresource x scope x role, from the tables below: who gets in, what is 404 or 405, and
//! that nothing is written when the answer is no.
//!
//! The tables say what upstream's grammar makes of each shape, by hand and without the server's own parser. What is expected
//! to be refused is sent for real, everything else as a dry run: at the end every object must be what it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use access::authn::User;
use apiserver::{ApiServer, handle::Insider, testing};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use support::{RBAC, bind, definition, make, status_and_scale};

/// A kind, and what upstream serves below its objects: subresource and methods.
struct Kind {
    prefix: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    custom: bool,
    /// The object that exists; `new` never does.
    name: &'static str,
    /// Whether PUT on a missing name creates it.
    put_creates: bool,
    below: &'static [(&'static str, &'static [&'static str])],
}

const READ_WRITE: &[&str] = &["GET", "PUT", "PATCH", "APPLY"];
const CORE: Kind = Kind {
    prefix: "/api/v1",
    version: "v1",
    kind: "",
    plural: "",
    namespaced: true,
    custom: false,
    name: "one",
    put_creates: false,
    below: &[],
};
const EXAMPLE: Kind = Kind { prefix: "/apis/example.com/v1", version: "example.com/v1", custom: true, ..CORE };

const KINDS: [Kind; 9] = [
    Kind { kind: "ConfigMap", plural: "configmaps", ..CORE },
    Kind {
        kind: "Pod",
        plural: "pods",
        below: &[
            ("status", READ_WRITE),
            ("resize", READ_WRITE),
            ("ephemeralcontainers", READ_WRITE),
            ("eviction", &["POST"]),
            ("binding", &["POST"]),
            ("log", &["GET"]),
        ],
        ..CORE
    },
    Kind {
        prefix: "/apis/apps/v1",
        version: "apps/v1",
        kind: "Deployment",
        plural: "deployments",
        below: &[("status", READ_WRITE), ("scale", READ_WRITE)],
        ..CORE
    },
    Kind {
        prefix: "/apis/coordination.k8s.io/v1",
        version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        put_creates: true,
        ..CORE
    },
    Kind { kind: "Node", plural: "nodes", namespaced: false, below: &[("status", READ_WRITE)], ..CORE },
    Kind {
        kind: "Namespace",
        plural: "namespaces",
        namespaced: false,
        name: "a",
        below: &[("status", READ_WRITE), ("finalize", &["PUT"])],
        ..CORE
    },
    Kind {
        prefix: RBAC,
        version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        plural: "clusterroles",
        namespaced: false,
        put_creates: true,
        ..CORE
    },
    Kind { kind: "Widget", plural: "widgets", below: &[("status", READ_WRITE), ("scale", READ_WRITE)], ..EXAMPLE },
    Kind { kind: "Gadget", plural: "gadgets", namespaced: false, below: &[("status", READ_WRITE)], ..EXAMPLE },
];

/// Subresources that are asked for of every kind, whether it has them or not.
const BELOW: [&str; 10] =
    ["", "status", "scale", "resize", "ephemeralcontainers", "eviction", "binding", "finalize", "log", "bogus"];

const METHODS: [&str; 9] = ["GET", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "HEAD", "OPTIONS"];

/// Rights in namespace `a`, but for the last.
const ROLES: [&str; 7] = ["nobody", "reader", "owner", "patcher", "updater", "statuser", "root"];

/// What a role allows. `path` requests are none of a resource.
fn allows(role: &str, verb: &str, namespace: &str, below: &str) -> bool {
    match role {
        "nobody" => false,
        "root" => true,
        _ if namespace != "a" => false,
        "reader" => ["get", "list", "watch"].contains(&verb),
        "owner" => true,
        "patcher" => verb == "patch",
        "updater" => verb == "update",
        _ => below == "status" && ["get", "update", "patch"].contains(&verb),
    }
}

/// What authorization is asked about.
enum Asked {
    /// A resource: in which namespace, whether an object is named, what is below it, whether the path says the verb.
    Resource { namespace: &'static str, named: bool, below: String, verb: Option<&'static str> },
    /// A path that is none of a resource; below `/api` and `/apis` everybody may `get`.
    Path { open: bool },
}

#[derive(Clone, Copy, PartialEq)]
enum There {
    Nothing,
    /// A name that no object can have.
    BadName,
    Collection,
    Everywhere,
    Item,
    Watch,
}

/// A path of one shape, and what it means.
struct Shape {
    path: String,
    asked: Asked,
    there: There,
}

/// All shapes for one kind, one name (empty for collections) and one subresource.
fn shapes(kind: &Kind, name: &str, below: &str) -> Vec<Shape> {
    let Kind { prefix, plural, namespaced, .. } = kind;
    let own = plural == &"namespaces";
    let tail = [name, below].iter().filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect::<String>();
    let there = if name.is_empty() { There::Collection } else { There::Item };
    let in_namespace =
        |namespace| Asked::Resource { namespace, named: !name.is_empty(), below: below.to_owned(), verb: None };
    let by_path = |namespace, verb| Asked::Resource {
        namespace,
        named: !name.is_empty(),
        below: below.to_owned(),
        verb: Some(verb),
    };
    let odd = |namespace, below: &str| Asked::Resource { namespace, named: true, below: below.to_owned(), verb: None };
    // A namespace named by its own path is the one that its rights are looked for in.
    let cluster = if own && name == "a" {
        "a"
    } else if own && !name.is_empty() {
        "elsewhere"
    } else {
        ""
    };
    let mut shapes = Vec::new();
    let mut add = |path: String, asked: Asked, there: There| shapes.push(Shape { path, asked, there });
    let good = if *namespaced { format!("{prefix}/namespaces/a/{plural}") } else { format!("{prefix}/{plural}") };
    let home = if *namespaced { "a" } else { cluster };
    add(format!("{good}{tail}"), in_namespace(home), there);
    add(format!("{good}{tail}/"), in_namespace(home), there);
    add(format!("{prefix}/watch{}{tail}", &good[prefix.len()..]), by_path(home, "watch"), There::Watch);
    add(format!("{prefix}/proxy{}{tail}", &good[prefix.len()..]), by_path(home, "proxy"), There::Nothing);
    add(format!("/{good}{tail}"), Asked::Path { open: false }, There::Nothing);
    if *namespaced {
        add(format!("{prefix}/namespaces/b/{plural}{tail}"), in_namespace("b"), there);
        let everywhere = if name.is_empty() { There::Everywhere } else { There::Nothing };
        add(format!("{prefix}/{plural}{tail}"), in_namespace(""), everywhere);
        add(format!("{prefix}/namespaces//{plural}{tail}"), in_namespace(""), There::Nothing);
        add(format!("{prefix}/namespaces/%2e%2e/{plural}{tail}"), in_namespace(".."), There::BadName);
        add(format!("{prefix}/namespaces/a%2F{plural}{tail}"), Asked::Path { open: true }, There::Nothing);
        add(format!("{prefix}/namespaces/b%2f..%2Fa/{plural}{tail}"), Asked::Path { open: true }, There::Nothing);
    } else {
        add(format!("{prefix}/namespaces/a/{plural}{tail}"), in_namespace("a"), There::Nothing);
        add(format!("{prefix}/watch/namespaces/a/{plural}{tail}"), by_path("a", "watch"), There::Nothing);
    }
    // The second `namespaces` is the resource, the plural what is below its object.
    add(format!("{prefix}/namespaces/a/namespaces/b/{plural}{tail}"), odd("a", plural), There::Nothing);
    // Nothing is the resource, the plural its object.
    add(format!("{prefix}/namespaces/a//{plural}{tail}"), odd("a", name), There::Nothing);
    let capital = format!("{}{}", plural[..1].to_uppercase(), &plural[1..]);
    add(format!("{prefix}/namespaces/a/{capital}{tail}"), in_namespace("a"), There::Nothing);
    if name == kind.name {
        for bad in ["..", "%2e%2e", "%252e"] {
            if !own && ["", "status"].contains(&below) {
                add(format!("{good}/{bad}{}", &tail[name.len() + 1..]), in_namespace(home), There::BadName);
            }
        }
        if !below.is_empty() {
            add(format!("{good}{tail}/more"), in_namespace(home), There::Nothing);
            let unnamed = Asked::Resource {
                namespace: if *namespaced { "a" } else { "" },
                named: false,
                below: below.to_owned(),
                verb: None,
            };
            if !own {
                add(format!("{good}//{below}"), unnamed, There::Nothing);
            }
        }
        add(format!("{good}%2F{name}"), Asked::Path { open: true }, There::Nothing);
    }
    shapes
}

fn verb(method: &str, named: bool) -> &'static str {
    match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" | "APPLY" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        "GET" | "WATCH" | "HEAD" if named => "get",
        "WATCH" => "watch",
        "GET" | "HEAD" => "list",
        _ => "",
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Status(u16),
    /// Neither forbidden nor missing nor not allowed: what the body says decides.
    Served,
}

fn expected(kind: &Kind, name: &str, below: &str, shape: &Shape, method: &str, role: &str) -> Expected {
    use Expected::{Served, Status};
    let (namespace, word, seen) = match &shape.asked {
        Asked::Path { open } => {
            let reads = ["GET", "WATCH"].contains(&method);
            return Status(match (role == "root" || (*open && reads), reads || method == "HEAD") {
                (false, _) => 403,
                (true, true) => 404,
                (true, false) => 405,
            });
        }
        Asked::Resource { namespace, named, below, verb: given } => {
            (*namespace, given.unwrap_or_else(|| verb(method, *named)), below)
        }
    };
    if !allows(role, word, namespace, seen) {
        return Status(403);
    }
    let has = kind.below.iter().find(|(sub, _)| *sub == below);
    let by_path = matches!(shape.asked, Asked::Resource { verb: Some(_), .. });
    if by_path && kind.custom && (shape.there == There::Watch || word == "proxy") {
        // Custom kinds are served by the verb alone, whatever the method.
        return match (word, below, has) {
            ("watch", "", _) => Served,
            (_, "", _) | (_, _, Some(_)) => Status(405),
            _ => Status(404),
        };
    }
    if shape.there == There::Nothing || (!below.is_empty() && has.is_none()) {
        return Status(404);
    }
    let served = match shape.there {
        There::Watch if !below.is_empty() => return Status(404),
        There::Watch => ["GET", "WATCH"].contains(&method),
        There::Everywhere if kind.custom && !["list", "watch"].contains(&word) => return Status(404),
        There::Everywhere => ["GET", "WATCH"].contains(&method) || (kind.custom && method == "HEAD"),
        There::Collection | There::BadName if name.is_empty() => {
            ["GET", "WATCH", "POST"].contains(&method)
                || (method == "DELETE" && kind.plural != "namespaces")
                || (kind.custom && method == "HEAD")
        }
        _ => {
            let methods = has.map_or(&["GET", "PUT", "PATCH", "APPLY", "DELETE"][..], |(_, methods)| methods);
            let method = if method == "WATCH" { "GET" } else { method };
            methods.contains(&method) || (kind.custom && method == "HEAD" && methods.contains(&"GET"))
        }
    };
    if !served {
        return Status(405);
    }
    if shape.there == There::BadName {
        return Status(400);
    }
    if name != "new" || shape.there == There::Watch {
        return Served;
    }
    let creates = below.is_empty() && (method == "APPLY" || (method == "PUT" && kind.put_creates));
    match (creates, allows(role, "create", namespace, seen)) {
        (true, true) => Served,
        (true, false) => Status(403),
        (false, _) => Status(404),
    }
}

fn body(kind: &Kind, name: &str, below: &str, method: &str) -> (&'static str, Value) {
    let mut object = json!({"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": if name.is_empty() { "new" } else { name }}});
    match (below, method) {
        ("scale", "PUT" | "POST" | "APPLY") => {
            object["apiVersion"] = json!("autoscaling/v1");
            object["kind"] = json!("Scale");
            object["spec"] = json!({"replicas": 2});
        }
        ("eviction", _) => {
            object["apiVersion"] = json!("policy/v1");
            object["kind"] = json!("Eviction");
        }
        ("binding", _) => {
            object["kind"] = json!("Binding");
            object["target"] = json!({"kind": "Node", "name": "one"});
        }
        _ => {
            let containers = json!([{"name": "c", "image": "i"}]);
            let labels = json!({"a": "b"});
            match kind.kind {
                "Pod" => object["spec"] = json!({"containers": containers}),
                "Deployment" => {
                    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
                    object["spec"] = json!({"selector": {"matchLabels": labels}, "template": template});
                }
                "ClusterRole" => object["rules"] = json!([]),
                "Widget" => object["spec"] = json!({"replicas": 1}),
                _ => {}
            }
        }
    }
    match method {
        "PATCH" => ("application/merge-patch+json", json!({"metadata": {"labels": {"x": "y"}}})),
        "APPLY" => ("application/apply-patch+yaml", object),
        "DELETE" | "GET" | "WATCH" | "HEAD" | "OPTIONS" => ("application/json", Value::Null),
        _ => ("application/json", object),
    }
}

/// Definitions, one object of each kind (in both namespaces), and the roles.
async fn furnish(server: &Arc<ApiServer>) {
    for kind in KINDS.iter().filter(|kind| kind.custom) {
        let below = if kind.kind == "Widget" { status_and_scale() } else { json!({"status": {}}) };
        let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
        let definition = definition(kind.kind, kind.plural, scope, &below);
        make(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
    for namespace in ["a", "b"] {
        make(server, "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
    }
    for kind in KINDS.iter().filter(|kind| kind.plural != "namespaces") {
        let object = body(kind, "one", "", "POST").1;
        if !kind.namespaced {
            make(server, &format!("{}/{}", kind.prefix, kind.plural), object).await;
            continue;
        }
        for namespace in ["a", "b"] {
            make(server, &format!("{}/namespaces/{namespace}/{}", kind.prefix, kind.plural), object.clone()).await;
        }
    }
    for (role, verbs, resources) in [
        ("reader", &["get", "list", "watch"][..], "*"),
        ("owner", &["*"][..], "*"),
        ("patcher", &["patch"][..], "*"),
        ("updater", &["update"][..], "*"),
        ("statuser", &["get", "update", "patch"][..], "*/status"),
    ] {
        let rule = json!({"verbs": verbs, "apiGroups": ["*"], "resources": [resources]});
        make(server, &format!("{RBAC}/namespaces/a/roles"), json!({"metadata": {"name": role}, "rules": [rule]})).await;
        bind(server, &format!("{RBAC}/namespaces/a/rolebindings"), role, "Role", role).await;
    }
    let last = "/api/v1/namespaces/a/pods/one/status";
    for _ in 0..500 {
        if send(server, "statuser", "GET", last, "application/json", &Value::Null).await == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the roles were never read");
}

/// The status alone: nobody reads a watch to its end here.
async fn send(server: &Arc<ApiServer>, role: &str, method: &str, path: &str, media: &str, body: &Value) -> u16 {
    let groups =
        if role == "root" { vec!["system:masters", "system:authenticated"] } else { vec!["system:authenticated"] };
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.extension(Insider(User::new(role, groups))).body(Full::new(bytes)).unwrap();
    apiserver::handle::handle(Arc::clone(server), request).await.unwrap().status().as_u16()
}

/// Every object with the revision it was written at.
async fn everything(server: &Arc<ApiServer>) -> BTreeMap<String, u64> {
    let page = server.store.list("", None, None, None).await.unwrap();
    page.entries.iter().map(|entry| (entry.key().to_string(), entry.mod_revision())).collect()
}

#[tokio::test]
async fn every_path_is_answered_by_who_may_what_and_by_what_is_there() {
    let server = testing::server().await;
    furnish(&server).await;
    let before = everything(&server).await;
    let (mut asked, mut wrong) = (0, Vec::new());
    for kind in &KINDS {
        let named = BELOW.into_iter().flat_map(|below| [(kind.name, below), ("new", below)]);
        // What is not below anything is not below a missing object either.
        let own = |below: &str| ["", "bogus"].contains(&below) || kind.below.iter().any(|(sub, _)| *sub == below);
        let named = named.filter(|(name, below)| *name == kind.name || own(below));
        for (name, below) in std::iter::once(("", "")).chain(named) {
            // A missing object matters where there could be one.
            let wanted = |shape: &Shape| name != "new" || shape.there != There::Nothing;
            for shape in shapes(kind, name, below).into_iter().filter(wanted) {
                for method in METHODS {
                    let (media, body) = body(kind, name, below, method);
                    for role in ROLES {
                        let want = expected(kind, name, below, &shape, method, role);
                        let mut path = format!("{}?fieldManager=m", shape.path);
                        // Connections to nodes know no dry run, and change nothing here.
                        if want == Expected::Served && below != "log" {
                            path.push_str("&dryRun=All");
                        }
                        let sent = match method {
                            "APPLY" => "PATCH",
                            "WATCH" => {
                                path.push_str("&watch=1");
                                "GET"
                            }
                            method => method,
                        };
                        asked += 1;
                        let revision = server.store.known_revision();
                        let got = send(&server, role, sent, &path, media, &body).await;
                        let as_expected = match want {
                            Expected::Status(status) => got == status,
                            Expected::Served => ![403, 404, 405, 500].contains(&got),
                        };
                        if !as_expected || server.store.known_revision() != revision {
                            wrong.push(format!("{role} {method} {path}: {got}, expected {want:?}"));
                        }
                    }
                }
            }
        }
    }
    let shown = wrong.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {asked}:\n{shown}", wrong.len());
    assert_eq!(everything(&server).await, before, "something was written");
    assert!(asked > 50_000, "the tables shrank: {asked} requests");
}
