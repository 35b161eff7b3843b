//! `twinstack proxy explain`: the way of a packet to a Service through the rules, per family.

use super::{Command, Mode};
use crate::{
    component,
    flag::{Flag, flag},
    kubeconfig,
};
use anyhow::Context;
use proxy::{
    backend::{iptables, ipvs, nft},
    explain::{self, Explained, Report},
    plan,
    track::Name,
};
use runtime::config::Settings;

pub(crate) const COMMAND: Command = Command {
    name: "proxy explain",
    about: "show the way of a packet to a Service, per family",
    more: "Reads the API once and tells, for each address and node port of a Service and for each kind of sender (pods, programs \
           on the node, everyone else), at which endpoints a packet ends, whose address they see, and which rules decide on it. \
           Needs no root and asks no kernel: it says what the rules of a proxy with these settings are. Settings are those of \
           `twinstack proxy`; give the same.",
    example: "twinstack proxy explain kube-system/kube-dns --kubeconfig ./admin.kubeconfig --hostname-override node-1 --cluster-cidr 10.244.0.0/16,fd00:10:244::/56\n\
              twinstack proxy explain web -o json",
    flags: &[FLAGS, &[kubeconfig::FLAG], SETTINGS],
    positional: Some("service"),
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("service", "[NAMESPACE/]SERVICE", "", "which Service; in namespace default when none is named"),
    flag("output", "FORMAT", "table", "table, json").short('o'),
];

/// Of those of `proxy`, what decides on the rules.
#[rustfmt::skip]
const SETTINGS: &[Flag] = &[
    flag("hostname-override", "NAME", "", "name of the Node whose proxy is meant; the host's name when not given"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "", "the node's address, or one of each family, where the Node object does not say"),
    flag("proxy-mode", "MODE", "nftables", "how the kernel is programmed"),
    flag("cluster-cidr", "CIDR[,CIDR]", "", "the pods' addresses, one block or one of each family"),
    flag("detect-local-mode", "MODE", "ClusterCIDR", "how pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix"),
    flag("pod-bridge-interface", "NAME", "", "the pods' bridge, for BridgeInterface"),
    flag("pod-interface-name-prefix", "PREFIX", "", "how the names of the pods' interfaces begin, for InterfaceNamePrefix"),
    flag("nodeport-addresses", "CIDR,...", "primary", "where node ports are open: blocks, primary or all"),
    flag("masquerade-all", "BOOL", "false", "masquerade everything to cluster IPs"),
];

#[derive(Clone, Copy)]
enum Output {
    Table,
    Json,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (name, output, options) = settings.read(|given| {
        component::log(given);
        let name = given.required("service", "SERVICE or NAMESPACE/SERVICE", service);
        let output = given.or("output", Output::Table, "table, json", |text| match text {
            "table" => Ok(Output::Table),
            "json" => Ok(Output::Json),
            _ => Err("is no format"),
        });
        let options = super::options(given);
        Some((name?, output, options))
    })?;
    let tracker = super::snapshot(&options)?;
    let service = tracker.get(&name).and_then(|entry| entry.service.as_ref());
    let service = service.with_context(|| {
        format!("there are no rules for a Service {name}: it is not there, or it is headless, an ExternalName, or another proxy's")
    })?;
    let node = tracker.node();
    if node.name.is_empty() {
        let wanted = &options.proxy.node_name;
        anstream::eprintln!(
            "\x1b[1;33mwarning:\x1b[0m there is no Node {wanted}: no endpoint counts as on this node, and node ports have no address; --hostname-override names another"
        );
    }
    let families = options.proxy.families.iter().map(|family| {
        let fixed = options.proxy.fixed(*family, &tracker);
        let mut plan = plan::plan(*family, &name, &tracker);
        if options.mode == Mode::Ipvs {
            plan = ipvs::served(plan);
        }
        let explained = explain::explain(*family, service, &plan, &fixed, |route, from| match options.mode {
            Mode::Nftables => nft::trace(route, from),
            Mode::Iptables => iptables::trace(*family, &name, &plan, route, from),
            Mode::Ipvs => ipvs::trace(*family, route, from),
        });
        Explained { unserved: explain::unserved(*family, &name, &tracker), ..explained }
    });
    let report = Report {
        families: families.collect(),
        service: name.clone(),
        node: options.proxy.node_name.clone(),
        mode: options.mode.name(),
    };
    match output {
        Output::Table => anstream::print!("{}", explain::table(&report)),
        Output::Json => anstream::println!("{:#}", explain::json(&report)),
    }
    Ok(())
}

fn service(text: &str) -> Result<Name, &'static str> {
    let words: Vec<&str> = text.split('/').collect();
    let good = |word: &&str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
    };
    match words[..] {
        [name] if good(&name) => Ok(Name::new("default", name)),
        [namespace, name] if good(&namespace) && good(&name) => Ok(Name::new(namespace, name)),
        _ => Err("is no name of a Service"),
    }
}
