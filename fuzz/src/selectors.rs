//! Selectors of labels and fields, and paths into objects.

use crate::{Target, input, objects};
use api::object::Fields;
use apiserver::select::{fields::FieldSelector, labels::Labels};
use schema::jsonpath::JsonPath;
use std::collections::BTreeMap;

pub(crate) const TARGETS: &[Target] = &[
    Target::new("label-selector", labels).up_to(1024),
    Target::new("field-selector", fields).up_to(1024),
    Target::new("jsonpath", jsonpath),
];

/// A selector, and labels as `key=value` lines.
fn labels(data: &[u8]) {
    let text = input::text(data);
    let [selector, labels] = input::parts(&text);
    let Ok(selector) = Labels::parse(selector) else { return };
    let pairs = labels.lines().filter_map(|line| line.split_once('='));
    let labels: BTreeMap<String, String> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let matches = selector.matches(&labels);
    assert!(matches || !selector.is_empty(), "an empty selector selects everything");
}

/// A selector, and an object whose kind says which fields there are.
fn fields(data: &[u8]) {
    let text = input::text(data);
    let [selector, object] = input::parts(&text);
    let Some(object) = input::json(object) else { return };
    let Some(resource) = objects::resource_of(&object) else { return };
    let Ok(selector) = FieldSelector::parse(selector, &resource) else { return };
    let (name, namespace) = (object.str_at("metadata.name"), object.str_at("metadata.namespace"));
    let matches = selector.matches(name, namespace, || resource.selected(&object));
    assert!(matches || !selector.is_empty(), "an empty selector selects everything");
    let _ = (selector.name(), selector.namespace());
}

/// A path and a document.
fn jsonpath(data: &[u8]) {
    let text = input::text(data);
    let [path, document] = input::parts(&text);
    let Ok(path) = JsonPath::parse(path) else { return };
    let Some(document) = input::json(document) else { return };
    let _ = path.find(&document);
}
