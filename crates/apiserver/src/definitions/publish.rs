//! From definitions to routes: compiles what changed and swaps the registry and the OpenAPI schemas.

use super::{conversion::Conversions, instances, plan};
use crate::{
    ApiServer,
    call::Call,
    kinds::{Later, ServerRules, done},
    openapi::Schemas,
};
use api::{error::ApiError, object::Fields, resource::Resource};
use aws_lc_rs::digest;
use parking_lot::Mutex;
use schema::{Definition, definition::status};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::watch;

/// What is served of definitions.
#[derive(Default)]
pub struct Definitions {
    served: Mutex<BTreeMap<String, Served>>,
    /// What webhooks have converted for watchers.
    pub(crate) conversions: Conversions,
    /// Rings when the registry has changed.
    changes: watch::Sender<()>,
}

/// One definition, at work.
struct Served {
    routes: Routes,
    /// Being deleted: nothing new is created.
    closing: bool,
    resources: Vec<Arc<Resource>>,
    schemas: Schemas,
}

/// Versions, schemas and names make the routes; conditions and annotations do not. A definition that was deleted and made
/// anew is another one: its watches belong to the old objects.
#[derive(PartialEq)]
struct Routes {
    uid: String,
    names: Value,
    are_open: bool,
    /// The digest of the spec: all of it would be most of what a definition weighs.
    spec: [u8; 32],
}

impl Routes {
    fn of(definition: &Value) -> Self {
        let mut spec = [0; 32];
        let text = definition.at("spec").to_string();
        spec.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        Self {
            uid: definition.str_at("metadata.uid").to_owned(),
            names: definition.at("status.acceptedNames").clone(),
            are_open: status::is_served(definition),
            spec,
        }
    }
}

impl Definitions {
    /// Hears when other custom resources are served than before.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Brings the routes of one definition up to date; `None` when it is gone.
    pub(super) async fn publish(&self, server: &ApiServer, name: &str, definition: Option<Value>) {
        let changed = match definition {
            Some(definition) => self.set(server, name, definition).await,
            None => self.served.lock().remove(name).is_some(),
        };
        if changed {
            self.swap(server);
        }
    }

    /// Brings the routes of all definitions up to date, in one swap.
    pub(super) async fn publish_all(
        &self,
        server: &ApiServer,
        names: BTreeSet<String>,
        definition: impl Fn(&str) -> Option<Value>,
    ) {
        self.served.lock().retain(|name, _| names.contains(name));
        // One after the other, so that there is never more than one as a value.
        for name in names {
            if let Some(definition) = definition(&name) {
                self.set(server, &name, definition).await;
            }
        }
        self.swap(server);
    }

    /// Compiles a definition unless it makes the same routes as before; false when no route changes.
    async fn set(&self, server: &ApiServer, name: &str, definition: Value) -> bool {
        let (closing, routes) = (plan::is_dying(&definition), Routes::of(&definition));
        if let Some(served) = self.served.lock().get_mut(name)
            && served.routes == routes
        {
            served.closing = closing;
            return false;
        }
        let compiled = match routes.are_open {
            true => compile(server, name, definition).await,
            false => None,
        };
        let mut served = Served { routes, closing, resources: Vec::new(), schemas: Schemas::new() };
        if let Some(compiled) = compiled {
            served.resources = schema::resources(&compiled).into_iter().map(Arc::new).collect();
            for version in compiled.versions {
                let key = (compiled.group.clone(), version.name, compiled.names.kind.clone());
                served.schemas.insert(key, version.schema.source().clone());
            }
        }
        let has_routes = !served.resources.is_empty();
        let before = self.served.lock().insert(name.to_owned(), served);
        has_routes || before.is_some_and(|before| !before.resources.is_empty())
    }

    fn swap(&self, server: &ApiServer) {
        let served = self.served.lock();
        let mut resources: Vec<Arc<Resource>> =
            served.values().flat_map(|served| served.resources.iter().cloned()).collect();
        resources.sort_by(|a, b| a.group.cmp(&b.group));
        server.documents.set_schemas(served.values().flat_map(|served| served.schemas.clone()).collect());
        server.registry.store(Arc::new(server.registry().with_custom(resources)));
        self.conversions.clear();
        self.changes.send_replace(());
    }
}

/// Reads a definition; rules can take a while to compile, so it is done where that holds up nobody.
async fn compile(server: &ApiServer, name: &str, definition: Value) -> Option<Definition> {
    if instances::is_built_in(server, &definition) {
        tracing::warn!(definition = name, "a built-in resource has this group and name, and is served instead");
        return None;
    }
    match tokio::task::spawn_blocking(move || Definition::read(&definition)).await {
        Ok(Ok(compiled)) => Some(compiled),
        Ok(Err(mistakes)) => {
            let mistakes = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(definition = name, mistakes, "a stored definition is not valid and is not served");
            None
        }
        Err(why) => {
            tracing::error!(definition = name, %why, "a definition cannot be compiled and is not served");
            None
        }
    }
}

pub(crate) struct CustomKind;

impl ServerRules for CustomKind {
    fn admit_new<'a>(&self, call: &'a Call, _object: &'a mut Value) -> Later<'a, ()> {
        done(open(call))
    }
}

/// Refuses new objects of a definition that is being deleted.
fn open(call: &Call) -> Result<(), ApiError> {
    let (plural, group) = (&call.resource.plural, &call.resource.group);
    match call.server.definitions.served.lock().get(&format!("{plural}.{group}")) {
        Some(served) if served.closing => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(ApiError::forbidden(plural, group, &call.request.name, why))
        }
        _ => Ok(()),
    }
}

/// Completes when a custom resource is no longer served as it was, which ends its watches.
pub(crate) async fn gone(server: &ApiServer, resource: &Arc<Resource>) {
    if !resource.custom {
        return std::future::pending().await;
    }
    let is_gone = || {
        let registry = server.registry();
        let now = registry.get(&resource.group, &resource.version, &resource.plural);
        !now.is_some_and(|now| Arc::ptr_eq(now, resource))
    };
    let mut changes = server.definitions.changes.subscribe();
    // The sender lives as long as the server.
    let _ = changes.wait_for(|()| is_gone()).await;
}
