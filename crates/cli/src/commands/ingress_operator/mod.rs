//! `twinstack ingress-operator`: IngressControllers become routers, Services and DNS records. `up` runs it in its own process.

mod for_up;

pub(crate) use for_up::{ForUp, Serving, with_defaults};

use super::{
    Command,
    dns_operator::{OperandKind, operand_kind},
    up,
};
use crate::{
    component,
    flag::{DefaultFlag, Flag, IMAGE, KUBECONFIG, addresses, flags, folder, text, word},
    manager::{AfterLoss, Manager, Own},
};
use ingress::operator::{
    self, OperatorOptions,
    dns::lab::{self, Lab},
    plan::{environment::Ports, small::RouterSecrets},
    process::Process,
};
use net::DualStack;
use runtime::{cloud::DnsProvider, config::Settings, controller::Context};
use std::{net::IpAddr, path::PathBuf, sync::Arc};

pub(super) const COMMAND: Command = Command {
    name: "ingress-operator",
    about: "run the routers of a cluster as its IngressControllers say",
    more: "Turns ingresscontrollers.operator.openshift.io into Deployments of routers, Services, certificates and DNS records, and \
           says in their conditions how that goes. Makes the definitions that are missing, and the IngressController \"default\" where \
           the cluster's configuration names a domain. With --operand process routers run as processes beside this one.",
    example: "twinstack ingress-operator --kubeconfig ~/.kube/config --router-image registry.example.com/twinstack:latest\n\
              twinstack ingress-operator --kubeconfig ./data/admin.kubeconfig --operand process --dns-provider lab",
    flags: &[&[&KUBECONFIG], FLAGS, &OWN.flags()],
    positional: None,
    long_running: true,
    check: |given| flags(given).map(drop),
    run,
};

flags! {
    pub(super) FLAGS:
    OPERAND: DefaultFlag<OperandKind> = Flag::new("operand", "workload|process", "workload, process", operand_kind, "what routers are: Deployments, or a process beside this one for each IngressController").or("workload");
    ROUTER_IMAGE: DefaultFlag<String> = word("router-image", "IMAGE", "an image", "image of routers; it has twinstack and haproxy").or(IMAGE);
    ROUTER_SECRETS: DefaultFlag<RouterSecrets> = Flag::new("router-secrets", "all|granted", "all, granted", router_secrets, "which Secrets routers may read: all (they ask for those that Routes and Ingresses name), or those that a Role in their namespace grants to the account openshift-ingress/router").or("all");
    DNS_PROVIDER: DefaultFlag<Dns> = Flag::new("dns-provider", "aws|lab|none", "aws, lab, none", dns_provider, "who publishes DNSRecords: aws (Route53; docs/guide/aws-iam.md), lab (the DNS server's plugin dnsrecords answers from them), or nobody").or("none");
    OPERAND_ADDRESS: Flag<DualStack<IpAddr>> = addresses("operand-address", "with --operand process: where Services reach the router, one address of each family; without it they have no endpoints");
    OPERAND_BIND_ADDRESS: Flag<DualStack<IpAddr>> = addresses("operand-bind-address", "with --operand process: where routers listen, one address or one of each family").otherwise("all of the machine's");
    OPERAND_PORTS: DefaultFlag<Ports> = Flag::new("operand-ports", "HTTP,HTTPS,STATS", "three different ports such as 10080,10443,11936", ports, "with --operand process: ports of the router, but for the strategy HostNetwork, which brings its own").or("10080,10443,11936");
    OPERAND_NODE: Flag<String> = text("operand-node", "NAME", "a name", "with --operand process: the node that the router is on, for Services that keep traffic local");
    OPERAND_DATA_DIR: DefaultFlag<PathBuf> = folder("operand-data-dir", "with --operand process: where certificates and HAProxy's files are kept; by it the next operator finds routers that still run").or_else("~/.local/share/twinstack/ingress-operator, or /var/lib/twinstack/ingress-operator for root", || up::data_dir().join("ingress-operator"));
    LOAD_BALANCER_CLASS: Flag<String> = text("load-balancer-class", "CLASS", "a class", "with --operand process: class of load balancer Services, such as twinstack.dev/lab");
}

