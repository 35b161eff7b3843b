//! `twinstack proxy explain`: the way of a packet to a Service through the rules, per family.

use super::{Command, Mode};
use crate::{
    component,
    flag::{DefaultFlag, Flag, Flags, KUBECONFIG, flags},
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
    flags: &[FLAGS, &[&KUBECONFIG], SETTINGS],
    positional: Some("service"),
    long_running: true,
    check: |given| asked(given).map(drop),
    run,
};

flags! {
    pub(super) FLAGS:
    SERVICE: Flag<Name> = Flag::new("service", "[NAMESPACE/]SERVICE", "SERVICE or NAMESPACE/SERVICE", service, "which Service; in namespace default when none is named");
    OUTPUT: DefaultFlag<Output> = Flag::new("output", "FORMAT", "table, json", form, "table, json").short('o').or("table");
}

/// Of those of `proxy`, what decides on the rules.
const SETTINGS: Flags = &[
    &super::HOSTNAME_OVERRIDE.help("name of the Node whose proxy is meant; the host's name when not given"),
    &super::BIND_ADDRESS.help("the node's address, or one of each family, where the Node object does not say"),
    &super::PROXY_MODE.help("how the kernel is programmed"),
    &super::CLUSTER_CIDR.help("the pods' addresses, one block or one of each family"),
    &super::DETECT_LOCAL_MODE,
    &super::POD_BRIDGE_INTERFACE,
    &super::POD_INTERFACE_NAME_PREFIX,
    &super::NODEPORT_ADDRESSES.help("where node ports are open: blocks, primary or all"),
    &super::MASQUERADE_ALL,
];

#[derive(Clone, Copy)]
pub(super) enum Output {
    Table,
    Json,
}

fn form(text: &str) -> Result<Output, String> {
    match text {
        "table" => Ok(Output::Table),
        "json" => Ok(Output::Json),
        _ => Err("is no format".to_owned()),
    }
}

fn asked(given: &mut Settings) -> Option<(Name, Output, super::ProxyOptions)> {
    let (name, output, options) = (given.required(&SERVICE), given.get(&OUTPUT), super::options(given));
    Some((name?, output, options))
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (name, output, options) = settings.read(|given| {
        component::log(given);
        asked(given)
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

fn service(text: &str) -> Result<Name, String> {
    let words: Vec<&str> = text.split('/').collect();
    let good = |word: &&str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
    };
    match words[..] {
        [name] if good(&name) => Ok(Name::new("default", name)),
        [namespace, name] if good(&namespace) && good(&name) => Ok(Name::new(namespace, name)),
        _ => Err("is no name of a Service".to_owned()),
    }
}
