//! Namespace and name of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{fmt, sync::Arc};

/// Namespace and name; cheap to copy around.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Name {
    /// Of these two words.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Of an object; one without a name is no object.
    pub(super) fn of(metadata: &ObjectMeta) -> Option<Self> {
        Some(Self::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref()?))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
