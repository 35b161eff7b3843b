//! `twinstack trace`: how a request of each family travels to a Service or a Route.

use super::{
    super::{Command, dns_operator},
    Source, object, print,
};
use crate::flag::{DefaultFlag, Flag, Form, flags, output, text};
use ::dns::wire::Name;
use anyhow::bail;
use inspect::trace::{self, Target};
use runtime::config::Settings;
use std::path::PathBuf;

pub(crate) const COMMAND: Command = Command {
    name: "trace",
    about: "show how a request of each family travels",
    more: "Follows a request over IPv4 and one over IPv6 through the objects of a cluster: name, load balancer, node port, cluster address, router, endpoints; and \
           says where it ends. Nothing is sent and nothing is changed. Ends with 1 if neither family arrives. What the kernel of a node does with a \
           packet is told by `twinstack proxy explain`.",
    example: "twinstack trace service/web --namespace shop\n\
              twinstack trace route/console --namespace openshift-console -o json",
    flags: &[FLAGS],
    positional: Some("object"),
    long_running: false,
    check: |given| read(given).map(drop),
    run,
};

flags! {
    FLAGS:
    OBJECT: Flag<(String, String)> = Flag::new("object", "KIND/NAME", "service/NAME or route/NAME", destination, "where to: service/NAME or route/NAME");
    NAMESPACE: DefaultFlag<String> = text("namespace", "NAMESPACE", "a namespace", "where it is").short('n').or("default");
    CLUSTER_DOMAIN: DefaultFlag<Name> = dns_operator::DOMAIN;
    KUBECONFIG: Flag<PathBuf> = super::KUBECONFIG;
    FILENAME: Flag<String> = super::FILENAME;
    OUTPUT: DefaultFlag<Form> = output("form of the answer");
}

/// What the flags say.
struct Asked {
    to: (String, String),
    namespace: String,
    domain: String,
    source: Source,
    form: Form,
}

fn destination(text: &str) -> Result<(String, String), String> {
    match object(text)? {
        to if ["service", "route"].contains(&to.0.as_str()) => Ok(to),
        _ => Err("is nothing that requests go to".to_owned()),
    }
}

fn read(given: &mut Settings) -> Option<Asked> {
    let to = given.required(&OBJECT);
    let (namespace, domain) = (given.get(&NAMESPACE), given.get(&CLUSTER_DOMAIN).to_string());
    let (source, form) = (Source::read(given), given.get(&OUTPUT));
    Some(Asked { to: to?, namespace, domain, source, form })
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let Asked { to: (kind, name), namespace, domain, source, form } = settings.read(read)?;
    let (snapshot, unread) = source.snapshot()?;
    let target = Target { kind: &kind, namespace: &namespace, name: &name, domain: domain.trim_end_matches('.') };
    let Some(traces) = trace::trace(&snapshot, target) else {
        bail!("there is no {kind} {name} in namespace {namespace}; kubectl get {kind} -A lists them all");
    };
    match form {
        Form::Json => anstream::println!("{}", serde_json::to_string_pretty(&traces)?),
        Form::Text => print::traces(&traces, &unread),
    }
    if traces.iter().all(|trace| trace.ends.is_some()) {
        std::process::exit(1);
    }
    Ok(())
}
