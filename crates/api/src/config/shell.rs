//! What every object has around its spec and status.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An object with a typed spec and status. Metadata is kept as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Custom<Spec, Status> {
    /// Group and version.
    pub api_version: String,
    pub kind: String,
    /// Name, labels and so on.
    pub metadata: Map<String, Value>,
    /// What is wanted.
    pub spec: Spec,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

impl<Spec, Status> Custom<Spec, Status> {
    /// A new object; `namespace` is for kinds that live in one.
    pub fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str, spec: Spec, status: Status) -> Self {
        let mut metadata = Map::from_iter([("name".to_owned(), Value::from(name))]);
        metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), Value::from(namespace))));
        Self { api_version: api_version.to_owned(), kind: kind.to_owned(), metadata, spec, status: Some(status) }
    }
}
