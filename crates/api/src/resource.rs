//! A resource as the engine sees it: names, scope, shape, where it is stored, and its rules.
//!
//! Built-in kinds are rows of `kinds::table`; a CustomResourceDefinition makes the same value at run time.

use crate::{
    error::FieldError,
    object::Fields,
    schema::{Decoded, Shape},
};
use serde_json::Value;
use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

/// Whether objects live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Once per cluster.
    Cluster,
}

/// What a resource can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// create delete deletecollection get list patch update watch.
    All,
    /// As `All`, but objects are deleted one by one (namespaces).
    AllButDeleteCollection,
    /// Posted, answered, never stored (reviews, bindings).
    CreateOnly,
}

impl Verbs {
    /// The verbs as discovery lists them.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            Self::AllButDeleteCollection => &["create", "delete", "get", "list", "patch", "update", "watch"],
            Self::CreateOnly => &["create"],
        }
    }
}

/// A path below an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Subresource {
    /// `status`: writes change status alone.
    Status,
    /// `scale`: the object seen as autoscaling/v1 Scale. Dotted paths to replicas, observed replicas and the selector.
    Scale {
        /// Where the wanted number stands.
        spec_replicas: String,
        /// Where the seen number stands.
        status_replicas: String,
        /// Where the label selector stands: an object (`spec.selector`) or its text form.
        selector: Option<String>,
    },
    /// Any other, by name; the engine knows what to do with it (`eviction`, `binding`, `log`, `token`, ...).
    Named(&'static str),
}

/// A shape, or how it is made when it is first asked for: the shapes of kinds that have no objects need no memory.
#[derive(Clone)]
pub struct LazyShape(Arc<LazyLock<Shape, Box<dyn FnOnce() -> Shape + Send + Sync>>>);

