//! What changes nothing: `lab status`, `lab logs`, and a command in a node.

use super::{super::Command, DATA_DIR, home, namespace, running};
use crate::{
    args,
    flag::{DefaultFlag, Flag, Form, REST, flags, output, word},
};
use anyhow::{Context, bail};
use runtime::config::Settings;
use std::fs;

pub(crate) const STATUS: Command = Command {
    name: "lab status",
    about: "show the nodes of `up` and how to reach them",
    more: "Names, addresses and network namespaces of the nodes, the sockets of their runtimes, the machine's interface, and whether the process of \
           `twinstack up` still runs. Without it, nodes go on; the next `twinstack up` or `twinstack lab down` takes them away.",
    example: "twinstack lab status",
    flags: &[&[&DATA_DIR], STATUS_FLAGS],
    positional: None,
    long_running: false,
    check: |given| {
        home(given);
        given.get(&OUTPUT);
        Some(())
    },
    run: status,
};

/// The same without a further word.
pub(crate) const COMMAND: Command =
    Command { name: "lab", about: "look at the nodes of `up` and work in them", ..STATUS };

flags! {
    STATUS_FLAGS:
    OUTPUT: DefaultFlag<Form> = output("how it is printed");
}

pub(crate) const EXEC: Command = Command {
    name: "lab exec",
    about: "run a command in the network of a node",
    more: "The command sees the node's interfaces, routes and nft tables, and everything else of the machine. Without a command it is a shell.",
    example: "twinstack lab exec node-1 -- ip route\ntwinstack lab exec node-2 -- nft list ruleset",
    flags: &[&[&DATA_DIR], EXEC_FLAGS],
    positional: Some("node"),
    long_running: false,
    check: |given| {
        home(given);
        given.get(&WORDS);
        given.required(&NODE).map(drop)
    },
    run: exec,
};

flags! {
    EXEC_FLAGS:
    NODE: Flag<String> = word("node", "NODE", "the name of a node", "which node, such as node-1");
    WORDS: DefaultFlag<Vec<String>> = Flag::new("command", REST, "", |text| Ok(args::rest(text)), "the command, after --").or_else("a shell", Vec::new);
}

pub(crate) const LOGS: Command = Command {
    name: "lab logs",
    about: "print what a part of a node has logged",
    more: "Parts are NODE/kubelet, NODE/proxy and NODE/containerd. Logs stay in the data folder when the lab has ended.",
    example: "twinstack lab logs node-1/kubelet",
    flags: &[&[&DATA_DIR], LOGS_FLAGS],
    positional: Some("part"),
    long_running: false,
    check: |given| {
        home(given);
        given.required(&PART).map(drop)
    },
    run: logs,
};

flags! {
    LOGS_FLAGS:
    PART: Flag<String> = word("part", "NODE/PART", "a node and kubelet, proxy or containerd", "whose log, such as node-1/kubelet");
}

fn status(settings: Settings) -> anyhow::Result<()> {
    let (home, form) = settings.read(|given| Some((home(given), given.get(&OUTPUT))))?;
    let state = running(&home)?;
    if form == Form::Json {
        anstream::println!("{}", serde_json::to_string_pretty(&state)?);
        return Ok(());
    }
    let list = |ips: &[std::net::IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let up = if kernel::child::is_alive(state.process) {
        "runs"
    } else {
        "was killed; start it again, or `twinstack lab down`"
    };
    anstream::println!("up          process {}: {up}", state.process);
    anstream::println!("kubeconfig  {}", state.kubeconfig.display());
    anstream::println!("machine     {} ({})", list(&state.machine), state.interface);
    anstream::println!("balancers   {}", state.load_balancers.join(", "));
    for node in &state.nodes {
        anstream::println!(
            "{:<12}{} (namespace {}, containerd {})",
            node.name,
            list(&node.addresses),
            node.namespace,
            node.socket.display()
        );
    }
    Ok(())
}

fn exec(settings: Settings) -> anyhow::Result<()> {
    let asked = settings.read(|given| Some((home(given), given.get(&WORDS), given.required(&NODE)?)))?;
    let (home, words, node) = asked;
    let space = namespace(&running(&home)?, &node)?;
    let shell = || vec![std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned())];
    let words = if words.iter().all(String::is_empty) { shell() } else { words };
    let Some((program, rest)) = words.split_first() else { bail!("no command") };
    Err(kernel::child::become_in(&space, program, rest)).with_context(|| format!("cannot run {program} in {node}"))
}

fn logs(settings: Settings) -> anyhow::Result<()> {
    let (home, part) = settings.read(|given| Some((home(given), given.required(&PART)?)))?;
    let file = part.split_once('/').map(|(node, part)| home.log(node, part));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-/".contains(&byte));
    let text = file.filter(|_| plain(&part)).and_then(|file| fs::read_to_string(file).ok());
    let Some(text) = text else {
        bail!(
            "{part} has no log in {}; accepted: NODE/kubelet, NODE/proxy, NODE/containerd such as node-1/kubelet",
            home.data.display()
        );
    };
    anstream::print!("{text}");
    Ok(())
}
