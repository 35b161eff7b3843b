//! `twinstack cloud-config transform`: a cloud-config with the defaults that OpenShift wants.

pub(super) mod sync;

use super::Command;
use crate::flag::flag;
use aws::cloud_config::{Gate, transform};
use runtime::config::Settings;
use std::io::Read;

const GATE: &str = "AWSServiceLBNetworkSecurityGroup";

pub(super) const COMMAND: Command = Command {
    name: "cloud-config",
    about: "check a cloud-config and print it with its defaults",
    more: "Reads the file of --cloud-config of an AWS cloud controller manager, as gcfg or YAML, checks all of it, sets what OpenShift sets \
           (shared health probes; managed security groups of network load balancers behind their feature gate), and prints gcfg. \
           What is not known is kept, with a warning.",
    example: "printf '[Global]\\nRegion = eu-west-1\\n' > cloud.conf\n\
              twinstack cloud-config transform --cloud-config cloud.conf --feature-gates AWSServiceLBNetworkSecurityGroup=true",
    flags: &[&[
        flag("action", "transform", "", "what to do: transform"),
        flag("cloud-config", "FILE", "-", "the file; - is standard input"),
        flag(
            "feature-gates",
            "NAME=BOOL,...",
            "",
            "gates that are known; AWSServiceLBNetworkSecurityGroup=true makes groups managed",
        ),
    ]],
    positional: Some("action"),
    long_running: false,
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let (text, gate) = settings.read(|given| {
        given.required("action", "transform", |text| match text {
            "transform" => Ok(()),
            other => Err(format!("{other:?} is nothing that can be done")),
        })?;
        let text = given.or("cloud-config", String::new(), "a readable file", |path| match path {
            "-" => read_input(),
            path => std::fs::read_to_string(path),
        });
        let gate = given.or("feature-gates", Gate::Off, "NAME=true or NAME=false, with commas between", gate);
        Some((text, gate))
    })?;
    let (printed, warnings) = transform(&text, gate)?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {warning}");
    }
    anstream::print!("{printed}");
    Ok(())
}

fn read_input() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
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
