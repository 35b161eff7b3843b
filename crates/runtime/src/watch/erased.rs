//! Objects of any kind, for the code that need not know which: the loop of a watch is compiled once.

use super::Event;
use kube::Resource;
use objects::Decode;
use std::any::Any;

/// An object that its reader has forgotten the type of.
pub(super) struct Erased {
    object: Box<dyn Any + Send>,
    /// Its `metadata.resourceVersion`.
    pub(super) version: String,
}

/// Reads an object of one kind.
pub(super) type Decoder = fn(&str) -> serde_json::Result<Erased>;

pub(super) fn decode<K: Resource + Decode + Send + 'static>(json: &str) -> serde_json::Result<Erased> {
    let object = K::decode(json)?;
    let version = object.meta().resource_version.clone().unwrap_or_default();
    Ok(Erased { object: Box::new(object), version })
}

/// The event with the type that it was read with.
pub(super) fn typed<K: 'static>(event: Event<Erased>) -> Event<K> {
    let typed = |erased: Erased| *erased.object.downcast::<K>().expect("it was read as this kind");
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(typed(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(typed(object)),
        Event::Delete(object) => Event::Delete(typed(object)),
    }
}
