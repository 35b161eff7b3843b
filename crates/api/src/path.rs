//! Field paths as Kubernetes prints them: `spec.ports[0].nodePort`, `metadata.labels[app]`.

use std::fmt;

/// Where in an object something is. Cheap to extend while walking; printed in causes and messages.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Path(String);

impl Path {
    /// A path that starts at a top-level field.
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field below this one.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        if self.0.is_empty() { Self(field.to_owned()) } else { Self(format!("{}.{field}", self.0)) }
    }

    /// An element of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A key of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
