//! `twinstack cloud-controller-manager plan`: what would be done in AWS for a Service, without asking AWS.

use super::super::Command;
use crate::flag::flag;
use aws::{cloud_config::CloudConfig, plan::offline};
use runtime::config::Settings;

pub(crate) const COMMAND: Command = Command {
    name: "cloud-controller-manager plan",
    about: "show what would be done in AWS for a Service",
    more: "Reads a Service and what an account holds, both from files, and prints the actions in their order. AWS is not called. The account is JSON \
           with the keys subnets, route_tables, zones, instances, group_tags, nodes, and, of what is there already, network, \
           target_groups, classic, groups.",
    example: "twinstack cloud-controller-manager plan -f service.yaml --observed account.json --cloud-config cloud.conf",
    flags: &[&[
        flag("filename", "FILE", "", "the Service, YAML or JSON, with its uid").short('f'),
        flag("observed", "FILE", "", "what the account holds, JSON"),
        flag("cloud-config", "FILE", "", "the cloud-config"),
        flag("cluster-name", "NAME", "kubernetes", "part of the names of security groups"),
        flag("output", "text|json", "text", "how actions are printed").short('o'),
    ]],
    positional: None,
    long_running: false,
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let readable = "a readable file";
    let (service, observed, config, name, as_json) = settings.read(|given| {
        let service = given.required("filename", readable, |path| std::fs::read_to_string(path));
        let observed = given.required("observed", readable, |path| std::fs::read_to_string(path));
        let config = given.or("cloud-config", String::new(), readable, |path| std::fs::read_to_string(path));
        let name = given.or("cluster-name", "kubernetes".to_owned(), "a name", |text| Ok::<_, String>(text.to_owned()));
        let as_json = given.or("output", false, "text, json", |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err("is no format"),
        });
        Some((service?, observed?, config, name, as_json))
    })?;
    let (config, warnings) = CloudConfig::parse(&config)?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {warning}");
    }
    let plan = offline(&service, &observed, &config, &name).map_err(anyhow::Error::msg)?;
    for note in &plan.notes {
        anstream::eprintln!("\x1b[1;33mnote:\x1b[0m {}: {}", note.reason, note.message);
    }
    if as_json {
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
