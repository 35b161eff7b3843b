//! `twinstack version`: which build this is, for people or for programs.

use super::Command;
use crate::flag::flag;
use runtime::{build::BUILD, config::Settings};

pub(super) const COMMAND: Command = Command {
    name: "version",
    about: "print which build this is",
    more: "",
    example: "twinstack version -o json | jq -r .version",
    flags: &[&[flag("output", "text|json", "text", "form of the answer").short('o')]],
    positional: None,
    long_running: false,
    run,
};

#[derive(Clone, Copy)]
enum Output {
    Text,
    Json,
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let output = settings.read(|given| {
        Some(given.or("output", Output::Text, "text, json", |text| match text {
            "text" => Ok(Output::Text),
            "json" => Ok(Output::Json),
            _ => Err("is no form that version can have"),
        }))
    })?;
    match output {
        Output::Text => anstream::println!("twinstack {} ({})", BUILD.version, BUILD.git_commit),
        Output::Json => anstream::println!("{}", serde_json::to_string_pretty(&BUILD)?),
    }
    Ok(())
}
