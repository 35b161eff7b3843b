//! `twinstack version`: which build this is, for people or for programs.

use super::Command;
use crate::flag::{DefaultFlag, Form, flags, output};
use runtime::{config::Settings, version::BUILD};

pub(super) const COMMAND: Command = Command {
    name: "version",
    about: "print which build this is",
    more: "",
    example: "twinstack version -o json | jq -r .version",
    flags: &[FLAGS],
    positional: None,
    long_running: false,
    check: |given| {
        given.get(&OUTPUT);
        Some(())
    },
    run,
};

flags! {
    FLAGS:
    OUTPUT: DefaultFlag<Form> = output("form of the answer");
}

fn run(settings: Settings) -> anyhow::Result<()> {
    match settings.read(|given| Some(given.get(&OUTPUT)))? {
        Form::Text => anstream::println!("twinstack {} ({})", BUILD.version, BUILD.git_commit),
        Form::Json => anstream::println!("{}", serde_json::to_string_pretty(&BUILD)?),
    }
    Ok(())
}
