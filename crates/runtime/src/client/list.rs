//! What surrounds objects in answers: lists, and statuses in their place. Objects stay text until their kind reads them.

use kube::api::{ListMeta, ObjectList, TypeMeta};
use objects::Decode;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A list whose objects nobody has read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Raw<'a> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    #[serde(borrow, deserialize_with = "null_is_empty")]
    pub(crate) items: Vec<&'a RawValue>,
}

/// As Go writes a list of nothing.
fn null_is_empty<'de, D: Deserializer<'de>>(items: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Ok(Option::deserialize(items)?.unwrap_or_default())
}

impl<'a> Raw<'a> {
    pub(crate) fn read(text: &'a str) -> kube::Result<Self> {
        serde_json::from_str(text).map_err(kube::Error::SerdeError)
    }
}

pub(super) fn decode<K: Decode + Clone>(text: &str) -> kube::Result<ObjectList<K>> {
    let Raw { api_version, kind, metadata, items } = Raw::read(text)?;
    let types = TypeMeta {
        api_version: api_version.unwrap_or_else(|| "v1".to_owned()),
        kind: kind.unwrap_or_else(|| "List".to_owned()),
    };
    let items = items.into_iter().map(|item| K::decode(item.get())).collect::<Result<_, _>>();
    Ok(ObjectList { types, metadata, items: items.map_err(kube::Error::SerdeError)? })
}

/// Whether an answer is a Status instead of an object.
pub(super) fn is_status(text: &str) -> kube::Result<bool> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default)]
        kind: Option<&'a RawValue>,
    }
    let Kind { kind } = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    Ok(kind.is_some_and(|kind| kind.get() == "\"Status\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn items_are_read_by_their_kind_and_null_is_no_item() {
        for (items, count) in
            [("null", 0), ("[]", 0), (r#"[{"metadata": {"name": "a"}}, {"kind": "ConfigMap", "metadata": {}}]"#, 2)]
        {
            let text = format!(r#"{{"metadata": {{"continue": "x", "resourceVersion": "7"}}, "items": {items}}}"#);
            let list = decode::<ConfigMap>(&text).unwrap();
            assert_eq!((list.items.len(), list.types.kind.as_str()), (count, "List"), "{items}");
            assert_eq!(list.metadata.continue_.as_deref(), Some("x"));
        }
        for wrong in [r#"{"metadata": {}}"#, r#"{"items": [{"metadata": 1}]}"#, r#"{"items": [{"kind": "Pod"}]}"#] {
            assert!(decode::<ConfigMap>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_status_is_told_from_an_object() {
        let told = [r#"{"kind": "Status", "code": 200}"#, r#"{"metadata": {"kind": "Status"}}"#, "{}"].map(is_status);
        assert!(matches!(told, [Ok(true), Ok(false), Ok(false)]), "{told:?}");
        assert!(is_status("no JSON").is_err());
    }
}
