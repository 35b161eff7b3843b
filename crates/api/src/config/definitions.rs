//! The CustomResourceDefinitions, one YAML file each.

use serde_json::Value;

/// Name and text of every definition, in the order in which they are applied.
pub fn definition_texts() -> Vec<(&'static str, &'static str)> {
    vec![
        ("infrastructures.config.openshift.io", include_str!("crds/infrastructures.yaml")),
        ("networks.config.openshift.io", include_str!("crds/networks.yaml")),
        ("ingresses.config.openshift.io", include_str!("crds/ingresses.yaml")),
        ("dnses.config.openshift.io", include_str!("crds/dnses.yaml")),
        ("featuregates.config.openshift.io", include_str!("crds/featuregates.yaml")),
        ("ingresscontrollers.operator.openshift.io", include_str!("crds/ingresscontrollers.yaml")),
        ("dnsrecords.ingress.operator.openshift.io", include_str!("crds/dnsrecords.yaml")),
        ("dnses.operator.openshift.io", include_str!("crds/operator-dnses.yaml")),
        ("routes.route.openshift.io", include_str!("crds/routes.yaml")),
    ]
}

/// Every definition as an object.
///
/// # Panics
/// Never: the files are part of this crate, and a test reads them.
pub fn definitions() -> Vec<Value> {
    let read = |(name, text): (&str, &str)| match serde_saphyr::from_str::<Value>(text) {
        Ok(definition) => definition,
        Err(error) => unreachable!("the definition of {name} is part of the program: {error}"),
    };
    definition_texts().into_iter().map(read).collect()
}

/// What the DNS operator reads and tells.
pub const DNS_OPERATOR_DEFINITIONS: [&str; 4] = [
    "dnses.operator.openshift.io",
    "networks.config.openshift.io",
    "infrastructures.config.openshift.io",
    "featuregates.config.openshift.io",
];

/// What the ingress operator and its routers read and tell.
pub const INGRESS_OPERATOR_DEFINITIONS: [&str; 7] = [
    "infrastructures.config.openshift.io",
    "networks.config.openshift.io",
    "ingresses.config.openshift.io",
    "dnses.config.openshift.io",
    "ingresscontrollers.operator.openshift.io",
    "dnsrecords.ingress.operator.openshift.io",
    "routes.route.openshift.io",
];

/// Some of the definitions, by their names.
#[must_use]
pub fn definitions_named(names: &[&str]) -> Vec<Value> {
    let is_named =
        |definition: &Value| definition["metadata"]["name"].as_str().is_some_and(|name| names.contains(&name));
    definitions().into_iter().filter(is_named).collect()
}
