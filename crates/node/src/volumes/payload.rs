//! Which files a ConfigMap, a Secret, the downward API or several of them at once become. Pure.

use super::file::{DEFAULT_MODE, File, Files, file, inside};
use crate::environment::{Allocatable, Sources, amount, field_of_volume};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, ProjectedVolumeSource, Secret, Volume},
};
use std::collections::BTreeMap;

/// What the files are made from.
pub(super) struct Given<'a> {
    pub(super) pod: &'a Pod,
    pub(super) allocatable: &'a Allocatable,
    pub(super) sources: &'a (dyn Sources + Send + Sync),
    /// Of projected sources that must be asked for (tokens, bundles, certificates), by their place in the list.
    pub(super) asked: &'a BTreeMap<usize, Files>,
}

/// The files of a volume, or nothing if it is of another kind.
pub(super) fn files(volume: &Volume, given: &Given<'_>) -> Option<Result<Files, String>> {
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        Some(given.config_map(&source.name, source.items.as_deref(), mode, source.optional))
    } else if let Some(source) = &volume.secret {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        Some(given.secret(name, source.items.as_deref(), mode, source.optional))
    } else if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        Some(given.downward(source.items.as_deref().unwrap_or_default(), mode))
    } else {
        volume.projected.as_ref().map(|source| given.projected(source))
    }
}

impl Given<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn config_map(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        mode: i32,
        optional: Option<bool>,
    ) -> Result<Files, String> {
        let optional = optional.unwrap_or_default();
        let data = match self.sources.config_map(self.namespace(), name) {
            Some(map) => map_data(&map),
            None if optional => return Ok(Files::new()),
            None => return Err(format!("configmap {name:?} not found")),
        };
        chosen(&data, items, mode, optional, "config")
    }

    fn secret(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        mode: i32,
        optional: Option<bool>,
    ) -> Result<Files, String> {
        let optional = optional.unwrap_or_default();
        let data = match self.sources.secret(self.namespace(), name) {
            Some(secret) => secret_data(&secret),
            None if optional => return Ok(Files::new()),
            None => return Err(format!("secret {name:?} not found")),
        };
        chosen(&data, items, mode, optional, "secret")
    }

    fn downward(&self, items: &[DownwardAPIVolumeFile], mode: i32) -> Result<Files, String> {
        let mut files = Files::new();
        for item in items {
            inside(&item.path)?;
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => field_of_volume(&field.field_path, self.pod),
                (None, Some(resource)) => amount(resource, self.pod, None, self.allocatable),
                (None, None) => continue,
            };
            let value = value.map_err(|error| error.to_string())?;
            files.insert(item.path.clone(), file(value, item.mode.unwrap_or(mode)));
        }
        Ok(files)
    }

    /// Later sources win where two have a path in common.
    fn projected(&self, source: &ProjectedVolumeSource) -> Result<Files, String> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let mut all = Files::new();
        for (at, source) in source.sources.iter().flatten().enumerate() {
            if let Some(map) = &source.config_map {
                all.extend(self.config_map(&map.name, map.items.as_deref(), mode, map.optional)?);
            } else if let Some(secret) = &source.secret {
                all.extend(self.secret(&secret.name, secret.items.as_deref(), mode, secret.optional)?);
            } else if let Some(downward) = &source.downward_api {
                all.extend(self.downward(downward.items.as_deref().unwrap_or_default(), mode)?);
            } else if let Some(files) = self.asked.get(&at) {
                all.extend(files.clone());
            }
        }
        Ok(all)
    }
}

fn map_data(map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let texts = map.data.iter().flatten().map(|(key, text)| (key.clone(), text.clone().into_bytes()));
    let bytes = map.binary_data.iter().flatten().map(|(key, ByteString(bytes))| (key.clone(), bytes.clone()));
    texts.chain(bytes).collect()
}

fn secret_data(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    secret.data.iter().flatten().map(|(key, ByteString(bytes))| (key.clone(), bytes.clone())).collect()
}

/// All keys, or those that are named, where they are wanted.
fn chosen(
    data: &BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    mode: i32,
    optional: bool,
    kind: &str,
) -> Result<Files, String> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(data.iter().map(|(key, value)| (key.clone(), file(value.clone(), mode))).collect());
    }
    let mut files = BTreeMap::<String, File>::new();
    for item in items {
        inside(&item.path)?;
        match data.get(&item.key) {
            Some(value) => {
                files.insert(item.path.clone(), file(value.clone(), item.mode.unwrap_or(mode)));
            }
            None if optional => {}
            None => return Err(format!("references non-existent {kind} key: {}", item.key)),
        }
    }
    Ok(files)
}
