//! `pods/NAME/exec`, `attach` and `portforward`: what to ask of the kubelet before the connection is upgraded.

use super::{
    container, node,
    query::{Parameters, Unreadable, Writer, encode},
    target::{Endpoint, Plan, Security, Target},
};
use crate::kubelet::settings::Settings;
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// Runs a command in a container.
pub fn exec(pod: &Value, node: Option<&Value>, parameters: &Parameters, settings: &Settings) -> Result<Plan, ApiError> {
    let container = container::choose(pod, parameters.first("container"))?;
    if parameters.all("command").next().is_none() {
        return Err(ApiError::bad_request("you must specify a command: give the parameter \"command\" once per word"));
    }
    let mut query = Writer::default();
    for word in parameters.all("command") {
        query.add("command", word);
    }
    streams(parameters, &mut query)?;
    let to = kubelet(pod, node, settings)?;
    Ok(stream(to, query.after(&path("exec", pod, Some(container)))))
}

/// Joins the main process of a container.
pub fn attach(
    pod: &Value,
    node: Option<&Value>,
    parameters: &Parameters,
    settings: &Settings,
) -> Result<Plan, ApiError> {
    let container = container::choose(pod, parameters.first("container"))?;
    let mut query = Writer::default();
    streams(parameters, &mut query)?;
    let to = kubelet(pod, node, settings)?;
    Ok(stream(to, query.after(&path("attach", pod, Some(container)))))
}

/// Reaches ports of a Pod. Which ones may also be said later, in the streams themselves.
pub fn port_forward(
    pod: &Value,
    node: Option<&Value>,
    parameters: &Parameters,
    settings: &Settings,
) -> Result<Plan, ApiError> {
    let mut unreadable = Unreadable::default();
    let mut ports = Vec::new();
    for text in parameters.all("ports").flat_map(|list| list.split(',')) {
        match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => ports.push(port.to_string()),
            _ => unreadable.note("ports", text, "numbers from 1 to 65535"),
        }
    }
    unreadable.done()?;
    let mut query = Writer::default();
    if !ports.is_empty() {
        query.add("port", &ports.join(","));
    }
    let to = kubelet(pod, node, settings)?;
    Ok(stream(to, query.after(&path("portForward", pod, None))))
}

fn stream(to: Vec<Endpoint>, path: String) -> Plan {
    Plan::Stream(Target { to, security: Security::Kubelet, path })
}

/// The kubelet has its own names for the streams.
fn streams(parameters: &Parameters, query: &mut Writer) -> Result<(), ApiError> {
    let wanted = |key| parameters.flag(key);
    if !["stdin", "stdout", "stderr"].into_iter().any(wanted) {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    for (key, kubelets) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if wanted(key) {
            query.add(kubelets, "1");
        }
    }
    Ok(())
}

fn kubelet(pod: &Value, node: Option<&Value>, settings: &Settings) -> Result<Vec<Endpoint>, ApiError> {
    let name = pod.str_at("spec.nodeName");
    if name.is_empty() {
        let pod = pod.str_at("metadata.name");
        return Err(ApiError::bad_request(format!("pod {pod} does not have a host assigned")));
    }
    node::kubelet(node.ok_or_else(|| ApiError::not_found("nodes", "", name))?, settings)
}

fn path(what: &str, pod: &Value, container: Option<&str>) -> String {
    let of_pod = [pod.str_at("metadata.namespace"), pod.str_at("metadata.name")];
    let segments = std::iter::once(what).chain(of_pod).chain(container);
    segments.map(|segment| format!("/{}", encode(segment))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Planner = fn(&Value, Option<&Value>, &Parameters, &Settings) -> Result<Plan, ApiError>;

    fn ask(plan: Planner, query: &str, node_name: &str) -> Result<Target, (u16, String)> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": node_name, "containers": [{"name": "c"}]}});
        let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
        match plan(&pod, (node_name == "n").then_some(&node), &Parameters::new(query), &Settings::default()) {
            Ok(Plan::Stream(target)) => Ok(target),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err((error.code, error.message)),
        }
    }

    #[test]
    fn the_kubelet_is_asked_in_its_own_words() {
        for (plan, query, want) in [
            (
                exec as Planner,
                "command=sh&command=-c&command=echo+a%26b&stdin=true&stdout=true&stderr=true&tty=false&container=c",
                "/exec/ns/p/c?command=sh&command=-c&command=echo%20a%26b&error=1&input=1&output=1",
            ),
            (attach, "stdout=1&tty=1", "/attach/ns/p/c?output=1&tty=1"),
            (port_forward, "", "/portForward/ns/p"),
            (port_forward, "ports=80&ports=443,8080", "/portForward/ns/p?port=80%2C443%2C8080"),
        ] {
            let target = ask(plan, query, "n").unwrap();
            assert_eq!((target.path.as_str(), target.security), (want, Security::Kubelet));
        }
    }

    #[test]
    fn what_cannot_work_is_refused_here() {
        let streams = "you must specify at least 1 of stdin, stdout, stderr";
        let command = "you must specify a command: give the parameter \"command\" once per word";
        let host = "pod p does not have a host assigned";
        for (plan, query, node, code, want) in [
            (exec as Planner, "command=ls", "n", 400, streams),
            (exec, "stdout=1", "n", 400, command),
            (exec, "stdout=1&command=ls", "", 400, host),
            (exec, "stdout=1&command=ls", "gone", 404, "nodes \"gone\" not found"),
            (attach, "tty=1", "n", 400, streams),
            (attach, "stdin=1", "", 400, host),
            (attach, "stdin=1&container=x", "n", 400, "container x is not valid for pod p"),
            (port_forward, "", "", 400, host),
            (
                port_forward,
                "ports=0&ports=x",
                "n",
                400,
                "ports: \"0\" is not accepted; give numbers from 1 to 65535; ports: \"x\" is not accepted; give numbers from 1 to 65535",
            ),
        ] {
            assert_eq!(ask(plan, query, node), Err((code, want.to_owned())), "{query}");
        }
    }
}
