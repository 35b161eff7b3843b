//! Advice on pods and templates: what is accepted, and likely not what was meant.
//!
//! Called by `pod` and by the workloads; becomes Warning headers.

use crate::{
    kinds::{check, names, quantity},
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of nodes that are going away, and what takes their place.
const OLD_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "use kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "use kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "use topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "use topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "use node.kubernetes.io/instance-type"),
    ("app.kubernetes.io/created-by", "nothing sets it"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "use taints and tolerations"),
    ("node-role.kubernetes.io/master", "use node-role.kubernetes.io/control-plane"),
];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Advice on a name that becomes the name of hosts.
pub(in crate::kinds) fn host_name(object: &Value) -> Option<String> {
    let wrong = names::dns_label(object.str_at("metadata.name"), false);
    (!wrong.is_empty())
        .then(|| format!("metadata.name: host names are made of it, better as a DNS label: {}", wrong.join("; ")))
}

/// Advice on a pod spec at `path`.
pub(in crate::kinds) fn spec(path: &Path, spec: &Value) -> Vec<String> {
    let mut advice = Vec::new();
    scheduling(&mut advice, path, spec);
    twice(&mut advice, &path.child("hostAliases"), spec.list_at("hostAliases"), "ip");
    let secrets = spec.list_at("imagePullSecrets");
    twice(&mut advice, &path.child("imagePullSecrets"), secrets, "name");
    for (i, _) in secrets.iter().enumerate().filter(|(_, secret)| secret.str_at("name").is_empty()) {
        advice.push(format!("{}: is empty", path.child("imagePullSecrets").index(i).child("name")));
    }
    for (i, volume) in spec.list_at("volumes").iter().enumerate() {
        files(&mut advice, &path.child("volumes").index(i), volume);
    }
    let containers: Vec<(Path, &Value)> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| spec.list_at(list).iter().enumerate().map(|(i, c)| (path.child(list).index(i), c)))
        .collect();
    fractions(&mut advice, &path.child("overhead"), spec.at("overhead"));
    for (at, container) in &containers {
        for kind in ["limits", "requests"] {
            fractions(&mut advice, &at.child("resources").child(kind), container.at("resources").at(kind));
        }
        hidden_variables(&mut advice, &at.child("env"), container.list_at("env"));
    }
    ports(&mut advice, &containers);
    if spec.int_at("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        advice.push(format!("{}: must be 0 or more; read as 1", path.child("terminationGracePeriodSeconds")));
    }
    for (i, server) in check::texts(spec, "dnsConfig.nameservers").into_iter().enumerate() {
        advice.extend(check::ip_advice(&path.child("dnsConfig").child("nameservers").index(i), server));
    }
    for (i, alias) in spec.list_at("hostAliases").iter().enumerate() {
        advice.extend(check::ip_advice(&path.child("hostAliases").index(i).child("ip"), alias.str_at("ip")));
    }
    advice
}

