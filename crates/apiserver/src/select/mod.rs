//! Which objects a list, a watch or a deletion of many is about: labels and fields, from their text form.

pub mod fields;
pub mod labels;

use crate::{
    call::Call,
    registry::{self, Registry},
    stored,
};
use api::{
    error::ApiError,
    resource::{Resource, Scope, SelectableField},
};
use fields::FieldSelector;
use labels::Labels;
use std::sync::Arc;
use store::{Entry, Store};

/// What a request selects.
#[derive(Debug)]
pub struct Selection {
    labels: Labels,
    fields: FieldSelector,
}

/// Where in the store everything is that can be selected.
#[derive(Debug, PartialEq, Eq)]
pub struct Range {
    /// What the keys start with.
    pub prefix: String,
    /// Whether the prefix is the one key.
    pub single: bool,
    /// The tag that narrows it further.
    pub tag: Option<String>,
}

impl Range {
    /// How many entries are worth reading: the one key sorts before all that begin with it, so that it is the first, or is
    /// not there.
    pub fn limit(&self, wanted: Option<usize>) -> Option<usize> {
        if self.single { Some(1) } else { wanted }
    }

    /// Whether a key that starts with the prefix belongs to it.
    pub fn covers(&self, key: &str) -> bool {
        !self.single || key == self.prefix
    }
}

impl Selection {
    /// From the query, and from the name of a watch that names its object by path.
    pub fn new(call: &Call) -> Result<Self, ApiError> {
        let labels = Labels::parse(call.query.get("labelSelector"))?;
        let mut fields = FieldSelector::parse(call.query.get("fieldSelector"), &call.resource)?;
        let name = call.request.name.as_str();
        if !name.is_empty() {
            if fields.is_empty() {
                fields = FieldSelector::of_name(name);
            } else if fields.name() != Some(name) {
                return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
        }
        Ok(Self { labels, fields })
    }

    /// Whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected, as the resource that was asked for shows it.
    pub fn matches(&self, call: &Call, entry: &Entry) -> bool {
        if self.is_everything() {
            return true;
        }
        let view = stored::view(entry);
        let declared = || view.selected(entry, &call.resource);
        self.labels.matches(&view.labels) && self.fields.matches(&view.name, &view.namespace, declared)
    }

    /// Where to look.
    pub fn range(&self, call: &Call) -> Range {
        let resource = &call.resource;
        let namespace = match (resource.scope, call.request.namespace.as_str()) {
            (Scope::Cluster, _) => "",
            (Scope::Namespaced, "") => self.fields.namespace().unwrap_or_default(),
            (Scope::Namespaced, given) => given,
        };
        let name = match self.fields.name() {
            Some(name) if resource.scope == Scope::Cluster || !namespace.is_empty() => name,
            _ => "",
        };
        let tag = resource.index().and_then(|index| self.fields.pinned(SelectableField::Declared(index)));
        Range {
            prefix: registry::key(resource, namespace, name),
            single: !name.is_empty(),
            tag: tag.filter(|tag| !tag.is_empty() && name.is_empty()).map(str::to_owned),
        }
    }
}

/// Lets the store find objects by the indexed field of their kind. An empty one is no tag: too many share it.
pub fn index(store: &Store, registry: &Registry) {
    let indexed =
        |resource: &Arc<Resource>| Some((format!("{}/", resource.storage), Arc::clone(resource), resource.index()?));
    let indexed: Vec<_> = registry.iter().filter_map(indexed).collect();
    store.tag_by(move |entry| {
        let (_, resource, index) = indexed.iter().find(|(prefix, ..)| entry.key().starts_with(prefix.as_str()))?;
        let selected = stored::view(entry).selected(entry, resource);
        selected.get(*index).filter(|value| !value.is_empty()).map(|value| Arc::from(&**value))
    });
}
