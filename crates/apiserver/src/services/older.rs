//! `spec.preferDualStack`: no shape has it, so it goes around the typed round trip.

use super::{STORAGE, Services};
use api::{families::RuleSet, object::Fields, resource::Resource};
use serde_json::Value;

const FIELD: &str = "spec.preferDualStack";

/// The field, on its way around.
#[must_use]
pub struct Aside(Option<Value>);

impl Services {
    /// Takes the field out of a request for a Service. By upstream's rules it is an unknown field and stays.
    pub fn set_aside(&self, resource: &Resource, request: &mut Value) -> Aside {
        let known = resource.storage == STORAGE && self.settings.rules == RuleSet::Seed;
        Aside(if known { request.remove(FIELD) } else { None })
    }
}

impl Aside {
    /// Puts it back; `families::resolve` reads it and takes it out for good.
    pub fn put_back(&self, object: &mut Value) {
        if let Some(value) = self.0.as_ref().filter(|value| !value.is_null()) {
            object.set(FIELD, value.clone());
        }
    }
}
