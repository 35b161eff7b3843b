//! OpenAPI: what the server serves, for clients that ask (kubectl explain, validation, patches; Helm; Terraform).
//!
//! `Documents` is asked by `paths` for everything below `/openapi`. A document is made when it is first asked for and
//! again when what it speaks of has changed: `definitions` makes the types, `operations` the paths, `v2` and `v3` the two forms,
//! `gnostic` the protobuf of the first.

mod custom;
mod definitions;
mod descriptions;
mod gnostic;
mod gnostic_v3;
mod merge;
mod operations;
mod parameters;
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
use schema::Packed;
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
pub(crate) type Schemas = BTreeMap<(String, String, String), Packed>;

/// The OpenAPI documents of a server.
#[derive(Default)]
pub struct Documents {
    schemas: ArcSwap<Schemas>,
    /// What other servers say in version 2, each its paths and types.
    remote: ArcSwap<Vec<Arc<Value>>>,
    made: Mutex<Arc<Made>>,
}

impl Documents {
    /// Sets the schemas of custom resources, all of them. A custom resource without one may hold anything.
    pub fn set_schemas(&self, schemas: Schemas) {
        if **self.schemas.load() != schemas {
            self.schemas.store(Arc::new(schemas));
        }
    }

    /// Sets what other servers say in version 2, all of it.
    pub fn set_remote(&self, remote: Vec<Arc<Value>>) {
        let known = self.remote.load();
        if known.len() != remote.len() || !known.iter().zip(&remote).all(|(old, new)| Arc::ptr_eq(old, new)) {
            self.remote.store(Arc::new(remote));
        }
    }

    /// The documents of these resources. What has not changed since the last call is not made again.
    fn of(&self, resources: Vec<Arc<Resource>>) -> Arc<Made> {
        let (schemas, remote) = (self.schemas.load_full(), self.remote.load_full());
        let mut made = self.made.lock();
        if !made.is_of(&resources, &schemas, &remote) {
            *made = Arc::new(Made::new(resources, schemas, remote, &made));
        }
        made.clone()
    }
}

/// The documents of one set of resources, each made when it is first asked for.
#[derive(Default)]
struct Made {
    resources: Vec<Arc<Resource>>,
    schemas: Arc<Schemas>,
    remote: Arc<Vec<Arc<Value>>>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
    /// Documents of version 3 by `v3::key`.
    v3: BTreeMap<String, Part>,
}

/// The document of one group and version. It goes on to the next `Made` if nothing that it speaks of changes; resources and
/// schemas are always those of the present, so that no earlier ones are kept alive.
#[derive(Default)]
struct Part {
    resources: Vec<Arc<Resource>>,
    document: Arc<OnceLock<Document>>,
    protobuf: Arc<OnceLock<Document>>,
}

impl Made {
    fn new(resources: Vec<Arc<Resource>>, schemas: Arc<Schemas>, remote: Arc<Vec<Arc<Value>>>, before: &Self) -> Self {
        let mut v3: BTreeMap<String, Part> = BTreeMap::new();
        for resource in &resources {
            let key = v3::key(&resource.group, &resource.version);
            v3.entry(key).or_default().resources.push(resource.clone());
        }
        let mut made = Self { resources, schemas, remote, v3, ..Self::default() };
        if same_resources(before.built_in(), made.built_in()) {
            for (key, part) in &mut made.v3 {
                let same_schema = |resource: &Arc<Resource>| {
                    let key = schema_key(resource);
                    before.schemas.get(&key) == made.schemas.get(&key)
                };
                let same = |old: &&Part| {
                    same_resources(&old.resources, &part.resources) && part.resources.iter().all(same_schema)
                };
                if let Some(old) = before.v3.get(key).filter(same) {
                    part.document = old.document.clone();
                    part.protobuf = old.protobuf.clone();
                }
            }
        }
        made
    }

    fn is_of(&self, resources: &[Arc<Resource>], schemas: &Arc<Schemas>, remote: &Arc<Vec<Arc<Value>>>) -> bool {
        Arc::ptr_eq(&self.schemas, schemas)
            && Arc::ptr_eq(&self.remote, remote)
            && same_resources(&self.resources, resources)
    }

    fn built_in(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter().filter(|resource| !resource.custom)
    }

    fn v2(&self) -> &Document {
        self.v2.get_or_init(|| Document::new(self.whole_v2().to_string().into_bytes()))
    }

    fn whole_v2(&self) -> Value {
        let mut document = v2::document(&self.resources, &self.schemas);
        self.remote.iter().for_each(|other| merge::add(&mut document, other));
        document
    }

    fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf.get_or_init(|| Document::new(gnostic::encode(&self.whole_v2())))
    }

    /// The same as protobuf. Its hash is that of the other form: they say the same.
    fn v3_protobuf(&self, key: &str) -> Option<&Document> {
        let document = self.v3(key)?;
        Some(self.v3.get(key)?.protobuf.get_or_init(|| {
            let whole = serde_json::from_slice(&document.bytes).expect("it was written as JSON");
            Document { bytes: gnostic_v3::encode(&whole).into(), hash: document.hash.clone() }
        }))
    }

    /// The document of version 3 with this key.
    fn v3(&self, key: &str) -> Option<&Document> {
        let part = self.v3.get(key)?;
        Some(part.document.get_or_init(|| {
            // A change of one group leaves clients' copies of the other documents valid, because no document speaks of
            // custom groups other than its own.
            let group_versions = group_versions(self.built_in().chain(&part.resources));
            let document = v3::document(&part.resources, &self.schemas, &group_versions);
            Document::new(document.to_string().into_bytes())
        }))
    }

    /// Every document of version 3 with its key.
    fn all_v3(&self) -> impl Iterator<Item = (&str, &Document)> {
        self.v3.keys().filter_map(|key| Some((key.as_str(), self.v3(key)?)))
    }
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

/// Whether these make the same documents: custom resources are made anew whenever any definition changes.
fn same_resources<'a>(
    ours: impl IntoIterator<Item = &'a Arc<Resource>>,
    theirs: impl IntoIterator<Item = &'a Arc<Resource>>,
) -> bool {
    fn signature(resource: &Resource) -> impl PartialEq + '_ {
        let Resource { group, version, kind, list_kind, plural, scope, verbs, subresources, custom, .. } = resource;
        ((group, version, kind, list_kind), (plural, scope, verbs, subresources, custom))
    }
    ours.into_iter().map(|resource| signature(resource)).eq(theirs.into_iter().map(|resource| signature(resource)))
}

fn group_versions<'a>(resources: impl IntoIterator<Item = &'a Arc<Resource>>) -> BTreeSet<(&'a str, &'a str)> {
    resources.into_iter().map(|resource| (resource.group.as_str(), resource.version.as_str())).collect()
}

fn schema_key(resource: &Resource) -> (String, String, String) {
    (resource.group.clone(), resource.version.clone(), resource.kind.clone())
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Adds the kind of a resource and its list.
fn add_types(definitions: &mut Definitions, dialect: Dialect, resource: &Resource, schemas: &Schemas) {
    if resource.custom {
        return custom::add(definitions, dialect, resource, schemas.get(&schema_key(resource)).map(Packed::value));
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
fn insert(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
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
