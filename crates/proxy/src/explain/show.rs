//! A report as a table for people and as JSON for programs.

use super::{Explained, Fate, From, Kind, PacketPath, Report, SourceAddress, blocks};
use crate::plan::{Frontend, NodePortMatch, Sources};
use net::Family;
use serde_json::{Value, json};
use std::fmt::Write;

/// More endpoints than this are counted, not listed.
const LISTED: usize = 6;
const HEAD: [&str; 5] = ["SENT TO", "FROM", "ENDS AT", "WHICH SEES", "THROUGH"];

/// For people.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = format!("Service {} on node {}, {}\n", report.service, report.node, report.mode);
    for Explained { family, paths, unserved } in &report.families {
        let _ = writeln!(text, "\n{family}");
        for line in unserved {
            let _ = writeln!(text, "  not served: {line}");
        }
        if paths.is_empty() && unserved.is_empty() {
            text.push_str("  closed: the Service has no address of this family\n");
        }
        if paths.is_empty() {
            continue;
        }
        let rows: Vec<[String; 5]> = std::iter::once(HEAD.map(str::to_owned)).chain(paths.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3].map(width);
        for (at, row) in rows.iter().enumerate() {
            // What is the same as in the line above is said once.
            let same = at > 1 && rows[at - 1][0] == row[0];
            let first = if same { "" } else { &row[0] };
            let [a, b, c, d] = widths;
            let line = format!("  {first:<a$}  {:<b$}  {:<c$}  {:<d$}  {}", row[1], row[2], row[3], row[4]);
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

fn row(path: &PacketPath) -> [String; 5] {
    let from: Vec<&str> = path.from.iter().map(|from| from_word(*from)).collect();
    let mut from = from.join(", ");
    if let Sources::Only(list) = &path.sources
        && !list.is_empty()
    {
        let _ = write!(from, "; only {}", blocks(list));
    }
    let (ends, sees) = match &path.fate {
        Fate::Refused => ("refused: no endpoints".to_owned(), String::new()),
        Fate::Dropped => ("dropped: no endpoint on this node".to_owned(), String::new()),
        Fate::Barred => ("dropped: no source range of this family".to_owned(), String::new()),
        Fate::Delivered { endpoints, seen, affinity } => {
            let one = |(endpoint, here): &(_, bool)| format!("{endpoint}{}", if *here { " (here)" } else { "" });
            let mut ends = endpoints.iter().take(LISTED).map(one).collect::<Vec<_>>().join(", ");
            if endpoints.len() > LISTED {
                let _ = write!(ends, " and {} more", endpoints.len() - LISTED);
            }
            if let Some(seconds) = affinity {
                let _ = write!(ends, "; the same for {seconds} s");
            }
            (ends, seen_word(*seen).to_owned())
        }
    };
    [frontend(path), from, ends, sees, path.through.join(" > ")]
}

fn frontend(path: &PacketPath) -> String {
    match (path.frontend, &path.at) {
        (Frontend::NodePort { protocol, port }, Some(NodePortMatch::In(list))) if !list.is_empty() => {
            format!("node port {protocol} {port} at {}", blocks(list))
        }
        (Frontend::NodePort { protocol, port }, Some(NodePortMatch::In(_))) => {
            format!("node port {protocol} {port} at no address")
        }
        (Frontend::NodePort { protocol, port }, _) => format!("node port {protocol} {port}"),
        (address, _) => format!("{} {address}", kind_words(path.kind)),
    }
}

pub(super) const fn kind_words(kind: Kind) -> &'static str {
    match kind {
        Kind::ClusterIp => "cluster IP",
        Kind::ExternalIp => "external IP",
        Kind::LoadBalancerIp => "load balancer IP",
        Kind::NodePort => "node port",
    }
}

const fn from_word(from: From) -> &'static str {
    match from {
        From::Pods => "pods",
        From::Node => "this node",
        From::Outside => "outside",
    }
}

const fn seen_word(seen: SourceAddress) -> &'static str {
    match seen {
        SourceAddress::Client => "the client",
        SourceAddress::Node => "this node",
    }
}

/// For programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let families: Vec<Value> = report
        .families
        .iter()
        .map(|explained| {
            let family = if explained.family == Family::V4 { "IPv4" } else { "IPv6" };
            let mut value = json!({"family": family, "ways": explained.paths.iter().map(path).collect::<Vec<_>>()});
            if !explained.unserved.is_empty() {
                value["unserved"] = json!(explained.unserved);
            }
            value
        })
        .collect();
    json!({
        "namespace": &*report.service.namespace, "service": &*report.service.name,
        "node": report.node, "mode": report.mode, "families": families,
    })
}

fn path(path: &PacketPath) -> Value {
    let kind = match path.kind {
        Kind::ClusterIp => "ClusterIP",
        Kind::ExternalIp => "ExternalIP",
        Kind::LoadBalancerIp => "LoadBalancerIP",
        Kind::NodePort => "NodePort",
    };
    let from = |from: &From| match from {
        From::Pods => "Pods",
        From::Node => "Node",
        From::Outside => "Outside",
    };
    let (address, port) = match path.frontend {
        Frontend::Address { ip, port, .. } => (Some(ip), port),
        Frontend::NodePort { port, .. } => (None, port),
    };
    let mut value = json!({
        "kind": kind, "protocol": path.frontend.protocol().to_string(), "port": port,
        "from": path.from.iter().map(from).collect::<Vec<_>>(), "through": path.through,
    });
    let mut add = |key: &str, item: Value| value[key] = item;
    if let Some(address) = address {
        add("address", json!(address));
    }
    let texts = |list: &[net::Cidr]| json!(list.iter().map(ToString::to_string).collect::<Vec<_>>());
    if let Some(NodePortMatch::In(list)) = &path.at {
        add("nodeAddresses", texts(list));
    }
    if let Sources::Only(list) = &path.sources {
        add("allowedSources", texts(list));
    }
    match &path.fate {
        Fate::Refused => add("outcome", json!("Refused")),
        Fate::Dropped => add("outcome", json!("Dropped")),
        Fate::Barred => add("outcome", json!("Barred")),
        Fate::Delivered { endpoints, seen, affinity } => {
            add("outcome", json!("Delivered"));
            let one = |(endpoint, here): &(std::net::SocketAddr, bool)| json!({"address": endpoint.ip(), "port": endpoint.port(), "onThisNode": here});
            add("endpoints", json!(endpoints.iter().map(one).collect::<Vec<_>>()));
            add("sees", json!(if *seen == SourceAddress::Client { "Client" } else { "Node" }));
            if let Some(seconds) = affinity {
                add("affinitySeconds", json!(seconds));
            }
        }
    }
    value
}
