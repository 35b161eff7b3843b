//! `twinstack completions`: completion scripts, made from the same table as `--help`.

use super::Command;
use crate::{args, flag::flag};
use clap_complete::Shell;
use runtime::config::Settings;
use std::str::FromStr;

pub(super) const COMMAND: Command = Command {
    name: "completions",
    about: "print a completion script for a shell",
    more: "",
    example: "twinstack completions bash > /etc/bash_completion.d/twinstack",
    flags: &[&[flag("shell", "SHELL", "", "bash, zsh, fish, elvish or powershell")]],
    positional: Some("shell"),
    long_running: false,
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let shell =
        settings.read(|given| given.required("shell", "bash, zsh, fish, elvish, powershell", Shell::from_str))?;
    clap_complete::generate(shell, &mut args::clap(), "twinstack", &mut std::io::stdout());
    Ok(())
}
