//! OpenAPI: what the server serves, for clients that ask (kubectl explain, validation, patches; Helm; Terraform).
//!
//! `Documents` is asked by `paths` for everything below `/openapi`. Documents are made on the first request and again when
//! the served resources have changed: `definitions` makes the types, `operations` the paths, `v2` and `v3` the two forms,
//! `gnostic` the protobuf of the first.

mod custom;
mod definitions;
mod descriptions;
mod gnostic;
mod operations;
mod serve;
mod v2;
mod v3;

#[cfg(test)]
mod tests;

use api::resource::Resource;
use arc_swap::ArcSwap;
use definitions::Definitions;
use operations::{Body, Operation};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

/// The two versions of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

/// `openAPIV3Schema` of custom resources by group, version and kind.
pub type Schemas = BTreeMap<(String, String, String), Value>;

/// The OpenAPI documents of a server.
#[derive(Default)]
pub struct Documents {
    schemas: ArcSwap<Schemas>,
    made: Mutex<Option<Arc<Made>>>,
}

impl Documents {
    /// Sets the schemas of custom resources, all of them. A custom resource without one may hold anything.
    pub fn set_schemas(&self, schemas: Schemas) {
        self.schemas.store(Arc::new(schemas));
    }

    /// The documents of these resources; made anew only when they or the schemas have changed.
    fn of(&self, resources: Vec<Arc<Resource>>) -> Arc<Made> {
        let schemas = self.schemas.load_full();
        let mut made = self.made.lock();
        match &*made {
            Some(made) if made.is_of(&resources, &schemas) => made.clone(),
            _ => {
                let new = Arc::new(Made { resources, schemas, ..Made::default() });
                *made = Some(new.clone());
                new
            }
        }
    }
}

/// The documents of one set of resources, each made when it is first asked for.
#[derive(Default)]
struct Made {
    resources: Vec<Arc<Resource>>,
    schemas: Arc<Schemas>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
    v3: OnceLock<BTreeMap<String, Document>>,
}

/// A document as it is sent.
#[derive(Clone)]
struct Document {
    bytes: bytes::Bytes,
    hash: String,
}

impl Document {
    fn new(bytes: Vec<u8>) -> Self {
        use std::hash::{DefaultHasher, Hasher};
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        Self { hash: format!("{:016X}", hasher.finish()), bytes: bytes.into() }
    }
}

impl Made {
    /// Resources are immutable, so the same ones make the same documents.
    fn is_of(&self, resources: &[Arc<Resource>], schemas: &Arc<Schemas>) -> bool {
        self.resources.len() == resources.len()
            && self.resources.iter().zip(resources).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
            && Arc::ptr_eq(&self.schemas, schemas)
    }

    fn v2(&self) -> &Document {
        self.v2.get_or_init(|| Document::new(v2::document(&self.resources, &self.schemas).to_string().into_bytes()))
    }

    fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf
            .get_or_init(|| Document::new(gnostic::encode(&v2::document(&self.resources, &self.schemas))))
    }

    fn v3(&self) -> &BTreeMap<String, Document> {
        self.v3.get_or_init(|| {
            let make = |(group, version): (&str, &str)| {
                let document = v3::document(group, version, &self.resources, &self.schemas);
                (v3::key(group, version), Document::new(document.to_string().into_bytes()))
            };
            group_versions(&self.resources).into_iter().map(make).collect()
        })
    }
}

fn group_versions(resources: &[Arc<Resource>]) -> BTreeSet<(&str, &str)> {
    resources.iter().map(|resource| (resource.group.as_str(), resource.version.as_str())).collect()
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Adds the kind of a resource and its list.
fn add_types(definitions: &mut Definitions, dialect: Dialect, resource: &Resource, schemas: &Schemas) {
    if resource.custom {
        let key = (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        return custom::add(definitions, dialect, resource, schemas.get(&key));
    }
    for kind in [&resource.kind, &resource.list_kind] {
        if let Some(structure) = api::schema::of_kind(&resource.group, &resource.version, kind) {
            definitions.reference(&structure.name);
            definitions.kinds(&structure.name, &[(&resource.group, &resource.version, kind)]);
        }
    }
}

/// A reference to a type that an operation names; custom types are there already.
fn reference(definitions: &mut Definitions, name: &str) -> Value {
    let reference = definitions.reference(name);
    let kind = api::schema::kinds().find(|(_, _, _, of)| *of == name);
    if let Some((group, version, kind, _)) = kind {
        definitions.kinds(name, &[(group, version, kind)]);
    }
    reference
}

/// Delete options belong to every group and version; Status to the core one.
fn mark_options(definitions: &mut Definitions, group_versions: &BTreeSet<(&str, &str)>) {
    let options: Vec<_> = group_versions.iter().map(|(group, version)| (*group, *version, "DeleteOptions")).collect();
    definitions.kinds(DELETE_OPTIONS, &options);
    definitions.kinds(STATUS, &[("", "v1", "Status")]);
}

/// Puts an operation into the object of paths.
fn place(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
}

/// What both versions say of an operation in the same words.
fn named_operation(operation: &Operation) -> Value {
    json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [operation.tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {
            "group": operation.group, "version": operation.version, "kind": operation.kind,
        },
    })
}

fn answers(operation: &Operation) -> &'static [(&'static str, &'static str)] {
    match (operation.action, &operation.body) {
        ("post", Body::Object(_)) => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
        ("put" | "patch", _) => &[("200", "OK"), ("201", "Created")],
        ("delete", _) => &[("200", "OK"), ("202", "Accepted")],
        _ => &[("200", "OK")],
    }
}

fn produced(operation: &Operation) -> &'static [&'static str] {
    match (&operation.answer, operation.action) {
        (None, _) => &["*/*"],
        (_, "list") => &["application/json", "application/yaml", "application/json;stream=watch"],
        _ => &["application/json", "application/yaml"],
    }
}

fn patch_types(strategic: bool) -> Vec<&'static str> {
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
    if strategic {
        types.push("application/strategic-merge-patch+json");
    }
    types.push("application/apply-patch+yaml");
    types
}
