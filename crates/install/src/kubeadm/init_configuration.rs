//! `InitConfiguration`: this node and where its API server is reached.

use super::{Version, arguments};
use crate::{
    cluster::{Arg, Node},
    fields::{Fields, Unknown},
    names,
    notes::Notes,
};
use api::path::Path as Field;
use serde_json::Value;

/// What it says.
pub(super) struct InitConfiguration {
    /// Field and text of the advertise address.
    pub(super) advertise: Option<(Field, String)>,
    pub(super) port: u16,
    pub(super) node: Node,
    pub(super) kubelet_args: Vec<Arg>,
}

pub(super) fn read(document: Option<(Version, &Value)>, notes: &mut Notes) -> InitConfiguration {
    let (version, value) = document.map_or((Version::V1Beta4, None), |(version, value)| (version, Some(value)));
    let mut fields = Fields::new(Field::new("InitConfiguration"), value, Unknown::Mistake, notes);
    fields.pass_over(&["apiVersion", "kind"]);

    let mut endpoint = fields.section("localAPIEndpoint", notes);
    let advertise =
        endpoint.comma_list("advertiseAddress", notes).map(|list| (endpoint.child("advertiseAddress"), list));
    let port = endpoint.number::<u16>("bindPort", "a port from 1 to 65535", notes);
    if port == Some(0) {
        notes.wrong(&endpoint.child("bindPort"), "0", "cannot be used; accepted: a port from 1 to 65535");
    }
    endpoint.end(notes);

    let mut registration = fields.section("nodeRegistration", notes);
    let name = registration.text("name", notes);
    if let Some(name) = name.as_deref().filter(|name| !names::is_domain(name)) {
        notes.wrong(&registration.child("name"), name, "is no name of a node; accepted: a DNS name in lower case");
    }
    let cri_socket = registration.text("criSocket", notes);
    let taints = registration.value("taints").is_some();
    let taints = taints.then(|| self::taints(&mut registration, notes));
    let kubelet_args = arguments::read(&mut registration, "kubeletExtraArgs", version, notes);
    registration.pass_over(&["ignorePreflightErrors", "imagePullPolicy"]);
    if version > Version::V1Beta3 {
        registration.pass_over(&["imagePullSerial"]);
    }
    registration.end(notes);

    fields.unused(&["bootstrapTokens"], "make tokens with kubeadm token create once the cluster runs", notes);
    fields.unused(&["certificateKey"], "certificates are copied by hand, not through the cluster", notes);
    fields.unused(&["patches"], "patch the manifests where they are written", notes);
    fields.pass_over(&["skipPhases"]);
    if version > Version::V1Beta3 {
        fields.pass_over(&["dryRun", "timeouts"]);
    }
    fields.end(notes);
    InitConfiguration { advertise, port: port.unwrap_or(6443), node: Node { name, cri_socket, taints }, kubelet_args }
}

/// `key=value:effect`, as the kubelet's flag has them.
fn taints(registration: &mut Fields<'_>, notes: &mut Notes) -> Vec<String> {
    let mut taints = Vec::new();
    for (path, item) in registration.list("taints", notes) {
        let mut fields = Fields::new(path, Some(item), Unknown::Mistake, notes);
        let key = fields.text("key", notes);
        let value = fields.text("value", notes).unwrap_or_default();
        let effect = fields.text("effect", notes).unwrap_or_default();
        fields.pass_over(&["timeAdded"]);
        if key.is_none() {
            notes.refused(&fields.child("key"), "must be given");
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effects.contains(&effect.as_str()) {
            notes.wrong(&fields.child("effect"), &effect, format!("is no effect; accepted: {}", effects.join(", ")));
        }
        fields.end(notes);
        taints.push(format!("{}={value}:{effect}", key.unwrap_or_default()));
    }
    taints
}
