//! The variables of a container, in the order in which they are declared, with what they refer to.

use super::{
    Addresses, Allocatable, EnvironmentError, Sources, env_file, expand::expand_by, fields::field, resources, services,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Container, EnvVarSource, Pod},
};
use std::collections::BTreeMap;

/// All of them: those of whole ConfigMaps and Secrets, then the container's own, then the Services that nothing else is named after.
pub fn variables(
    pod: &Pod,
    container: &Container,
    at: &Addresses<'_>,
    allocatable: &Allocatable,
    sources: &dyn Sources,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let spec = pod.spec.as_ref();
    let links = spec.and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let of_services = services::variables(&sources.services(namespace), namespace, links);
    let mut found = Found::default();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        if let Some(wanted) = &from.config_map_ref {
            if let Some(map) =
                present(sources.config_map(namespace, &wanted.name), wanted.optional, "configmap", &wanted.name)?
            {
                for (key, value) in map.data.iter().flatten() {
                    found.set(format!("{prefix}{key}"), value.clone());
                }
            }
        } else if let Some(wanted) = &from.secret_ref
            && let Some(secret) =
                present(sources.secret(namespace, &wanted.name), wanted.optional, "secret", &wanted.name)?
        {
            for (key, value) in secret.data.iter().flatten() {
                found.set(format!("{prefix}{key}"), text(value));
            }
        }
    }
    let read = Reader { pod, container, namespace, at, allocatable, sources };
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref().unwrap_or_default(), &variable.value_from) {
            ("", Some(from)) => read.value(from)?,
            (value, _) => Some(expand_by(value, |name| found.get(name).or_else(|| of_services.get(name)).cloned())),
        };
        // What is optional and not there is not set at all.
        if let Some(value) = value {
            found.set(variable.name.clone(), value);
        }
    }
    for (name, value) in of_services {
        if found.get(&name).is_none() {
            found.set(name, value);
        }
    }
    Ok(found.ordered)
}

/// Variables in the order of their first mention.
#[derive(Default)]
struct Found {
    ordered: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
}

impl Found {
    fn get(&self, name: &str) -> Option<&String> {
        self.places.get(name).map(|at| &self.ordered[*at].1)
    }

    fn set(&mut self, name: String, value: String) {
        match self.places.get(&name) {
            Some(at) => self.ordered[*at].1 = value,
            None => {
                self.places.insert(name.clone(), self.ordered.len());
                self.ordered.push((name, value));
            }
        }
    }
}

struct Reader<'a> {
    pod: &'a Pod,
    container: &'a Container,
    namespace: &'a str,
    at: &'a Addresses<'a>,
    allocatable: &'a Allocatable,
    sources: &'a dyn Sources,
}

impl Reader<'_> {
    /// What a reference leads to; nothing if it is optional and leads nowhere.
    fn value(&self, from: &EnvVarSource) -> Result<Option<String>, EnvironmentError> {
        if let Some(wanted) = &from.field_ref {
            return field(&wanted.field_path, self.pod, self.at).map(Some);
        }
        if let Some(wanted) = &from.resource_field_ref {
            return resources::amount(wanted, self.pod, Some(self.container), self.allocatable).map(Some);
        }
        if let Some(wanted) = &from.config_map_key_ref {
            let map = self.sources.config_map(self.namespace, &wanted.name);
            let Some(map) = present(map, wanted.optional, "configmap", &wanted.name)? else { return Ok(None) };
            let value = map.data.as_ref().and_then(|data| data.get(&wanted.key)).cloned();
            return self.key(value, wanted.optional, "ConfigMap", &wanted.key, &wanted.name);
        }
        if let Some(wanted) = &from.secret_key_ref {
            let secret = self.sources.secret(self.namespace, &wanted.name);
            let Some(secret) = present(secret, wanted.optional, "secret", &wanted.name)? else { return Ok(None) };
            let value = secret.data.as_ref().and_then(|data| data.get(&wanted.key)).map(text);
            return self.key(value, wanted.optional, "Secret", &wanted.key, &wanted.name);
        }
        if let Some(wanted) = &from.file_key_ref {
            let file = self.sources.env_file(self.pod, &wanted.volume_name, &wanted.path);
            let wrong = |why: String| EnvironmentError::File(format!("couldn't parse env file: {why}"));
            let file = file.map_err(wrong)?;
            let optional = wanted.optional.unwrap_or_default();
            let value = file.map(|text| env_file::value(&text, &wanted.key).map_err(wrong)).transpose()?.flatten();
            return match value {
                None if !optional => Err(EnvironmentError::File(format!(
                    "environment variable key {:?} not found in file {:?} of volume {:?}",
                    wanted.key, wanted.path, wanted.volume_name
                ))),
                value => Ok(value),
            };
        }
        Ok(Some(String::new()))
    }

    fn key(
        &self,
        value: Option<String>,
        optional: Option<bool>,
        kind: &'static str,
        key: &str,
        name: &str,
    ) -> Result<Option<String>, EnvironmentError> {
        if value.is_some() || optional == Some(true) {
            return Ok(value);
        }
        let (key, namespace, name) = (key.to_owned(), self.namespace.to_owned(), name.to_owned());
        Err(EnvironmentError::NoKey { kind, key, namespace, name })
    }
}

fn present<T>(
    object: Option<T>,
    optional: Option<bool>,
    kind: &'static str,
    name: &str,
) -> Result<Option<T>, EnvironmentError> {
    if object.is_none() && optional != Some(true) {
        return Err(EnvironmentError::Missing { kind, name: name.to_owned() });
    }
    Ok(object)
}

fn text(bytes: &ByteString) -> String {
    String::from_utf8_lossy(&bytes.0).into_owned()
}
