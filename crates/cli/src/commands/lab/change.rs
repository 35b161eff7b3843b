//! What changes a lab: `lab load`, `lab break`, `lab mend`, `lab down`.

use super::{super::Command, DATA_DIR, home, running};
use crate::{
    flag::{Flag, file, flags},
    read,
};
use ::lab::{Cut, Home, sweep};
use anyhow::{Context, bail};
use kernel::process;
use runtime::config::Settings;
use std::path::PathBuf;

pub(crate) const LOAD: Command = Command {
    name: "lab load",
    about: "give all nodes an image from an archive",
    more: "The archive is one of OCI or Docker, as `twinstack image`, `docker save`, `podman save` and `skopeo copy` write it. Nodes keep it when the lab ends. \
           Pods that name it need imagePullPolicy IfNotPresent or Never.",
    example: "docker save example.test/app:1 -o app.tar && twinstack lab load app.tar",
    flags: &[&[&DATA_DIR], LOAD_FLAGS],
    positional: Some("archive"),
    long_running: false,
    check: |given| {
        home(given);
        given.required(&ARCHIVE).map(drop)
    },
    run: load,
};

flags! {
    LOAD_FLAGS:
    ARCHIVE: Flag<PathBuf> = file("archive", "the archive");
}

pub(crate) const BREAK: Command = Command {
    name: "lab break",
    about: "cut a family, a node or the machine from the others",
    more: "ipv4 and ipv6 drop that family where nodes meet each other and the machine; a node's name pulls its plug; uplink parts the machine, and with it the API, from all nodes. \
           Nothing is told to anybody: what happens then is what happens when a network breaks. `twinstack lab mend` joins it again, and so does a restart.",
    example: "twinstack lab break ipv6\ntwinstack lab mend ipv6",
    flags: &[&[&DATA_DIR], CUT_FLAGS],
    positional: Some("what"),
    long_running: false,
    check: |given| asked(given).map(drop),
    run: |settings| cut(settings, "cut", Cut::make),
};

pub(crate) const MEND: Command = Command {
    name: "lab mend",
    about: "join what `lab break` has cut",
    more: "What was not cut stays as it is.",
    example: "twinstack lab mend node-2",
    flags: &[&[&DATA_DIR], CUT_FLAGS],
    positional: Some("what"),
    long_running: false,
    check: |given| asked(given).map(drop),
    run: |settings| cut(settings, "joined", Cut::mend),
};

flags! {
    CUT_FLAGS:
    WHAT: Flag<Cut> = Flag::new("what", "ipv4|ipv6|uplink|NODE", "ipv4, ipv6, uplink, the name of a node", read::parsed, "what to cut or join");
}

pub(crate) const DOWN: Command = Command {
    name: "lab down",
    about: "take away the nodes of a killed `up`",
    more: "Ends every process, mount, cgroup, namespace and interface of the lab. State, images and volumes stay in the data folder, and the next \
           `twinstack up` goes on with them. While `twinstack up` still runs nothing is done: its end does the same.",
    example: "twinstack lab down",
    flags: &[&[&DATA_DIR]],
    positional: None,
    long_running: false,
    check: |given| {
        home(given);
        Some(())
    },
    run: down,
};

fn load(settings: Settings) -> anyhow::Result<()> {
    let (home, archive) = settings.read(|given| Some((home(given), given.required(&ARCHIVE)?)))?;
    let state = running(&home)?;
    let archive = archive.canonicalize().with_context(|| format!("--archive {}", archive.display()))?;
    let tools = ::lab::Tools::find().context("there is no ctr; apt-get install containerd")?;
    let ctr = tools.shim.join("ctr").display().to_string();
    for node in &state.nodes {
        let socket = node.socket.display().to_string();
        let words = ["--address", &socket, "--namespace", "k8s.io", "images", "import", &archive.display().to_string()];
        let printed = process::run(&ctr, &words, "").with_context(|| node.name.clone())?;
        anstream::print!("{}: {}", node.name, printed.stdout);
    }
    Ok(())
}

fn asked(given: &mut Settings) -> Option<(Home, Cut)> {
    let home = home(given);
    Some((home, given.required(&WHAT)?))
}

type Change = fn(&Cut, &Home, &[String]) -> Result<(), process::ProcessError>;

fn cut(settings: Settings, done: &str, change: Change) -> anyhow::Result<()> {
    let (home, what) = settings.read(asked)?;
    let state = running(&home)?;
    let nodes: Vec<String> = state.nodes.iter().map(|node| node.name.clone()).collect();
    if let Cut::Node(name) = &what {
        super::namespace(&state, name)?;
    }
    change(&what, &home, &nodes)?;
    anstream::println!("{done}: {what}");
    Ok(())
}

fn down(settings: Settings) -> anyhow::Result<()> {
    let home = settings.read(|given| Some(home(given)))?;
    match take_away(&home)? {
        0 => anstream::println!("there was nothing"),
        things => anstream::println!("taken away: {things} things"),
    }
    Ok(())
}

/// Takes away what a killed `up` left of its nodes; how much that was.
pub(in crate::commands) fn take_away(home: &Home) -> anyhow::Result<usize> {
    // Held until the end, so that nobody starts meanwhile.
    let lock = if home.data.exists() { Some(home.lock()?) } else { None };
    if let (Some(None), Some(state)) = (&lock, ::lab::State::read(home)?) {
        bail!(
            "`twinstack up` still runs as process {}; end it with Ctrl-C or `twinstack down`, which takes its nodes away",
            state.process
        );
    }
    let before = sweep::remains(home);
    let left = if before.is_empty() { Vec::new() } else { sweep::sweep(home) };
    if !left.is_empty() {
        bail!("these could not be taken away: {}", left.join(", "));
    }
    Ok(before.len())
}
