//! The transformer: a cloud-config with the defaults that OpenShift wants, as gcfg text.
//!
//! Mirrors that of the cluster cloud controller manager operator, to the byte for what upstream knows. Differs in one
//! thing: what is not known is kept, after the known keys of its section.

use super::{CloudConfig, ConfigError, Entry, GLOBAL_KEYS, OVERRIDE_KEYS, entries, gcfg::written, known};
use std::collections::BTreeMap;

/// What is known of the feature gate `AWSServiceLBNetworkSecurityGroup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// On: groups are managed, whatever the administrator wrote.
    On,
    /// Off or not known: what the administrator wrote stays.
    #[default]
    Off,
}

/// Reads, sets the defaults, prints; the second part is what should be told though it is no mistake.
pub fn transform(text: &str, gate: Gate) -> Result<(String, Vec<String>), ConfigError> {
    let mut entries = entries(text)?;
    if gate == Gate::On {
        entries.retain(|entry| known(entry) != Some("NLBSecurityGroupMode"));
        entries.push(global("NLBSecurityGroupMode", "Managed"));
    }
    let has = |entries: &[Entry], key: &str| {
        entries
            .iter()
            .any(|entry| entry.subsection.is_none() && known(entry) == Some(key) && entry.value.as_deref() != Some(""))
    };
    if !has(&entries, "ClusterServiceLoadBalancerHealthProbeMode") {
        entries.retain(|entry| known(entry) != Some("ClusterServiceLoadBalancerHealthProbeMode"));
        entries.push(global("ClusterServiceLoadBalancerHealthProbeMode", "Shared"));
    }
    // Upstream prints these two also when nobody gave them.
    if !has(&entries, "DisableSecurityGroupIngress") {
        entries.push(global("DisableSecurityGroupIngress", "false"));
    }
    if !has(&entries, "ClusterServiceSharedLoadBalancerHealthProbePort") {
        entries.push(global("ClusterServiceSharedLoadBalancerHealthProbePort", "0"));
    }
    let printed = print(&entries);
    // Checked as the controller will read it.
    let (_, warnings) = CloudConfig::parse(&printed)?;
    Ok((printed, warnings))
}

fn global(key: &str, value: &str) -> Entry {
    let (section, key, value) = ("Global".to_owned(), key.to_owned(), Some(value.to_owned()));
    Entry { section, subsection: None, key, value, line: 0 }
}

/// Sections by name, known keys in upstream's order, equal signs below each other.
fn print(entries: &[Entry]) -> String {
    let mut sections: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        let section = match entry.section.to_lowercase().as_str() {
            "global" => "Global",
            "serviceoverride" => "ServiceOverride",
            _ => entry.section.as_str(),
        };
        let title = match &entry.subsection {
            Some(part) => format!("{section} \"{}\"", part.replace('\\', "\\\\").replace('"', "\\\"")),
            None => section.to_owned(),
        };
        sections.entry(title).or_default().push(entry);
    }
    let printed: Vec<String> = sections.iter().map(|(title, entries)| print_section(title, entries)).collect();
    printed.join("\n")
}

fn print_section(title: &str, entries: &[&Entry]) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    let keys = if title == "Global" { GLOBAL_KEYS } else { OVERRIDE_KEYS };
    for key in keys {
        let values = entries.iter().filter(|entry| known(entry) == Some(key)).map(|entry| shown(entry));
        let values: Vec<String> = values.filter(|value| !value.is_empty()).collect();
        // A key that is given twice counts as its last, except where it is a list.
        let values = if *key == "NodeIPFamilies" { &values[..] } else { &values[values.len().saturating_sub(1)..] };
        lines.extend(values.iter().map(|value| ((*key).to_owned(), value.clone())));
    }
    lines.extend(entries.iter().filter(|entry| known(entry).is_none()).map(|entry| (entry.key.clone(), shown(entry))));
    let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or_default();
    let lines: String = lines.iter().map(|(key, value)| format!("{key:width$} = {value}\n")).collect();
    format!("[{title}]\n{lines}")
}

fn shown(entry: &Entry) -> String {
    match &entry.value {
        Some(value) => written(value),
        None => "true".to_owned(),
    }
}