impl LazyShape {
    /// One that is made later.
    pub fn new(make: impl FnOnce() -> Shape + Send + Sync + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Shape> for LazyShape {
    fn from(shape: Shape) -> Self {
        Self::new(|| shape)
    }
}

impl std::ops::Deref for LazyShape {
    type Target = Shape;

    fn deref(&self) -> &Shape {
        &self.0
    }
}

/// One column of a Table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header.
    pub name: String,
    /// `string`, `integer`, `date`, ...
    pub kind: String,
    /// `name` for the name column, otherwise mostly empty.
    pub format: String,
    /// For people.
    pub description: String,
    /// 0 is shown always, more only with `-o wide`.
    pub priority: i32,
}

/// The rules of a kind. Every method has the answer of a kind without rules.
///
/// The engine calls, on create: `default`, `prepare_create`, `validate`; on update: `default`, `prepare_update`,
/// `validate_update`; through the status subresource: `default`, `prepare_status`, `validate_status`; through others that
/// show the whole object (`resize`): `default`, `prepare_below`, `validate_below`.
pub trait Rules: Send + Sync {
    /// Reads an object whose kind is more than its shape says: the schema of a custom kind decides which fields are unknown,
    /// and wrong types are for `validate` to tell. None leaves it to the shape.
    fn decode(&self, _object: &mut Value) -> Option<Decoded> {
        None
    }
    /// Fills in what the client left out. Runs on every decoded object and must be idempotent.
    fn default(&self, _object: &mut Value) {}
    /// Brings a new object into the form in which it may be stored: no status from the client, and so on.
    fn prepare_create(&self, _object: &mut Value) {}
    /// Carries over what an update may not touch.
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}
    /// Carries over what a status update may not touch.
    fn prepare_status(&self, object: &mut Value, old: &Value) {
        carry_over_all_but_status(object, old);
    }
    /// Carries over what a write through such a subresource may not touch: everything, unless the kind says otherwise.
    fn prepare_below(&self, _subresource: &str, object: &mut Value, old: &Value) {
        change_only(object, old, &[]);
    }
    /// What of an applied configuration counts when it is applied to such a subresource.
    fn applied_below(&self, _subresource: &str, config: &Value) -> Value {
        config.clone()
    }
    /// Mistakes in a new object, all of them.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    /// Mistakes in a changed object, all of them, those of `validate` included.
    fn validate_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(object)
    }
    /// Mistakes in a changed status.
    fn validate_status(&self, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    /// Mistakes in a change through such a subresource.
    fn validate_below(&self, _subresource: &str, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    /// What everybody hears who asks for this resource, because there is something better.
    fn deprecation(&self) -> Option<&str> {
        None
    }
    /// Advice that does not stop the request; `old` is absent on create.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }
    /// Why `name` cannot be a name of this kind (empty when it can); `prefix` when it is the start of one (generateName).
    fn name_mistakes(&self, name: &str, prefix: bool) -> Vec<String> {
        crate::kinds::names::dns_subdomain(name, prefix)
    }
    /// Whether a finalizer without a domain must be one that Kubernetes knows.
    fn strict_finalizers(&self) -> bool {
        true
    }
    /// Whether `metadata.generation` is kept: 1 on create, one more when `generation_changes` says so.
    fn has_generation(&self) -> bool {
        false
    }
    /// Whether an update counts for `metadata.generation`: any change outside metadata and status.
    fn generation_changes(&self, object: &Value, old: &Value) -> bool {
        differs_beyond_status(object, old)
    }
    /// Whether an update without resourceVersion is accepted.
    fn unconditional_update(&self) -> bool {
        true
    }
    /// Whether PUT on a missing name creates it.
    fn create_on_update(&self) -> bool {
        false
    }
    /// Seconds of grace when a delete names none. None deletes at once, whatever the delete names.
    fn grace_period(&self, _object: &Value) -> Option<i64> {
        None
    }
    /// Whether a delete that names no propagation lets dependents go instead of taking them along.
    fn orphans_by_default(&self) -> bool {
        false
    }
    /// Shows in the object itself that it is being deleted, where its kind has a place for that.
    fn mark_deleting(&self, _object: &mut Value) {}
    /// What a field selector compares with: the value at one of the resource's selectable paths, as text.
    fn selected(&self, object: &Value, path: &str) -> String {
        scalar_text(object.at(path))
    }
    /// The selectable field by whose value objects are found without looking at all of them, if there is one.
    fn indexed(&self) -> Option<&'static str> {
        None
    }
    /// An object of this resource in the form in which resources with the same storage keep it.
    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(object)
    }
    /// Brings a stored object into the form that this resource shows.
    fn show_stored(&self, _object: &mut Value) {}
    /// Whether an object that was stored at this revision (0: in a dry run, now) is shown byte by byte, without `show_stored`.
    fn shows_as_stored(&self, _revision: u64) -> bool {
        true
    }
    /// Group and version of what is stored, where they are not the resource's own.
    fn stored_as(&self) -> Option<(&str, &str)> {
        None
    }
    /// Who converts stored objects between versions, where that is more than another apiVersion.
    fn conversion(&self) -> Option<&Conversion> {
        None
    }
    /// Takes out of an object in the version of storage what that version does not know.
    fn prune_stored(&self, _object: &mut Value) {}
    /// Fields that a write of status cannot change, so that nobody comes to own them through it.
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec"]
    }
    /// Whether a strategic merge patch can be made: lists need keys that every client knows.
    fn strategic_patches(&self) -> bool {
        true
    }
    /// Whether the items of a list say their kind and version, each of them.
    fn typed_items(&self) -> bool {
        false
    }
    /// Whether an object goes by itself some time after it was last written (`--event-ttl`).
    fn expires(&self) -> bool {
        false
    }
    /// Puts the objects of a list into the order in which a table shows them.
    fn in_table_order(&self, _objects: &mut [Value]) {}
    /// Table columns.
    fn columns(&self) -> Vec<Column> {
        crate::kinds::columns::name_and_age()
    }
    /// Table cells for one object; `now` is for ages.
    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        crate::kinds::columns::name_and_age_cells(object, now)
    }
}

/// A webhook that converts objects of one kind between its versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// How it is reached: `url` or `service`, and `caBundle`.
    pub client: Value,
    /// The versions of ConversionReview that it knows.
    pub review_versions: Vec<String>,
    /// The apiVersion of what is stored.
    pub stored_as: String,
}

/// A status update changes nothing but status (and metadata that the engine keeps track of).
pub fn carry_over_all_but_status(object: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (object.as_object_mut(), old.as_object()) else { return };
    let status = new.remove("status");
    let metadata = new.remove("metadata");
    *new = old.clone();
    match status {
        Some(status) => new.insert("status".into(), status),
        None => new.remove("status"),
    };
    if let Some(metadata) = metadata {
        new.insert("metadata".into(), metadata);
    }
}

/// A write that changes nothing but what stands at these paths, and who is told to own it.
pub fn change_only(object: &mut Value, old: &Value, paths: &[&str]) {
    let sent = std::mem::replace(object, old.clone());
    for path in paths.iter().chain(&["metadata.managedFields"]) {
        take_over(object, &sent, path);
    }
}

/// Makes a field what it is in `from`, which may be nothing.
pub fn take_over(object: &mut Value, from: &Value, path: &str) {
    match from.at(path) {
        Value::Null => drop(object.remove(path)),
        value => object.set(path, value.clone()),
    }
}

/// Whether anything outside metadata and status differs. Both objects went through their shape, which leaves out what is
/// empty, so that an empty struct that is there differs from one that is not, as upstream has it.
pub fn differs_beyond_status(object: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
    let counts = |(key, value): &(&String, &Value)| {
        !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") && !value.is_null()
    };
    !new.iter().filter(counts).eq(old.iter().filter(counts))
}

