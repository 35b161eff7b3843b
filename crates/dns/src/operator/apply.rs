//! Bringing objects to what they should be, by server-side apply: doing it again changes nothing, and what others own stays.

use super::MANAGER;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use parking_lot::Mutex;
use runtime::controller::Result;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long an object that is not watched is taken to be as it was written.
const TRUSTED: Duration = Duration::from_secs(300);

/// Writes objects, and remembers what it wrote.
pub(super) struct Writer {
    client: Client,
    written: Mutex<HashMap<String, (Value, Instant)>>,
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, written: Mutex::default() }
    }

    /// Writes an object unless it is so already. `live` is what the API has of it, for kinds that are watched.
    pub(super) async fn bring(&self, object: &Value, live: Option<Live<'_>>) -> Result<()> {
        let place = place(object);
        let same = self
            .written
            .lock()
            .get(&place)
            .is_some_and(|(written, at)| written == object && (live.is_some() || at.elapsed() < TRUSTED));
        let holds = live.is_none_or(|live| live.0.is_some_and(|live| holds(object, live)));
        if same && holds {
            return Ok(());
        }
        tracing::info!(object = place, "written");
        self.apply(object).await?;
        self.written.lock().insert(place, (object.clone(), Instant::now()));
        Ok(())
    }

    async fn apply(&self, object: &Value) -> Result<(), kube::Error> {
        let parameters = PatchParams::apply(MANAGER).force();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.api(object).patch(name, &parameters, &Patch::Apply(object)).await.map(|_| ())
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = object["kind"].as_str().unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// What the API has of a kind that is watched; `None` in it is nothing.
#[derive(Clone, Copy)]
pub(super) struct Live<'a>(pub(super) Option<&'a Value>);

fn place(object: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!("{} {}/{}", part(&object["kind"]), part(&metadata["namespace"]), part(&metadata["name"]))
}

/// Whether everything that is wanted is so; what else there is does not matter.
pub(super) fn holds(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(name, wanted)| holds(wanted, live.get(name).unwrap_or(&Value::Null)))
        }
        // An empty object is left out by many.
        (Value::Object(wanted), Value::Null) => wanted.is_empty(),
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| holds(wanted, live))
        }
        (wanted, live) => wanted == live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wanted_holds_whatever_else_there_is() {
        let wanted = json!({"data": {"a": "1"}, "list": [{"x": 1}], "empty": {}});
        assert!(holds(&wanted, &json!({"data": {"a": "1", "b": "2"}, "list": [{"x": 1, "y": 2}], "more": true})));
        assert!(!holds(&wanted, &json!({"data": {"a": "2"}, "list": [{"x": 1}]})));
        assert!(!holds(&wanted, &json!({"data": {"a": "1"}, "list": [{"x": 1}, {"x": 2}]})));
        assert!(!holds(&wanted, &json!({"list": [{"x": 1}]})));
    }
}
