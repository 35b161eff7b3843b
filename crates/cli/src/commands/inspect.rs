//! Commands that look at a cluster and change nothing: what they share is where objects come from, and how an object is named.

pub(super) mod doctor;
mod gather;
mod print;
pub(super) mod trace;

use crate::{
    flag::{Flag, flag},
    read,
};
use inspect::Snapshot;
use runtime::config::Settings;
use std::{io::Read, path::PathBuf};

const KUBECONFIG: Flag = flag("kubeconfig", "FILE", "$KUBECONFIG, or ~/.kube/config", "how to reach the API");
const FILENAME: Flag =
    flag("filename", "FILE", "", "look at the objects in this file, JSON or YAML, instead; - is standard input")
        .short('f');

/// Where objects come from.
struct Source {
    kubeconfig: Option<PathBuf>,
    /// What is in the file.
    text: Option<String>,
}

impl Source {
    fn read(given: &mut Settings) -> Self {
        let kubeconfig = given.optional(KUBECONFIG.name, "a file", read::path);
        let text = given.optional(FILENAME.name, "a readable file", |path| match path {
            "-" => standard_input(),
            path => std::fs::read_to_string(path),
        });
        Self { kubeconfig, text }
    }

    /// The objects, and what could not be read.
    fn snapshot(self) -> anyhow::Result<(Snapshot, Vec<String>)> {
        match self.text {
            Some(text) => Ok((from_text(&text)?, Vec::new())),
            None => gather::gather(self.kubeconfig.or_else(usual_kubeconfig).as_deref()),
        }
    }
}

/// Kind and name, as kubectl takes them.
fn object(text: &str) -> Result<(String, String), &'static str> {
    let (kind, name) = text.split_once('/').ok_or("has no kind")?;
    let kind = match kind.to_lowercase().as_str() {
        "svc" | "services" | "service" => "service",
        "po" | "pods" | "pod" => "pod",
        "no" | "nodes" | "node" => "node",
        "netpol" | "networkpolicies" | "networkpolicy" => "networkpolicy",
        "ingresscontrollers" | "ingresscontroller" => "ingresscontroller",
        "leases" | "lease" => "lease",
        "routes" | "route" => "route",
        "dnsrecords" | "dnsrecord" => "dnsrecord",
        "dnses" | "dns" => "dns",
        _ => return Err("is of a kind that is not looked at"),
    };
    Ok((kind.to_owned(), name.to_owned()))
}

fn from_text(text: &str) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    // A whole cluster in JSON is much to read; YAML's parser would take longer.
    if let Ok(object) = serde_json::from_str(text) {
        snapshot.add(object).map_err(anyhow::Error::msg)?;
        return Ok(snapshot);
    }
    for document in install::plan::yaml::documents(text).map_err(anyhow::Error::msg)? {
        snapshot.add(document).map_err(anyhow::Error::msg)?;
    }
    Ok(snapshot)
}

fn standard_input() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// As kubectl finds it; none in a pod.
fn usual_kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").and_then(|list| std::env::split_paths(&list).next());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    named.filter(|path| !path.as_os_str().is_empty()).or_else(home).filter(|path| path.exists())
}
