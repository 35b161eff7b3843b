//! Reading the `kubernetes` line.

use super::{Details, Pods};
use crate::{
    corefile::{Directive, Problem},
    text::{self, Fallthrough},
    wire::Name,
};
use regex::Regex;
use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

const KNOWN: &[&str] = &[
    "apiserver_burst",
    "apiserver_max_inflight",
    "apiserver_qps",
    "endpoint",
    "endpoint_pod_names",
    "fallthrough",
    "ignore",
    "kubeconfig",
    "labels",
    "namespace_labels",
    "namespaces",
    "noendpoints",
    "pods",
    "startup_timeout",
    "ttl",
    "zonal",
];

/// What a stanza says.
#[derive(Clone, Debug)]
pub(crate) struct KubernetesOptions {
    pub(super) zones: Vec<Name>,
    pub(super) primary: Name,
    pub(super) pods: Pods,
    pub(super) ttl: u32,
    pub(super) fall: Fallthrough,
    pub(super) ignore_empty: bool,
    pub(super) namespaces: Vec<Box<[u8]>>,
    pub(super) watch: Watch,
}

/// Where a cluster's API is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(super) endpoint: Option<String>,
    pub(super) kubeconfig: Option<(PathBuf, Option<String>)>,
}

impl Source {
    /// Takes up a line that is about it; false for any other.
    pub(crate) fn property(&mut self, line: &Directive, folder: &Path) -> Result<bool, Problem> {
        match line.name.text.as_str() {
            // Only the first is ever asked, as CoreDNS does.
            "endpoint" => match line.args.first() {
                Some(first) => self.endpoint = Some(first.text.clone()),
                None => return Err(Problem::at(&line.name, "needs an address")),
            },
            "kubeconfig" => match line.args.as_slice() {
                [path] => self.kubeconfig = Some((folder.join(&path.text), None)),
                [path, context] => self.kubeconfig = Some((folder.join(&path.text), Some(context.text.clone()))),
                _ => return Err(Problem::at(&line.name, "needs a file, and perhaps a context")),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What is watched, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) source: Source,
    pub(super) labels: Option<String>,
    pub(super) namespace_labels: Option<String>,
    pub(super) pods: bool,
    pub(super) endpoints: bool,
    pub(super) details: Details,
}

impl KubernetesOptions {
    /// Two stanzas with the same one share what they watch.
    pub(super) fn source(&self) -> String {
        format!("{:?} {}", self.watch, self.ttl)
    }
}

pub(crate) fn options(line: &Directive, block: &[Name], folder: &Path) -> Result<KubernetesOptions, Problem> {
    let zones = text::zones_or(&line.args, block)?;
    let reverse = |zone: &&Name| {
        let text = zone.to_string();
        text.ends_with("in-addr.arpa.") || text.ends_with("ip6.arpa.")
    };
    let Some(primary) = zones.iter().find(|zone| !reverse(zone)).copied() else {
        return Err(Problem::at(&line.name, "needs a zone that is not a reverse one"));
    };
    let mut options = KubernetesOptions {
        zones,
        primary,
        pods: Pods::Disabled,
        ttl: 5,
        fall: Fallthrough::default(),
        ignore_empty: false,
        namespaces: Vec::new(),
        watch: Watch { endpoints: true, ..Watch::default() },
    };
    for line in line.lines() {
        property(line, folder, &mut options)?;
    }
    if !options.namespaces.is_empty() && options.watch.namespace_labels.is_some() {
        return Err(Problem::at(&line.name, "namespaces and namespace_labels do not go together"));
    }
    if options.watch.details.zones && !options.watch.endpoints {
        return Err(Problem::at(&line.name, "zonal and noendpoints do not go together"));
    }
    options.watch.pods = options.pods == Pods::Verified;
    Ok(options)
}

fn property(line: &Directive, folder: &Path, options: &mut KubernetesOptions) -> Result<(), Problem> {
    let watch = &mut options.watch;
    if watch.source.property(line, folder)? {
        return Ok(());
    }
    match line.name.text.as_str() {
        "labels" => watch.labels = Some(selector(line)?),
        "namespace_labels" => watch.namespace_labels = Some(selector(line)?),
        "namespaces" if line.args.is_empty() => return Err(Problem::at(&line.name, "needs at least one namespace")),
        "namespaces" => {
            options.namespaces.extend(line.args.iter().map(|word| word.text.to_lowercase().into_bytes().into()));
        }
        "noendpoints" => {
            line.none()?;
            watch.endpoints = false;
        }
        "endpoint_pod_names" => {
            line.none()?;
            watch.details.pod_names = true;
        }
        "pods" => {
            let mode = line.one()?;
            options.pods = match mode.text.as_str() {
                "disabled" => Pods::Disabled,
                "insecure" => Pods::Insecure,
                "verified" => Pods::Verified,
                _ => return Err(Problem::at(mode, "accepted: disabled, insecure, verified")),
            };
        }
        "ttl" => options.ttl = text::number(line.one()?, 0..=3600, "a number from 0 to 3600")?,
        "fallthrough" => options.fall = Fallthrough::parse(&line.args)?,
        "ignore" => match line.one()?.text.as_str() {
            "empty_service" => options.ignore_empty = true,
            _ => return Err(Problem::at(line.one()?, "accepted: empty_service")),
        },
        "startup_timeout" => drop(text::duration(line.one()?)?),
        // Each kind is listed and watched by one request: there is nothing to slow down.
        "apiserver_qps" => _ = text::number(line.one()?, 0.0.., "a number from 0")?,
        "apiserver_burst" | "apiserver_max_inflight" => {
            let _: u32 = text::number(line.one()?, .., "a whole number from 0")?;
        }
        "tls" => return Err(Problem::at(&line.name, "is not built: name a kubeconfig with the certificates")),
        "multicluster" => {
            return Err(Problem::at(&line.name, "is not built: only this cluster's own Services are known"));
        }
        "zonal" => {
            line.none()?;
            watch.details.zones = true;
        }
        _ => return Err(line.unknown(KNOWN)),
    }
    Ok(())
}

/// Requirements of a label selector, with commas between them.
static SELECTOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (key, value) = ("[A-Za-z0-9][A-Za-z0-9._/-]*", "[A-Za-z0-9._-]*");
    let set = format!(r"{key}\s+(in|notin)\s*\(\s*{value}(\s*,\s*{value})*\s*\)");
    let one = format!(r"\s*(!\s*{key}|{key}|{key}\s*(=|==|!=)\s*{value}|{set})\s*");
    Regex::new(&format!("^{one}(,{one})*$")).ok()
});

fn selector(line: &Directive) -> Result<String, Problem> {
    let Some(first) = line.args.first() else { return Err(Problem::at(&line.name, "needs a selector")) };
    let words: Vec<&str> = line.args.iter().map(|word| word.text.as_str()).collect();
    let text = words.join(" ");
    let accepted = "key=value, key!=value, key in (a,b), key notin (a,b), key, !key, with commas between them";
    match SELECTOR.as_ref().is_some_and(|pattern| pattern.is_match(&text)) {
        true => Ok(text),
        false => Err(Problem::at(first, format!("{text:?} is no selector; accepted: {accepted}"))),
    }
}