fn scheduling(advice: &mut Vec<String>, path: &Path, spec: &Value) {
    const NOTHING: &str = "without it no pod is selected";
    let mut aged = |path: Path, key: &str| {
        if let Some((_, instead)) = OLD_LABELS.iter().find(|(old, _)| *old == key) {
            advice.push(format!("{path}: {key} is deprecated; {instead}"));
        }
    };
    for (key, _) in spec.map_at("nodeSelector").into_iter().flatten() {
        aged(path.child("nodeSelector").key(key), key);
    }
    let affinity = path.child("affinity").child("nodeAffinity");
    let required = spec.at("affinity.nodeAffinity").at(REQUIRED).list_at("nodeSelectorTerms").iter().enumerate();
    let preferred = spec.at("affinity.nodeAffinity").list_at(PREFERRED).iter().enumerate();
    let terms = required.map(|(i, term)| (affinity.child(REQUIRED).child("nodeSelectorTerms").index(i), term)).chain(
        preferred.map(|(i, wish)| (affinity.child(PREFERRED).index(i).child("preference"), wish.at("preference"))),
    );
    for (at, term) in terms {
        for (i, rule) in term.list_at("matchExpressions").iter().enumerate() {
            aged(at.child("matchExpressions").index(i).child("key"), rule.str_at("key"));
        }
    }
    for (i, rule) in spec.list_at("topologySpreadConstraints").iter().enumerate() {
        let at = path.child("topologySpreadConstraints").index(i);
        aged(at.child("topologyKey"), rule.str_at("topologyKey"));
    }
    for (i, wish) in spec.at("affinity.nodeAffinity").list_at(PREFERRED).iter().enumerate() {
        for (j, rule) in wish.list_at("preference.matchExpressions").iter().enumerate() {
            let at = affinity.child(PREFERRED).index(i).child("preference").child("matchExpressions").index(j);
            for (k, value) in check::texts(rule, "values").into_iter().enumerate() {
                let wrong = names::label_value(value).into_iter();
                advice.extend(
                    wrong.map(|text| format!("{}: no label has this value: {text}", at.child("values").index(k))),
                );
            }
        }
    }
    for (i, rule) in spec.list_at("topologySpreadConstraints").iter().enumerate() {
        if rule.at("labelSelector").is_null() {
            let at = path.child("topologySpreadConstraints").index(i).child("labelSelector");
            advice.push(format!("{at}: {NOTHING}"));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (at, affinity) = (path.child("affinity").child(kind), spec.at("affinity").at(kind));
        for (i, _) in
            affinity.list_at(REQUIRED).iter().enumerate().filter(|(_, term)| term.at("labelSelector").is_null())
        {
            advice.push(format!("{}: {NOTHING}", at.child(REQUIRED).index(i).child("labelSelector")));
        }
        let wishes = affinity.list_at(PREFERRED).iter().enumerate();
        for (i, _) in wishes.filter(|(_, wish)| wish.at("podAffinityTerm.labelSelector").is_null()) {
            let at = at.child(PREFERRED).index(i).child("podAffinityTerm").child("labelSelector");
            advice.push(format!("{at}: {NOTHING}"));
        }
    }
}

fn twice(advice: &mut Vec<String>, path: &Path, list: &[Value], field: &str) {
    let mut seen = BTreeSet::new();
    for (i, item) in list.iter().enumerate() {
        let value = item.str_at(field);
        if !seen.insert(value) {
            advice.push(format!("{}: {value} is given twice", path.index(i).child(field)));
        }
    }
}

/// Files of a volume that hide each other, and claims for part of a byte.
fn files(advice: &mut Vec<String>, path: &Path, volume: &Value) {
    let hides = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
    let mut overlaps = |at: &Path, sources: &[&Value]| {
        let mut seen: Vec<&str> = Vec::new();
        for item in sources.iter().flat_map(|source| source.list_at("items")) {
            let file = item.str_at("path").trim_end_matches('/');
            for other in seen.iter().filter(|other| hides(file, other) || hides(other, file)) {
                advice.push(format!("{at}: {file} and {other} are in each other's way"));
            }
            seen.push(file);
        }
    };
    for kind in ["configMap", "secret", "downwardAPI"] {
        overlaps(&path.child(kind), &[volume.at(kind)]);
    }
    for (i, source) in volume.list_at("projected.sources").iter().enumerate() {
        if source.as_object().is_some_and(|map| map.values().all(Value::is_null)) {
            advice.push(format!("{}: is empty", path.child("projected").child("sources").index(i)));
        }
    }
    let at = path.child("ephemeral").child("volumeClaimTemplate").child("spec").child("resources").child("requests");
    let storage =
        volume.at("ephemeral.volumeClaimTemplate.spec.resources.requests").get("storage").and_then(Value::as_str);
    if let Some(text) = storage.filter(|text| !quantity::is_whole(text)) {
        advice.push(format!("{}: {text} is not a whole number of bytes", at.key("storage")));
    }
}

/// Bytes come whole.
fn fractions(advice: &mut Vec<String>, path: &Path, amounts: &Value) {
    for name in ["memory", "ephemeral-storage"] {
        if let Some(text) = amounts.get(name).and_then(Value::as_str).filter(|text| !quantity::is_whole(text)) {
            advice.push(format!("{}: {text} is not a whole number of bytes", path.key(name)));
        }
    }
}

/// A variable may be given again only to make it longer.
fn hidden_variables(advice: &mut Vec<String>, path: &Path, variables: &[Value]) {
    let mut seen = BTreeSet::new();
    for (i, variable) in variables.iter().enumerate() {
        let (name, value) = (variable.str_at("name"), variable.str_at("value"));
        let itself = format!("$({name})");
        let hides = !variable.at("valueFrom").is_null() || value == itself || !value.contains(&itself);
        if !seen.insert(name) && hides {
            advice.push(format!("{}: hides the {name} before it", path.index(i)));
        }
    }
}

fn ports(advice: &mut Vec<String>, containers: &[(Path, &Value)]) {
    let mut known: BTreeMap<_, Vec<(Path, &str, i64)>> = BTreeMap::new();
    let mut named: BTreeMap<&str, Path> = BTreeMap::new();
    for (path, container) in containers {
        for (i, port) in container.list_at("ports").iter().enumerate() {
            let at = path.child("ports").index(i);
            let (ip, host) = (port.str_at("hostIP"), port.int_at("hostPort").unwrap_or_default());
            if !ip.is_empty() && host == 0 {
                advice.push(format!("{at}: hostIP means nothing without hostPort"));
            }
            let key = (port.int_at("containerPort").unwrap_or_default(), port.str_at("protocol"));
            let others = known.entry(key).or_default();
            for (other, other_ip, other_host) in others.iter() {
                let same = ip == *other_ip && host == *other_host;
                let unclear = host == *other_host && ip.is_empty() != other_ip.is_empty();
                if same || host == 0 || *other_host == 0 || unclear {
                    advice.push(format!("{at}: is the same port as {other}"));
                }
            }
            others.push((at.clone(), ip, host));
            let name = port.str_at("name");
            if !name.is_empty() {
                match named.get(name) {
                    Some(first) => {
                        advice.push(format!("{at}: {name} is the name of {first} too, which is the one found by it"))
                    }
                    None => drop(named.insert(name, at)),
                }
            }
        }
    }
}
