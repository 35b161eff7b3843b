//! `twinstack doctor`: what is wrong with a cluster's families, why, and what to type.

use super::{super::Command, FILENAME, KUBECONFIG, Source, object, print};
use crate::flag::flag;
use inspect::doctor::{self, Finding, Severity};
use runtime::config::Settings;

pub(crate) const COMMAND: Command = Command {
    name: "doctor",
    about: "say what is wrong with a cluster, why, and what to type",
    more: "Looks once at Nodes, Pods, Services, EndpointSlices, ranges, network policies, the conditions of operators and the Leases by which \
           components show that they see the API, and compares what each family has. Nothing is changed. Ends with 1 if somebody is not served. What is as it was asked for, but perhaps not as it was meant, is a \
           hint: --hints shows all of them, and so does naming an object. With --filename no cluster is needed: what kubectl printed is enough.",
    example: "twinstack doctor\n\
              twinstack doctor service/web --namespace shop\n\
              kubectl get nodes,pods,services,endpointslices,networkpolicies -A -o json | twinstack doctor --filename -",
    flags: &[&[
        flag("object", "KIND/NAME", "everything", "only this one, with its hints; such as service/web"),
        flag("namespace", "NAMESPACE", "all", "only what is in this namespace, and in none").short('n'),
        KUBECONFIG,
        FILENAME,
        flag("hints", "BOOL", "false", "show hints too"),
        flag("output", "text|json", "text", "form of the findings").short('o'),
    ]],
    positional: Some("object"),
    long_running: false,
    run,
};

/// Which findings are wanted.
struct Wanted {
    /// Kind and name.
    object: Option<(String, String)>,
    namespace: Option<String>,
    hints: bool,
}

impl Wanted {
    fn takes(&self, finding: &Finding) -> bool {
        let about = &finding.about;
        let named = self.object.as_ref().is_none_or(|(kind, name)| about.kind == *kind && about.name == *name);
        let inside =
            self.namespace.as_ref().is_none_or(|namespace| about.namespace.is_empty() || about.namespace == *namespace);
        named && inside
    }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (wanted, source, as_json) = settings.read(|given| {
        let text = |text: &str| Ok::<_, String>(text.to_owned());
        let object = given.optional("object", "KIND/NAME, such as service/web", object);
        let namespace = given.optional("namespace", "a namespace", text);
        let source = Source::read(given);
        let hints = given.or("hints", object.is_some(), "true, false", str::parse::<bool>);
        let as_json = given.or("output", false, "text, json", |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err("is no form that findings can have"),
        });
        Some((Wanted { object, namespace, hints }, source, as_json))
    })?;
    let (snapshot, unread) = source.snapshot()?;
    let all: Vec<Finding> = doctor::examine(&snapshot).into_iter().filter(|one| wanted.takes(one)).collect();
    let (shown, hidden): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| wanted.hints || one.severity != Severity::Hint);
    match as_json {
        true => anstream::println!("{}", serde_json::to_string_pretty(&shown)?),
        false => print::findings(&shown, hidden.len(), &unread),
    }
    if shown.iter().any(|one| one.severity == Severity::Error) {
        std::process::exit(1);
    }
    Ok(())
}
