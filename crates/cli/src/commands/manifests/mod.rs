//! `twinstack manifests`: what it takes to run a component on a cluster, as YAML for `kubectl apply`.

mod components;
mod objects;

use super::Command;
use crate::{
    args,
    flag::{DefaultFlag, Flag, IMAGE, REST, flags, word},
};
use anyhow::{Context, bail};
use components::{Component, ON_DISK};
use install::plan::yaml;
use objects::Pod;
use runtime::config::Settings;
use serde_json::json;

pub(super) const COMMAND: Command = Command {
    name: "manifests",
    about: "print what it takes to run a component on a cluster",
    more: "Prints namespaces, account, rights and workload of a component: cloud-controller-manager, cloud-config-sync, dns-operator, ingress-operator, proxy. \
           Rights are the least that it needs, and what concerns one namespace is granted there alone. What stands after -- is checked as the component \
           itself would check it, and becomes its command line; the file of --cloud-config becomes a ConfigMap.",
    example: "twinstack manifests cloud-controller-manager --image registry.example.com/twinstack:1 -- --cluster-name prod --cloud-config cloud.conf | kubectl apply -f -\n\
              twinstack manifests proxy --image registry.example.com/twinstack:1 --server api.example.com:6443 -- --cluster-cidr 10.244.0.0/16,fd00:10:244::/56",
    flags: &[FLAGS],
    positional: Some("component"),
    long_running: false,
    check: |given| asked(given).map(drop),
    run,
};

flags! {
    FLAGS:
    COMPONENT: Flag<&'static Component> = Flag::new("component", "COMPONENT", "", components::named, "which one");
    POD_IMAGE: DefaultFlag<String> = word("image", "IMAGE", "an image", "an image with twinstack in it; for the proxy with nft too, for the ingress operator with haproxy").or(IMAGE);
    SERVER: Flag<(String, u16)> = Flag::new("server", "HOST:PORT", "HOST:PORT, such as [2001:db8::1]:6443; Pods that make Services work cannot reach the API through one", host_and_port, "where the API is, for what runs before Services work; the proxy needs it");
    OUTPUT: DefaultFlag<Output> = Flag::new("output", "yaml|json", "yaml, json", output, "form of the objects").short('o').or("yaml");
    WORDS: DefaultFlag<Vec<String>> = Flag::new("flags", REST, "", |text| Ok(args::rest(text)), "flags of the component, after --").or_else("", Vec::new);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Yaml,
    Json,
}

fn output(text: &str) -> Result<Output, String> {
    match text {
        "yaml" => Ok(Output::Yaml),
        "json" => Ok(Output::Json),
        _ => Err("is no form that manifests can have".to_owned()),
    }
}

/// What the flags say.
struct Asked {
    component: &'static Component,
    pod: Pod,
    words: Vec<String>,
    output: Output,
}

fn asked(given: &mut Settings) -> Option<Asked> {
    let component = given.required(&COMPONENT);
    let image = given.get(&POD_IMAGE).trim().to_owned();
    let (words, output) = (given.get(&WORDS), given.get(&OUTPUT));
    let server = match component.is_some_and(|component| component.needs_server) {
        true => Some(given.required(&SERVER)?),
        false => given.optional(&SERVER),
    };
    let pod = Pod { image, server, files: Vec::new(), words: Vec::new() };
    Some(Asked { component: component?, pod, words, output })
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let Asked { component, mut pod, words, output } = settings.read(asked)?;
    fill(component, &mut pod, words)?;
    let all = objects::all(component, &pod);
    match output {
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
            anstream::println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Output::Yaml => anstream::print!(
            "{}",
            all.iter().map(|object| format!("---\n{}", yaml::render(object))).collect::<String>()
        ),
    }
    Ok(())
}

/// Takes over the flags that are meant for the component, and files that they name.
fn fill(component: &Component, pod: &mut Pod, words: Vec<String>) -> anyhow::Result<()> {
    let given = args::of(component.command, words)?;
    let checked = Settings::new(component.name).flags(given.clone());
    checked.read(|given| component.command.read(given))?;
    for (name, value) in given {
        if name == "cloud-config" {
            let text = std::fs::read_to_string(&value).with_context(|| format!("--cloud-config {value}"))?;
            pod.files.push(("cloud.conf", text));
            pod.words.push(format!("--cloud-config={}/cloud.conf", objects::FILES));
        } else if ON_DISK.contains(&name.as_str()) {
            bail!("--{name} names a file of this machine, which a Pod does not see; leave it out");
        } else {
            pod.words.push(format!("--{name}={value}"));
        }
    }
    Ok(())
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("has no port")?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("{port:?} is no port"))?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            address.parse::<std::net::Ipv6Addr>().map_err(|_| "has no IPv6 address in its brackets")?.to_string()
        }
        None if host.contains(':') => return Err("has an IPv6 address without brackets".to_owned()),
        None if host.is_empty() => return Err("has no host".to_owned()),
        None => host.to_owned(),
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_host_and_a_port() {
        for (text, expected) in [
            ("api.example.test:6443", Some(("api.example.test", 6443))),
            ("192.0.2.1:443", Some(("192.0.2.1", 443))),
            ("[2001:DB8::1]:6443", Some(("2001:db8::1", 6443))),
            ("2001:db8::1:6443", None),
            ("[api]:6443", None),
            ("api.example.test", None),
            (":6443", None),
            ("api:0", None),
            ("api:65536", None),
        ] {
            let read = host_and_port(text).ok();
            assert_eq!(read.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{text}");
        }
    }
}
