//! `components/`: the flags of each component as a file for its `--config`.

use super::{File, flags::Component, yaml};
use crate::Cluster;
use serde_json::{Map, Value};

pub(super) fn files(cluster: &Cluster) -> Vec<File> {
    Component::of(cluster).into_iter().map(|component| file(component, cluster)).collect()
}

fn file(component: Component, cluster: &Cluster) -> File {
    let command = component.command();
    let flags: Map<String, Value> =
        component.flags(cluster).into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    let text = format!(
        "# Flags for `twinstack {command} --config {}/components/{command}.yaml`\n{}",
        super::ROOT,
        yaml::render(&Value::Object(flags))
    );
    File::new(format!("components/{command}.yaml"), text)
}
