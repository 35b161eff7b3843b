//! How fast `twinstack apiserver` and `controller-manager` are, measured from outside, beside their peers where they are named.
//!
//! Run by `scripts/bench`. The README of this folder says what each line of the table means.

mod client;
mod controllers;
mod credentials;
mod measure;
mod process;
mod report;
mod settings;
mod system;

use self::{
    measure::{Block, Results},
    settings::Settings,
    system::System,
};
use anyhow::{Context, bail};
use std::time::Duration;

/// How long everything together may take.
const PATIENCE: Duration = Duration::from_secs(235);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_environment()?;
    allow_many_connections()?;
    // Whichever ends first: what was started is killed and removed when the others are dropped.
    tokio::select! {
        done = async {
            match std::env::args().nth(1).as_deref() {
                Some("controllers") => controllers::run(&settings).await,
                Some("definitions") => definitions(&settings).await,
                Some(other) => bail!("{other}: accepted are `controllers`, `definitions`, or nothing for the API server"),
                None => run(&settings).await,
            }
        } => done,
        () = tokio::time::sleep(PATIENCE) => bail!("not done after {PATIENCE:?}; BENCH_SERVICES=10000 makes it shorter"),
        pressed = tokio::signal::ctrl_c() => { pressed?; bail!("interrupted") }
    }
}

async fn run(settings: &Settings) -> anyhow::Result<()> {
    let server = system::twinstack::start(&settings.twinstack).await.context("twinstack")?;
    let (ours, blocks) = measured(server, settings.services).await?;
    let peer: Option<Results> = match &settings.peer {
        Some(peer) => {
            let server = system::peer::start(peer).await.context("kube-apiserver and etcd")?;
            Some(measured(server, measure::SERVICES).await?.0)
        }
        None => None,
    };
    print!("{}", report::table(&ours, peer.as_ref()));
    print!("{}", report::blocks(&blocks));
    Ok(())
}

async fn definitions(settings: &Settings) -> anyhow::Result<()> {
    let Some(folder) = &settings.definitions else {
        println!("To see what definitions cost: BENCH_DEFINITIONS, a folder with some as JSON files.");
        return Ok(());
    };
    let definitions = measure::definitions::read(folder)?;
    progress(&format!("twinstack: {} definitions", definitions.len()));
    let mut server = system::twinstack::start(&settings.twinstack).await.context("twinstack")?;
    let ours = measure::definitions::measure(&mut server, &definitions).await.context("twinstack")?;
    drop(server);
    let peer = match &settings.peer {
        Some(peer) => {
            progress(&format!("kube-apiserver: {} definitions", definitions.len()));
            let mut server = system::peer::start(peer).await.context("kube-apiserver and etcd")?;
            Some(measure::definitions::measure(&mut server, &definitions).await.context("kube-apiserver")?)
        }
        None => None,
    };
    print!("{}", report::defined(&ours, peer.as_ref()));
    Ok(())
}

/// All measurements of a system, which ends with them; what goes wrong is told together with what its log says.
async fn measured(mut system: System, services: usize) -> anyhow::Result<(Results, Vec<Block>)> {
    let name = system.name;
    let done = measure::all(&mut system, services).await;
    done.with_context(|| format!("{name}:\n{}\n", system.last_words()))
}

/// Says what is going on, apart from the table.
fn progress(text: &str) {
    eprintln!("bench: {text}");
}

/// A thousand watchers need a file each, here and in the server, which inherits the limit.
fn allow_many_connections() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("cannot raise the limit on open files")
}
