//! One request on its way through the engine: who asks for what, and how the answer is written.

use crate::{
    ApiServer,
    answer::{self, Answer},
    definitions::conversion,
    kinds::{self, ServerRules},
    request::{accept::Accept, info::ResourceRequest, query::Query},
    stored,
};
use access::{authn::User, authz::Attributes};
use api::{error::ApiError, resource::Resource};
use bytes::Bytes;
use parking_lot::Mutex;
use patch::{Format, apply};
use std::{collections::BTreeMap, sync::Arc};

/// Everything a verb needs to know.
pub struct Call {
    pub server: Arc<ApiServer>,
    /// What is asked for.
    pub request: ResourceRequest,
    pub resource: Arc<Resource>,
    /// Parameters.
    pub query: Query,
    /// The form of the answer.
    pub accept: Accept,
    pub user: User,
    /// `User-Agent`, which names the manager of plain updates.
    pub agent: String,
    /// `Content-Type` of the body.
    pub content_type: String,
    /// Advice for the client, sent as Warning headers.
    pub warnings: Mutex<Vec<String>>,
    /// What admission has to say to the audit log.
    pub annotations: Mutex<BTreeMap<String, String>>,
}

impl Call {
    /// What its kind asks of the server.
    pub fn kind(&self) -> &'static dyn ServerRules {
        kinds::of(&self.resource)
    }

    /// The store key of the object, or the prefix of the collection.
    pub fn key(&self) -> String {
        crate::registry::key(&self.resource, &self.request.namespace, &self.request.name)
    }

    /// Refuses a request about an object that is not there. Patches ask it first: what they say of nothing does not matter.
    pub fn exists(&self) -> Result<(), ApiError> {
        self.server.store.get(&self.key()).map(drop).ok_or_else(|| self.not_found())
    }

    /// 404 for the object asked for.
    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.plural, &self.resource.group, &self.request.name)
    }

    /// 409 for the object asked for.
    pub fn conflict(&self, why: impl std::fmt::Display) -> ApiError {
        ApiError::conflict(&self.resource.plural, &self.resource.group, &self.request.name, why)
    }

    /// 405 for the verb asked for.
    pub fn not_allowed(&self) -> ApiError {
        ApiError::method_not_allowed(self.request.verb, &self.resource.plural, &self.resource.group)
    }

    /// Refuses a caller who may not do the same with another verb: what creates by another way than POST needs `create`
    /// as well.
    pub fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        let ResourceRequest { group, version, namespace, resource, name, subresource, .. } = &self.request;
        self.server.access.authorize(&Attributes {
            namespace,
            version,
            subresource,
            name,
            ..Attributes::resource(&self.user, verb, group, resource)
        })
    }

    /// How the body of a patch is to be read.
    pub fn patch_format(&self) -> Result<Format, ApiError> {
        let accepted: &[Format] = if self.resource.rules.strategic_patches() { &Format::ALL } else { &Format::CUSTOM };
        Format::from_content_type(&self.content_type, accepted)
    }

    /// Adds advice for the client.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let mut kept = self.warnings.lock();
        for warning in warnings {
            if !kept.contains(&warning) {
                kept.push(warning);
            }
        }
    }

    /// Adds an annotation to the request's audit event.
    pub fn annotate(&self, key: String, value: String) {
        self.annotations.lock().insert(key, value);
    }

    /// The manager of the fields that a plain write sets: named by the client, or its program.
    pub fn manager(&self, named: &str) -> String {
        if named.is_empty() { apply::manager_of(&self.agent) } else { named.to_owned() }
    }

    /// All versions in which the kind is served, as `group/version`.
    pub fn versions(&self) -> Vec<String> {
        let registry = self.server.registry();
        let group = &self.resource.group;
        let same = registry.group(group).filter(|other| other.kind == self.resource.kind);
        same.map(|resource| resource.api_version()).collect()
    }

    /// The same caller asking about something else, with the same parameters.
    pub fn about(&self, resource: Arc<Resource>, request: ResourceRequest) -> Self {
        Self {
            server: Arc::clone(&self.server),
            request,
            resource,
            query: self.query.clone(),
            accept: self.accept,
            user: self.user.clone(),
            agent: self.agent.clone(),
            content_type: self.content_type.clone(),
            warnings: Mutex::default(),
            annotations: Mutex::default(),
        }
    }

    pub async fn object(&self, status: u16, written: &Written) -> Result<Answer, ApiError> {
        let bytes = conversion::bytes(&self.server, &self.resource, &written.bytes).await?;
        answer::object(self, status, &bytes, written.revision)
    }
}

/// An object as it was stored, or would have been in a dry run (revision 0).
pub struct Written {
    /// The stored form.
    pub bytes: Bytes,
    /// Its resourceVersion.
    pub revision: u64,
}

impl Written {
    /// The object as a value, in the version that was asked for.
    pub async fn parse(&self, call: &Call) -> Result<serde_json::Value, ApiError> {
        let bytes = conversion::bytes(&call.server, &call.resource, &self.bytes).await?;
        stored::parse_bytes(&bytes, self.revision)
    }
}

impl From<&store::Entry> for Written {
    fn from(entry: &store::Entry) -> Self {
        Self { bytes: entry.value().clone(), revision: entry.mod_revision() }
    }
}
