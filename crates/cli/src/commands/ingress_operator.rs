//! `twinstack ingress-operator`: IngressControllers become routers, Services and DNS records. `up` runs it in its own process.

mod for_up;

pub(crate) use for_up::{ForUp, Serving, objects};

use super::Command;
use crate::{
    component,
    flag::{Flag, flag},
    kubeconfig,
    manager::{AfterLoss, Manager, Own},
    read,
};
use ingress::operator::{
    self, Options,
    dns::lab::{self, Lab},
    plan::{environment::Ports, small::RouterSecrets},
    process::Process,
};
use net::{DualStack, flags};
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
    flags: &[&[kubeconfig::FLAG], FLAGS, &OWN.flags()],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("operand", "workload|process", "workload", "what routers are: Deployments, or a process beside this one for each IngressController"),
    flag("router-image", "IMAGE", IMAGE, "image of routers; it has twinstack and haproxy"),
    flag("router-secrets", "all|granted", "all", "which Secrets routers may read: all (they ask for those that Routes and Ingresses name), or those that a Role in their namespace grants to the account openshift-ingress/router"),
    flag("dns-provider", "aws|lab|none", "none", "who publishes DNSRecords: aws (Route53; docs/guide/aws-iam.md), lab (the DNS server's plugin dnsrecords answers from them), or nobody"),
    flag("operand-address", "ADDRESS[,ADDRESS]", "", "with --operand process: where Services reach the router, one address of each family; without it they have no endpoints"),
    flag("operand-bind-address", "ADDRESS[,ADDRESS]", "all of the machine's", "with --operand process: where routers listen, one address or one of each family"),
    flag("operand-ports", "HTTP,HTTPS,STATS", "10080,10443,11936", "with --operand process: ports of the router, but for the strategy HostNetwork, which brings its own"),
    flag("operand-node", "NAME", "", "with --operand process: the node that the router is on, for Services that keep traffic local"),
    flag("operand-data-dir", "FOLDER", "~/.local/share/twinstack/ingress-operator, or /var/lib/twinstack/ingress-operator for root", "with --operand process: where certificates and HAProxy's files are kept; by it the next operator finds routers that still run"),
    flag("load-balancer-class", "CLASS", "", "with --operand process: class of load balancer Services, such as twinstack.dev/lab"),
];

const IMAGE: &str = "localhost/twinstack:latest";
pub(super) const OWN: Own = Own::new("ingress-operator", "10264");
const PORTS: Ports = Ports { http: 10080, https: 10443, stats: 11936 };

/// Who publishes DNSRecords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dns {
    Nobody,
    Lab,
    Route53,
}

/// Everything the flags say.
struct Flags {
    manager: Manager,
    options: Options,
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

/// Reads the flags as [`run`] does, and nothing else.
pub(super) fn check(given: &mut Settings) -> Option<()> {
    component::log(given);
    flags(given).map(drop)
}

fn flags(given: &mut Settings) -> Option<Flags> {
    let manager = Manager::read(given, &OWN)?;
    let as_process = given.or("operand", false, "workload, process", |text| match text {
        "workload" => Ok(false),
        "process" => Ok(true),
        _ => Err("is no operand"),
    });
    let folder = given.or("operand-data-dir", super::up::data_dir().join("ingress-operator"), "a folder", read::path);
    let mut process = process(given, folder);
    process.listen = addresses(given, "operand-bind-address");
    // The router is told where it is, wherever it is started.
    process.kubeconfig = manager.kubeconfig().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let image = given.or("router-image", IMAGE.to_owned(), "an image", |text| match text.trim() {
        "" => Err("is empty"),
        image => Ok(image.to_owned()),
    });
    let dns = given.or("dns-provider", Dns::Nobody, "aws, lab, none", |text| match text {
        "aws" => Ok(Dns::Route53),
        "lab" => Ok(Dns::Lab),
        "none" => Ok(Dns::Nobody),
        _ => Err("is no DNS provider"),
    });
    let mut options = options(image, as_process.then_some(process), dns == Dns::Lab);
    options.secrets = given.or("router-secrets", RouterSecrets::All, "all, granted", |text| match text {
        "all" => Ok(RouterSecrets::All),
        "granted" => Ok(RouterSecrets::Granted),
        _ => Err("is neither"),
    });
    Some(Flags { manager, options, route53: dns == Dns::Route53 })
}

/// With the lab's provider a zone of its own stands in where the configuration names none.
fn options(image: String, process: Option<Process>, lab: bool) -> Options {
    let dns = lab.then(|| Arc::new(Lab) as Arc<dyn DnsProvider>);
    Options { image, process, dns, own_zone: lab.then(|| lab::ZONE.to_owned()), secrets: RouterSecrets::All }
}

fn addresses(given: &mut Settings, flag: &'static str) -> Option<DualStack<IpAddr>> {
    given.optional(flag, "", |text| flags::one_or_pair::<IpAddr>(flag, text))
}

fn process(given: &mut Settings, directory: PathBuf) -> Process {
    let text = |text: &str| Ok::<_, String>(text.to_owned());
    let words = vec!["router".to_owned(), format!("--working-dir={}/{{name}}/haproxy", directory.display())];
    Process {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("twinstack")),
        words,
        directory,
        ports: given.or("operand-ports", PORTS, "three different ports such as 10080,10443,11936", ports),
        addresses: addresses(given, "operand-address").map(|pair| pair.into_iter().collect()).unwrap_or_default(),
        kubeconfig: None,
        listen: None,
        node: given.optional("operand-node", "a name", text),
        load_balancer_class: given.optional("load-balancer-class", "a class", text),
    }
}

fn ports(text: &str) -> Result<Ports, &'static str> {
    let numbers: Option<Vec<u16>> =
        text.split(',').map(|one| one.trim().parse().ok().filter(|port| *port > 0)).collect();
    match numbers.as_deref() {
        Some(&[http, https, stats]) if http != https && https != stats && http != stats => {
            Ok(Ports { http, https, stats })
        }
        _ => Err("are not three different ports"),
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
