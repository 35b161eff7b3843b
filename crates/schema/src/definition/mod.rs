//! A CustomResourceDefinition, read and checked: names, scope, and for each version a compiled schema.
//!
//! `Definition::read` is the one way in; the admission of definitions (`rules`) and the server's table of routes
//! (`resource`) both use it. `status` decides on names and conditions.

mod approval;
mod lazy;
mod names;
mod read;
mod rules;
pub mod status;
mod version;

#[cfg(test)]
mod tests;

pub use lazy::LazySchema;
pub use rules::DefinitionRules;

use super::columns::PrinterColumn;
use api::{
    error::FieldError,
    resource::{Conversion, Scope},
};
use serde_json::Value;

/// Every name of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// `widgets`.
    pub plural: String,
    /// `widget`.
    pub singular: String,
    /// `Widget`.
    pub kind: String,
    /// `WidgetList`.
    pub list_kind: String,
    /// `wd`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
}

/// A definition without mistakes.
#[derive(Clone, Debug)]
pub struct Definition {
    /// `widgets.example.com`.
    pub name: String,
    /// `example.com`.
    pub group: String,
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// The names that are served: those accepted, or those asked for while none are.
    pub names: Names,
    /// In the order of the definition.
    pub versions: Vec<Version>,
    /// The revision of the definition that was read; 0 for one that is not stored.
    pub revision: u64,
    /// The webhook that converts between versions, where apiVersion is not all that differs.
    pub conversion: Option<Conversion>,
    /// Whether the kind is served at all: once its names are accepted, which is before it says so by `Established`.
    pub served: bool,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1`.
    pub name: String,
    /// Whether it has routes.
    pub served: bool,
    /// Whether objects are stored in it; true of exactly one.
    pub storage: bool,
    /// What its users are told when it is deprecated.
    pub deprecation: Option<String>,
    /// The schema and its rules.
    pub schema: LazySchema,
    /// Table columns after the name.
    pub columns: Vec<PrinterColumn>,
    /// Whether status is a subresource.
    pub status: bool,
    /// The scale subresource.
    pub scale: Option<Scale>,
    /// Fields for selectors, dotted.
    pub selectable: Vec<String>,
}

/// Where the numbers of the scale subresource stand, as dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Below spec.
    pub spec_replicas: String,
    /// Below status.
    pub status_replicas: String,
    /// Below spec or status: the selector as text.
    pub selector: Option<String>,
}

impl Definition {
    /// Reads and compiles a definition; all mistakes at once.
    pub fn read(object: &Value) -> Result<Self, Vec<FieldError>> {
        read::definition(object)
    }
}
