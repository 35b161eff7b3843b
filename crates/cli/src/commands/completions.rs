//! `twinstack completions`: completion scripts, made from the same table as `--help`.

use super::Command;
use crate::{
    args,
    flag::{Flag, flags},
    read,
};
use clap_complete::Shell;
use runtime::config::Settings;

pub(super) const COMMAND: Command = Command {
    name: "completions",
    about: "print a completion script for a shell",
    more: "",
    example: "twinstack completions bash > /etc/bash_completion.d/twinstack",
    flags: &[FLAGS],
    positional: Some("shell"),
    long_running: false,
    check: |given| given.required(&SHELL).map(drop),
    run,
};

flags! {
    FLAGS:
    SHELL: Flag<Shell> = Flag::new("shell", "SHELL", "bash, zsh, fish, elvish, powershell", read::parsed, "bash, zsh, fish, elvish or powershell");
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let shell = settings.read(|given| given.required(&SHELL))?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::clap(), "twinstack", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}
