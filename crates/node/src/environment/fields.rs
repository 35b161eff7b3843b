//! The downward API's fields of a Pod, for variables and for files.

use super::{Addresses, EnvironmentError};
use k8s_openapi::api::core::v1::Pod;
use std::{collections::BTreeMap, net::IpAddr};

/// A field as a variable has it.
pub fn field(path: &str, pod: &Pod, at: &Addresses<'_>) -> Result<String, EnvironmentError> {
    let spec = pod.spec.as_ref();
    let joined = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    let first = |addresses: &[IpAddr]| addresses.first().map(IpAddr::to_string).unwrap_or_default();
    Ok(match path {
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" => first(at.host_ips),
        "status.hostIPs" => joined(at.host_ips),
        "status.podIP" => first(at.pod_ips),
        "status.podIPs" => joined(at.pod_ips),
        _ => return field_of_volume(path, pod),
    })
}

/// A field as a file has it: those of the metadata, whole maps among them.
pub fn field_of_volume(path: &str, pod: &Pod) -> Result<String, EnvironmentError> {
    let metadata = &pod.metadata;
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.annotations" => &metadata.annotations,
            "metadata.labels" => &metadata.labels,
            _ => return Err(EnvironmentError::Field(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.annotations" => lines(&metadata.annotations),
        "metadata.labels" => lines(&metadata.labels),
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        _ => return Err(EnvironmentError::Field(path.to_owned())),
    })
}

/// `key="value"` on a line each, the value as Go quotes it.
fn lines(map: &Option<BTreeMap<String, String>>) -> String {
    let all: Vec<String> = map.iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    all.join("\n")
}

/// As Go's `%q` writes a text.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            control if u32::from(control) < 0x20 || control == '\u{7f}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
