//! `twinstack trace`: how a request of each family travels to a Service or a Route.

use super::{super::Command, FILENAME, KUBECONFIG, Source, object, print};
use crate::flag::flag;
use anyhow::bail;
use inspect::trace::{self, Target};
use runtime::config::Settings;

pub(crate) const COMMAND: Command = Command {
    name: "trace",
    about: "show how a request of each family travels",
    more: "Follows a request over IPv4 and one over IPv6 through the objects of a cluster: name, load balancer, node port, cluster address, router, endpoints; and \
           says where it ends. Nothing is sent and nothing is changed. Ends with 1 if neither family arrives. What the kernel of a node does with a \
           packet is told by `twinstack proxy explain`.",
    example: "twinstack trace service/web --namespace shop\n\
              twinstack trace route/console --namespace openshift-console -o json",
    flags: &[&[
        flag("object", "KIND/NAME", "", "where to: service/NAME or route/NAME"),
        flag("namespace", "NAMESPACE", "default", "where it is").short('n'),
        flag("cluster-domain", "DOMAIN", "cluster.local", "domain of Services"),
        KUBECONFIG,
        FILENAME,
        flag("output", "text|json", "text", "form of the answer").short('o'),
    ]],
    positional: Some("object"),
    long_running: false,
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let ((kind, name), namespace, domain, source, as_json) = settings.read(|given| {
        let text = |text: &str| Ok::<_, String>(text.to_owned());
        let to = given.required("object", "service/NAME or route/NAME", |text| match object(text) {
            Ok(to) if ["service", "route"].contains(&to.0.as_str()) => Ok(to),
            Ok(_) => Err("is nothing that requests go to"),
            Err(problem) => Err(problem),
        });
        let namespace = given.or("namespace", "default".to_owned(), "a namespace", text);
        let domain = given.or("cluster-domain", "cluster.local".to_owned(), "a domain", text);
        let source = Source::read(given);
        let as_json = given.or("output", false, "text, json", |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err("is no form that an answer can have"),
        });
        Some((to?, namespace, domain, source, as_json))
    })?;
    let (snapshot, unread) = source.snapshot()?;
    let target = Target { kind: &kind, namespace: &namespace, name: &name, domain: domain.trim_end_matches('.') };
    let Some(traces) = trace::trace(&snapshot, target) else {
        bail!("there is no {kind} {name} in namespace {namespace}; kubectl get {kind} -A lists them all");
    };
    match as_json {
        true => anstream::println!("{}", serde_json::to_string_pretty(&traces)?),
        false => print::traces(&traces, &unread),
    }
    if traces.iter().all(|trace| trace.ends.is_some()) {
        std::process::exit(1);
    }
    Ok(())
}
