//! `twinstack doctor`: what is wrong with a cluster's families, why, and what to type.

use super::{super::Command, Source, object, print};
use crate::flag::{DefaultFlag, Flag, Form, flags, output, switch, text};
use anyhow::bail;
use inspect::{
    Snapshot,
    doctor::{self, Finding, Severity},
};
use runtime::config::Settings;
use std::path::PathBuf;

pub(crate) const COMMAND: Command = Command {
    name: "doctor",
    about: "say what is wrong with a cluster, why, and what to type",
    more: "Looks once at Nodes, Pods, Services, EndpointSlices, ranges, network policies, the conditions of operators and the Leases by which \
           components show that they see the API, and compares what each family has. Nothing is changed. Ends with 1 if somebody is not served. What is as it was asked for, but perhaps not as it was meant, is a \
           hint: --hints shows all of them, and so does naming an object. With --filename no cluster is needed: what kubectl printed is enough.",
    example: "twinstack doctor\n\
              twinstack doctor service/web --namespace shop\n\
              kubectl get nodes,pods,services,endpointslices,networkpolicies -A -o json | twinstack doctor --filename -",
    flags: &[FLAGS],
    positional: Some("object"),
    long_running: false,
    check: |given| read(given).map(drop),
    run,
};

flags! {
    FLAGS:
    OBJECT: Flag<(String, String)> = Flag::new("object", "KIND/NAME", "KIND/NAME, such as service/web", object, "only this one, with its hints; such as service/web").otherwise("everything");
    NAMESPACE: Flag<String> = text("namespace", "NAMESPACE", "a namespace", "only what is in this namespace, and in none").short('n').otherwise("all");
    KUBECONFIG: Flag<PathBuf> = super::KUBECONFIG;
    FILENAME: Flag<String> = super::FILENAME;
    HINTS: Flag<bool> = switch("hints", "show hints too").otherwise("false");
    OUTPUT: DefaultFlag<Form> = output("form of the findings");
}

/// Which findings are wanted.
struct Wanted {
    /// Kind and name.
    object: Option<(String, String)>,
    namespace: Option<String>,
    hints: bool,
}

impl Wanted {
    /// Of what is not there nobody can say that nothing is wrong with it.
    fn is_there(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let namespace = self.namespace.as_deref();
        let inside = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        match &self.object {
            Some((kind, name)) if !snapshot.has(kind, name, namespace) => {
                bail!("there is no {kind} {name}{inside}; kubectl get {kind} -A lists them all")
            }
            None if namespace.is_some_and(|namespace| !snapshot.has_namespace(namespace)) => {
                bail!("there is nothing to look at{inside}; kubectl get namespaces lists them all")
            }
            _ => Ok(()),
        }
    }

    fn takes(&self, finding: &Finding) -> bool {
        let about = &finding.about;
        let named = self.object.as_ref().is_none_or(|(kind, name)| about.kind == *kind && about.name == *name);
        let inside =
            self.namespace.as_ref().is_none_or(|namespace| about.namespace.is_empty() || about.namespace == *namespace);
        named && inside
    }
}

fn read(given: &mut Settings) -> Option<(Wanted, Source, Form)> {
    let object = given.optional(&OBJECT);
    let namespace = given.optional(&NAMESPACE);
    // Who names an object wants to know all about it.
    let hints = given.optional(&HINTS).unwrap_or_else(|| object.is_some());
    Some((Wanted { object, namespace, hints }, Source::read(given), given.get(&OUTPUT)))
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (wanted, source, form) = settings.read(read)?;
    let (snapshot, unread) = source.snapshot()?;
    wanted.is_there(&snapshot)?;
    let all: Vec<Finding> = doctor::examine(&snapshot).into_iter().filter(|one| wanted.takes(one)).collect();
    let (shown, hidden): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| wanted.hints || one.severity != Severity::Hint);
    match form {
        Form::Json => anstream::println!("{}", serde_json::to_string_pretty(&shown)?),
        Form::Text => print::findings(&shown, hidden.len(), &unread),
    }
    if shown.iter().any(|one| one.severity == Severity::Error) {
        std::process::exit(1);
    }
    Ok(())
}
