//! Commands that look at a cluster and change nothing: what they share is where objects come from, and how an object is named.

pub(super) mod doctor;
mod gather;
mod print;
pub(super) mod trace;

use crate::flag::{Flag, file};
use inspect::Snapshot;
use runtime::config::Settings;
use std::path::PathBuf;

/// For people, who have one where kubectl has it.
const KUBECONFIG: Flag<PathBuf> =
    file("kubeconfig", "how to reach the API").otherwise("$KUBECONFIG, or ~/.kube/config");
const FILENAME: Flag<String> = Flag::new(
    "filename",
    "FILE",
    "a readable file",
    objects,
    "look at the objects in this file, JSON or YAML, instead; - is standard input",
)
.short('f');

/// Where objects come from.
struct Source {
    kubeconfig: Option<PathBuf>,
    /// What is in the file.
    text: Option<String>,
}

impl Source {
    fn read(given: &mut Settings) -> Self {
        Self { kubeconfig: given.optional(&KUBECONFIG), text: given.optional(&FILENAME) }
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
fn object(text: &str) -> Result<(String, String), String> {
    let (kind, name) = text.split_once('/').ok_or_else(|| "has no kind".to_owned())?;
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
        _ => return Err("is of a kind that is not looked at".to_owned()),
    };
    Ok((kind.to_owned(), name.to_owned()))
}

/// At least one: of nothing nobody can say that it is well.
fn from_text(text: &str) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    // A whole cluster in JSON is much to read; YAML's parser would take longer.
    if let Ok(object) = serde_json::from_str(text) {
        snapshot.add(object).map_err(anyhow::Error::msg)?;
        return Ok(snapshot);
    }
    let documents = install::plan::yaml::documents(text).map_err(anyhow::Error::msg)?;
    if documents.is_empty() {
        anyhow::bail!("--filename: there is no object in it; give what `kubectl get ... -o json` or `-o yaml` prints");
    }
    for document in documents {
        snapshot.add(document).map_err(anyhow::Error::msg)?;
    }
    Ok(snapshot)
}

/// What is in the file.
fn objects(path: &str) -> Result<String, String> {
    let text = if path == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    text.map_err(|error| error.to_string())
}

/// As kubectl finds it; none in a pod.
fn usual_kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").and_then(|list| std::env::split_paths(&list).next());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    named.filter(|path| !path.as_os_str().is_empty()).or_else(home).filter(|path| path.exists())
}
