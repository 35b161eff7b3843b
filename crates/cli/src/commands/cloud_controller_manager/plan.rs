//! `twinstack cloud-controller-manager plan`: what would be done in AWS for a Service, without asking AWS.

use super::super::Command;
use crate::flag::{DefaultFlag, Flag, Form, content, flags, output};
use aws::{cloud_config::CloudConfig, plan::offline};
use runtime::config::Settings;

pub(crate) const COMMAND: Command = Command {
    name: "cloud-controller-manager plan",
    about: "show what would be done in AWS for a Service",
    more: "Reads a Service and what an account holds, both from files, and prints the actions in their order. AWS is not called. The account is JSON \
           with the keys subnets, route_tables, zones, instances, group_tags, nodes, and, of what is there already, network, \
           target_groups, classic, groups.",
    example: "twinstack cloud-controller-manager plan -f service.yaml --observed account.json --cloud-config cloud.conf",
    flags: &[FLAGS],
    positional: None,
    long_running: false,
    check: |given| read(given).map(drop),
    run,
};

flags! {
    FLAGS:
    FILENAME: Flag<String> = content("filename", "the Service, YAML or JSON, with its uid").short('f');
    OBSERVED: Flag<String> = content("observed", "what the account holds, JSON");
    CLOUD_CONFIG: DefaultFlag<String> = content("cloud-config", "the cloud-config").or_else("", String::new);
    CLUSTER_NAME: DefaultFlag<String> = super::CLUSTER_NAME;
    OUTPUT: DefaultFlag<Form> = output("how actions are printed");
}

/// What the flags say.
struct Asked {
    service: String,
    observed: String,
    config: String,
    name: String,
    form: Form,
}

fn read(given: &mut Settings) -> Option<Asked> {
    let (service, observed) = (given.required(&FILENAME), given.required(&OBSERVED));
    let (config, name, form) = (given.get(&CLOUD_CONFIG), given.get(&CLUSTER_NAME), given.get(&OUTPUT));
    Some(Asked { service: service?, observed: observed?, config, name, form })
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let Asked { service, observed, config, name, form } = settings.read(read)?;
    let (config, warnings) = CloudConfig::parse(&config)?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {warning}");
    }
    let plan = offline(&service, &observed, &config, &name).map_err(anyhow::Error::msg)?;
    for note in &plan.notes {
        anstream::eprintln!("\x1b[1;33mnote:\x1b[0m {}: {}", note.reason, note.message);
    }
    if form == Form::Json {
        anstream::println!("{}", serde_json::to_string_pretty(&plan.actions)?);
        return Ok(());
    }
    if plan.actions.is_empty() {
        anstream::println!("nothing to do");
    }
    for (number, action) in plan.actions.iter().enumerate() {
        anstream::println!("{:2}. {action}", number + 1);
    }
    Ok(())
}