/// A scalar as text; empty for anything else.
pub fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => String::new(),
    }
}

/// One served resource.
#[derive(Clone)]
pub struct Resource {
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// `Service`.
    pub kind: String,
    /// `ServiceList`.
    pub list_kind: String,
    /// `services`.
    pub plural: String,
    /// `service`.
    pub singular: String,
    /// `svc`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// Namespaced or not.
    pub scope: Scope,
    /// What can be asked.
    pub verbs: Verbs,
    /// Shape of an object.
    pub shape: LazyShape,
    /// Below the store's root: `services/specs`. Resources with the same prefix are views of the same objects.
    pub storage: String,
    /// Paths below an object.
    pub subresources: Vec<Subresource>,
    /// Field selectors beyond metadata.name and metadata.namespace: label and dotted path. Made anew when the resource is, so
    /// that what was read by it is known by its address.
    pub selectable: Arc<[(String, String)]>,
    /// What is particular to the kind.
    pub rules: Arc<dyn Rules>,
    /// Whether it comes from a CustomResourceDefinition.
    pub custom: bool,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
    /// Whether it has this subresource, by its path segment.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name() == name)
    }
    /// The field that a field selector calls `label`, or what a client hears who cannot select by it.
    pub fn selectable_field(&self, label: &str) -> Result<SelectableField, String> {
        // A kind that declares nothing has upstream's default, which does not look at the scope.
        let declares = self.custom || !self.selectable.is_empty();
        match label {
            "metadata.name" => return Ok(SelectableField::Name),
            "metadata.namespace" if !declares || self.scope == Scope::Namespaced => {
                return Ok(SelectableField::Namespace);
            }
            _ => {}
        }
        match self.selectable.iter().position(|(known, _)| known == label) {
            Some(index) => Ok(SelectableField::Declared(index)),
            None if declares => Err(format!("field label not supported: {label}")),
            None => {
                Err(format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""))
            }
        }
    }
    /// Which of `selectable` is indexed.
    pub fn index(&self) -> Option<usize> {
        let indexed = self.rules.indexed()?;
        self.selectable.iter().position(|(label, _)| label == indexed)
    }
    /// What selectors on the declared fields compare with, in the order of `selectable`, for an object as this resource shows
    /// it.
    pub fn selected(&self, object: &Value) -> Arc<[Box<str>]> {
        self.selectable.iter().map(|(_, path)| self.rules.selected(object, path).into_boxed_str()).collect()
    }
    /// The same resource with other rules, e.g. those that only the server can check.
    #[must_use]
    pub fn with_rules(&self, rules: Arc<dyn Rules>) -> Self {
        Self { rules, ..self.clone() }
    }
    /// How discovery shows one of its subresources.
    pub fn shown_subresource(&self, sub: &Subresource) -> ShownSubresource {
        const READ_WRITE: &[&str] = &["get", "patch", "update"];
        let own = |verbs| ShownSubresource { group_version: None, kind: self.kind.clone(), verbs };
        let options =
            |kind: &str, verbs| ShownSubresource { kind: format!("{}{kind}Options", self.kind), ..own(verbs) };
        let other = |group, version, kind: &str, verbs| ShownSubresource {
            group_version: Some((group, version)),
            kind: kind.to_owned(),
            verbs,
        };
        match sub.name() {
            "scale" => other("autoscaling", "v1", "Scale", READ_WRITE),
            "eviction" => other("policy", "v1", "Eviction", &["create"]),
            "token" => other("authentication.k8s.io", "v1", "TokenRequest", &["create"]),
            "binding" => ShownSubresource { kind: "Binding".to_owned(), ..own(&["create"]) },
            "finalize" => own(&["update"]),
            "log" => own(&["get"]),
            "attach" => options("Attach", &["create", "get"]),
            "exec" => options("Exec", &["create", "get"]),
            "portforward" => options("PortForward", &["create", "get"]),
            "proxy" => options("Proxy", &["create", "delete", "get", "patch", "update"]),
            _ => own(READ_WRITE),
        }
    }
}

/// What a term of a field selector looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectableField {
    /// metadata.name.
    Name,
    /// metadata.namespace, empty for objects without one.
    Namespace,
    /// One of `Resource::selectable`.
    Declared(usize),
}

/// How discovery shows a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSubresource {
    /// Group and version of its kind, where they are not the resource's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// What is sent to and answered by it.
    pub kind: String,
    /// What can be asked.
    pub verbs: &'static [&'static str],
}

impl Subresource {
    /// Path segment.
    pub fn name(&self) -> &str {
        match self {
            Self::Status => "status",
            Self::Scale { .. } => "scale",
            Self::Named(name) => name,
        }
    }
}