pub(super) const OWN: Own = Own::new("ingress-operator", "10264");

/// Who publishes DNSRecords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dns {
    Nobody,
    Lab,
    Route53,
}

/// Everything the flags say.
struct Flags {
    manager: Manager,
    options: OperatorOptions,
    /// Whether records go to Route53, which is opened later.
    route53: bool,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, flags) = settings.read(|given| Some((component::log(given), flags(given)?)))?;
    let Flags { manager, mut options, route53 } = flags;
    component::run(&log, async |admin, tasks| {
        let client = manager.connect("twinstack-ingress-operator", &admin, &tasks).await?;
        if route53 {
            options.dns = Some(super::cloud_controller_manager::dns::route53(&admin.metrics).await?);
        }
        manager.lead_in_terms(Context::new(client, options, &admin, &tasks), AfterLoss::End, operator::start);
        Ok(())
    })
}

fn flags(given: &mut Settings) -> Option<Flags> {
    let manager = Manager::read(given, &OWN);
    let as_process = given.get(&OPERAND) == OperandKind::Process;
    let folder = given.get(&OPERAND_DATA_DIR);
    let mut process = process(given, folder);
    process.listen = given.optional(&OPERAND_BIND_ADDRESS);
    // The router is told where it is, wherever it is started.
    process.kubeconfig = manager.kubeconfig().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let dns = given.get(&DNS_PROVIDER);
    let image = given.get(&ROUTER_IMAGE).trim().to_owned();
    let mut options = options(image, as_process.then_some(process), dns == Dns::Lab);
    options.secrets = given.get(&ROUTER_SECRETS);
    Some(Flags { manager, options, route53: dns == Dns::Route53 })
}

fn dns_provider(text: &str) -> Result<Dns, String> {
    match text {
        "aws" => Ok(Dns::Route53),
        "lab" => Ok(Dns::Lab),
        "none" => Ok(Dns::Nobody),
        _ => Err("is no DNS provider".to_owned()),
    }
}

fn router_secrets(text: &str) -> Result<RouterSecrets, String> {
    match text {
        "all" => Ok(RouterSecrets::All),
        "granted" => Ok(RouterSecrets::Granted),
        _ => Err("is neither".to_owned()),
    }
}

/// With the lab's provider a zone of its own stands in where the configuration names none.
fn options(image: String, process: Option<Process>, lab: bool) -> OperatorOptions {
    let dns = lab.then(|| Arc::new(Lab) as Arc<dyn DnsProvider>);
    OperatorOptions { image, process, dns, own_zone: lab.then(|| lab::ZONE.to_owned()), secrets: RouterSecrets::All }
}

fn process(given: &mut Settings, directory: PathBuf) -> Process {
    let words = vec!["router".to_owned(), format!("--working-dir={}/{{name}}/haproxy", directory.display())];
    Process {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("twinstack")),
        words,
        directory,
        ports: given.get(&OPERAND_PORTS),
        addresses: given.optional(&OPERAND_ADDRESS).map(|pair| pair.into_iter().collect()).unwrap_or_default(),
        kubeconfig: None,
        listen: None,
        node: given.optional(&OPERAND_NODE),
        load_balancer_class: given.optional(&LOAD_BALANCER_CLASS),
    }
}

pub(super) fn ports(text: &str) -> Result<Ports, String> {
    let numbers: Option<Vec<u16>> =
        text.split(',').map(|one| one.trim().parse().ok().filter(|port| *port > 0)).collect();
    match numbers.as_deref() {
        Some(&[http, https, stats]) if http != https && https != stats && http != stats => {
            Ok(Ports { http, https, stats })
        }
        _ => Err("are not three different ports".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_three_and_different() {
        assert_eq!(ports("80, 443,1936"), Ok(Ports { http: 80, https: 443, stats: 1936 }));
        for text in ["", "80", "80,443", "80,80,1936", "80,443,443", "0,1,2", "a,b,c", "1,2,3,4", "70000,1,2"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }
}
