//! `twinstack cloud-config transform`: a cloud-config with the defaults that OpenShift wants.

pub(super) mod sync;

use super::Command;
use crate::{
    flag::{DefaultFlag, Flag, flags},
    read,
};
use anyhow::Context;
use aws::cloud_config::{Gate, transform};
use runtime::config::Settings;

const GATE: &str = "AWSServiceLBNetworkSecurityGroup";

pub(super) const COMMAND: Command = Command {
    name: "cloud-config",
    about: "check a cloud-config and print it with its defaults",
    more: "Reads the file of --cloud-config of an AWS cloud controller manager, as gcfg or YAML, checks all of it, sets what OpenShift sets \
           (shared health probes; managed security groups of network load balancers behind their feature gate), and prints gcfg. \
           What is not known is kept, with a warning.",
    example: "printf '[Global]\\nRegion = eu-west-1\\n' > cloud.conf\n\
              twinstack cloud-config transform --cloud-config cloud.conf --feature-gates AWSServiceLBNetworkSecurityGroup=true",
    flags: &[FLAGS],
    positional: Some("action"),
    long_running: false,
    check: |given| asked(given).map(drop),
    run,
};

flags! {
    FLAGS:
    ACTION: Flag<()> = Flag::new("action", "transform", "transform", action, "what to do: transform");
    CLOUD_CONFIG: DefaultFlag<Source> = Flag::new("cloud-config", "FILE", "a readable file", source, "the file; - is standard input").or("-");
    FEATURE_GATES: DefaultFlag<Gate> = Flag::new("feature-gates", "NAME=BOOL,...", "NAME=true or NAME=false, with commas between", gate, "gates that are known; AWSServiceLBNetworkSecurityGroup=true makes groups managed").or("");
}

/// Where the text is.
enum Source {
    /// On standard input.
    Input,
    File(String),
}

fn asked(given: &mut Settings) -> Option<(Source, Gate)> {
    let action = given.required(&ACTION);
    let rest = (given.get(&CLOUD_CONFIG), given.get(&FEATURE_GATES));
    action.map(|()| rest)
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (source, gate) = settings.read(asked)?;
    let text = match source {
        Source::Input => std::io::read_to_string(std::io::stdin()).context("standard input")?,
        Source::File(text) => text,
    };
    let (printed, warnings) = transform(&text, gate)?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {warning}");
    }
    anstream::print!("{printed}");
    Ok(())
}

fn action(text: &str) -> Result<(), String> {
    if text == "transform" { Ok(()) } else { Err(format!("{text:?} is nothing that can be done")) }
}

fn source(path: &str) -> Result<Source, String> {
    if path == "-" { Ok(Source::Input) } else { read::content(path).map(Source::File) }
}

/// Other gates may be listed too: the whole set of a cluster can be given.
fn gate(text: &str) -> Result<Gate, String> {
    let mut gate = Gate::Off;
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} has no value"))?;
        let on: bool = value.trim().parse().map_err(|_| format!("{word:?} is neither true nor false"))?;
        if name.trim() == GATE {
            gate = if on { Gate::On } else { Gate::Off };
        }
    }
    Ok(gate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_from_a_list() {
        for (text, expected) in [
            ("", Ok(Gate::Off)),
            ("Other=true", Ok(Gate::Off)),
            ("Other=false, AWSServiceLBNetworkSecurityGroup=true", Ok(Gate::On)),
            ("AWSServiceLBNetworkSecurityGroup=false", Ok(Gate::Off)),
        ] {
            assert_eq!(gate(text), expected, "{text}");
        }
        assert!(gate("AWSServiceLBNetworkSecurityGroup").is_err());
        assert!(gate("A=maybe").is_err());
    }
}
