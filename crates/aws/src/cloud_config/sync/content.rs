//! What a ConfigMap holds: which key of a source is the cloud-config, and what else goes along with it.
//!
//! Mirrors the cluster cloud controller manager operator: `cloud.conf` counts where it is there, else the key that the
//! Infrastructure names; everything else, such as `ca-bundle.pem`, is in the target as it is in the source.

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The key of the cloud-config in the target.
pub(super) const FILE: &str = "cloud.conf";

/// Keys and what is under them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    /// Texts.
    pub(super) data: BTreeMap<String, String>,
    binary: BTreeMap<String, ByteString>,
}

impl Content {
    /// All of a ConfigMap.
    pub(super) fn of(map: &ConfigMap) -> Self {
        Self { data: map.data.clone().unwrap_or_default(), binary: map.binary_data.clone().unwrap_or_default() }
    }

    /// All of a source, with the cloud-config as [`FILE`] if it has one; `named` is the key that the Infrastructure names.
    pub(super) fn of_source(map: &ConfigMap, named: &str) -> Result<Self, String> {
        let mut content = Self::of(map);
        let name = map.metadata.name.as_deref().unwrap_or_default();
        if let Some(key) = [FILE, named].into_iter().find(|key| content.binary.contains_key(*key)) {
            return Err(format!("ConfigMap {name} has {key} in binaryData; it has to be text, in data"));
        }
        if content.data.contains_key(FILE) || named.is_empty() {
            return Ok(content);
        }
        let Some(text) = content.data.remove(named) else {
            return Err(format!("ConfigMap {name} has no key {named}, which the Infrastructure names, and no {FILE}"));
        };
        content.data.insert(FILE.to_owned(), text);
        Ok(content)
    }

    /// What has to be merged into a ConfigMap with this content to make it the same.
    pub(super) fn patch(&self, has: &Self) -> Value {
        json!({"data": merge(&self.data, &has.data), "binaryData": merge(&self.binary, &has.binary)})
    }

    /// A ConfigMap of this name with it.
    pub(super) fn named(&self, name: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            data: Some(self.data.clone()),
            binary_data: Some(self.binary.clone()).filter(|binary| !binary.is_empty()),
            ..ConfigMap::default()
        }
    }
}

fn merge<V: Serialize>(wanted: &BTreeMap<String, V>, has: &BTreeMap<String, V>) -> Value {
    let gone = has.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    gone.chain(wanted.iter().map(|(key, value)| (key.clone(), json!(value)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: &[(&str, &str)], binary: &[&str]) -> ConfigMap {
        let mut map = Content::default().named("m");
        map.data = Some(data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect());
        map.binary_data = Some(binary.iter().map(|key| ((*key).to_owned(), ByteString(vec![255]))).collect());
        map
    }

    #[test]
    fn the_file_is_found_and_the_rest_goes_along() {
        for (data, named, expected) in [
            (&[][..], "", &[][..]),
            (&[("cloud.conf", "a")], "", &[("cloud.conf", "a")]),
            (&[("cloud.conf", "a"), ("config", "b")], "config", &[("cloud.conf", "a"), ("config", "b")]),
            (&[("config", "b"), ("ca-bundle.pem", "c")], "config", &[("ca-bundle.pem", "c"), ("cloud.conf", "b")]),
            (&[("config", "b")], "", &[("config", "b")]),
        ] {
            let found = Content::of_source(&map(data, &["logo"]), named).unwrap();
            assert_eq!(found, Content::of(&map(expected, &["logo"])), "{data:?} {named:?}");
        }
        for (binary, named, expected) in [
            ("x", "config", "ConfigMap m has no key config, which the Infrastructure names, and no cloud.conf"),
            ("config", "config", "ConfigMap m has config in binaryData; it has to be text, in data"),
            ("cloud.conf", "", "ConfigMap m has cloud.conf in binaryData; it has to be text, in data"),
        ] {
            assert_eq!(Content::of_source(&map(&[("a", "b")], &[binary]), named), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_patch_names_what_has_to_go() {
        let wanted = Content::of(&map(&[("a", "1")], &["b"]));
        let has = Content::of(&map(&[("b", "1"), ("a", "2")], &["c"]));
        let expected = json!({"data": {"a": "1", "b": null}, "binaryData": {"b": "/w==", "c": null}});
        assert_eq!(wanted.patch(&has), expected);
    }
}
