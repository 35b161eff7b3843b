//! `twinstack doctor`: what is wrong with a cluster's families, why, and what to type.

mod gather;
mod print;

use super::Command;
use crate::{flag::flag, read};
use inspect::{
    Snapshot,
    doctor::{self, Finding, Severity},
};
use runtime::config::Settings;
use std::{io::Read, path::PathBuf};

pub(super) const COMMAND: Command = Command {
    name: "doctor",
    about: "say what is wrong with a cluster, why, and what to type",
    more: "Looks once at Nodes, Pods, Services, EndpointSlices, ranges, network policies and the conditions of operators, and compares what each \
           family has. Nothing is changed. Ends with 1 if somebody is not served. What is as it was asked for, but perhaps not as it was meant, is a \
           hint: --hints shows all of them, and so does naming an object. With --filename no cluster is needed: what kubectl printed is enough.",
    example: "twinstack doctor\n\
              twinstack doctor service/web --namespace shop\n\
              kubectl get nodes,pods,services,endpointslices,networkpolicies -A -o json | twinstack doctor --filename -",
    flags: &[&[
        flag("object", "KIND/NAME", "everything", "only this one, with its hints; such as service/web"),
        flag("namespace", "NAMESPACE", "all", "only what is in this namespace, and in none").short('n'),
        flag("kubeconfig", "FILE", "$KUBECONFIG, or ~/.kube/config", "how to reach the API"),
        flag("filename", "FILE", "", "look at the objects in this file, JSON or YAML, instead; - is standard input")
            .short('f'),
        flag("hints", "BOOL", "false", "show hints too"),
        flag("output", "text|json", "text", "form of the findings").short('o'),
    ]],
    positional: Some("object"),
    long_running: false,
    run,
};

/// Which findings are wanted.
struct Wanted {
    /// Kind and name.
    object: Option<(String, String)>,
    namespace: Option<String>,
    hints: bool,
}

impl Wanted {
    fn takes(&self, finding: &Finding) -> bool {
        let about = &finding.about;
        let named = self.object.as_ref().is_none_or(|(kind, name)| about.kind == *kind && about.name == *name);
        let inside =
            self.namespace.as_ref().is_none_or(|namespace| about.namespace.is_empty() || about.namespace == *namespace);
        named && inside
    }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (wanted, kubeconfig, file, as_json) = settings.read(|given| {
        let text = |text: &str| Ok::<_, String>(text.to_owned());
        let object = given.optional("object", "KIND/NAME, such as service/web", object);
        let namespace = given.optional("namespace", "a namespace", text);
        let kubeconfig = given.optional("kubeconfig", "a file", read::path);
        let file = given.optional("filename", "a readable file", |path| match path {
            "-" => standard_input(),
            path => std::fs::read_to_string(path),
        });
        let hints = given.or("hints", object.is_some(), "true, false", str::parse::<bool>);
        let as_json = given.or("output", false, "text, json", |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err("is no form that findings can have"),
        });
        Some((Wanted { object, namespace, hints }, kubeconfig, file, as_json))
    })?;
    let (snapshot, unread) = match file {
        Some(text) => (from_text(&text)?, Vec::new()),
        None => gather::gather(kubeconfig.or_else(usual_kubeconfig).as_deref())?,
    };
    let all: Vec<Finding> = doctor::examine(&snapshot).into_iter().filter(|one| wanted.takes(one)).collect();
    let (shown, hidden): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| wanted.hints || one.severity != Severity::Hint);
    match as_json {
        true => anstream::println!("{}", serde_json::to_string_pretty(&shown)?),
        false => print::print(&shown, hidden.len(), &unread),
    }
    if shown.iter().any(|one| one.severity == Severity::Error) {
        std::process::exit(1);
    }
    Ok(())
}

fn object(text: &str) -> Result<(String, String), &'static str> {
    let (kind, name) = text.split_once('/').ok_or("has no kind")?;
    let kind = match kind.to_lowercase().as_str() {
        "svc" | "services" | "service" => "service",
        "po" | "pods" | "pod" => "pod",
        "no" | "nodes" | "node" => "node",
        "netpol" | "networkpolicies" | "networkpolicy" => "networkpolicy",
        "ingresscontrollers" | "ingresscontroller" => "ingresscontroller",
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
