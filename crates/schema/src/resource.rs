//! A definition as resources of the engine: one per served version, all views of the same stored objects.

use super::{
    cel, columns,
    definition::{Definition, LazySchema, Scale, Version},
    shape,
    walk::{default, embedded, lists, prune, validate},
};
use api::{
    error::{FieldError, Reason},
    object::Fields,
    path::Path,
    resource::{Column, Conversion, LazyShape, Resource, Rules, Subresource, Verbs, change_only},
    schema::Decoded,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// The resources of a definition; none before its names are accepted.
pub fn resources(definition: &Definition) -> Vec<Resource> {
    let served = definition.versions.iter().filter(|version| definition.served && version.served);
    served.map(|version| resource(definition, version)).collect()
}

fn resource(definition: &Definition, version: &Version) -> Resource {
    let names = definition.names.clone();
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(Subresource::Status);
    }
    if let Some(scale) = version.scale.clone() {
        let Scale { spec_replicas, status_replicas, selector } = scale;
        subresources.push(Subresource::Scale { spec_replicas, status_replicas, selector });
    }
    let api_version = format!("{}/{}", definition.group, version.name);
    Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        shape: shape(&version.schema, &names.kind),
        storage: format!("{}/{}", definition.group, names.plural),
        rules: Arc::new(CustomRules {
            kind: names.kind.clone(),
            api_version,
            stored_as: stored_as(definition),
            complete_after: complete_after(definition),
            version: version.clone(),
            conversion: definition.conversion.clone(),
            storage: definition.versions.iter().find(|version| version.storage).map(|version| version.schema.clone()),
        }),
        kind: names.kind,
        list_kind: names.list_kind,
        plural: names.plural,
        singular: names.singular,
        short_names: names.short_names,
        categories: names.categories,
        scope: definition.scope,
        verbs: Verbs::All,
        subresources,
        selectable: version.selectable.iter().map(|path| (path.clone(), path.clone())).collect(),
        custom: true,
    }
}

fn shape(schema: &LazySchema, kind: &str) -> LazyShape {
    let (schema, kind) = (schema.clone(), kind.to_owned());
    LazyShape::new(move || shape::of_resource(schema.root(), &kind))
}

/// The apiVersion of stored objects.
fn stored_as(definition: &Definition) -> String {
    let storage = definition.versions.iter().find(|version| version.storage).map_or("", |version| &version.name);
    format!("{}/{storage}", definition.group)
}

/// Objects stored after this revision have the fields and defaults of today's schema. Where versions have schemas of their
/// own, none has those of every version.
fn complete_after(definition: &Definition) -> u64 {
    let same = definition.versions.windows(2).all(|two| two[0].schema == two[1].schema);
    if same { definition.revision } else { u64::MAX }
}

/// The rules of a custom kind: its compiled schema.
struct CustomRules {
    kind: String,
    api_version: String,
    stored_as: String,
    complete_after: u64,
    version: Version,
    conversion: Option<Conversion>,
    /// The schema of what is stored.
    storage: Option<LazySchema>,
}

impl Rules for CustomRules {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata"]
    }

    fn strategic_patches(&self) -> bool {
        false
    }

    fn typed_items(&self) -> bool {
        true
    }

    fn decode(&self, object: &mut Value) -> Option<Decoded> {
        let mut decoded = api::schema::decode(&shape::ANY_OBJECT, object);
        let schema = self.version.schema.root();
        decoded.unknown.extend(prune::object(object, schema));
        decoded.unknown.extend(embedded::prune(object, schema));
        Some(decoded)
    }

    fn default(&self, object: &mut Value) {
        default::object(object, self.version.schema.root());
    }

    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        let mut object = Cow::Borrowed(object);
        if object.str_at("apiVersion") != self.stored_as {
            object.to_mut().set("apiVersion", self.stored_as.as_str());
        }
        object
    }

    /// A default that came into the schema later shows up on objects stored before, and a field that went does not.
    fn show_stored(&self, object: &mut Value) {
        let schema = self.version.schema.root();
        prune::object(object, schema);
        default::object(object, schema);
    }

    fn shows_as_stored(&self, revision: u64) -> bool {
        revision == 0 || revision > self.complete_after
    }

    fn conversion(&self) -> Option<&Conversion> {
        self.conversion.as_ref()
    }

    fn prune_stored(&self, object: &mut Value) {
        if let Some(schema) = &self.storage {
            prune::object(object, schema.root());
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.version.status {
            object.remove("status");
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        if !self.version.status {
            return;
        }
        match old.get("status") {
            Some(status) => object.set("status", status.clone()),
            None => drop(object.remove("status")),
        }
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        change_only(object, old, &["status"]);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let schema = self.version.schema.root();
        let mut errors = self.type_mistakes(object);
        if errors.is_empty() {
            validate::value(object, schema, &Path::root(), &mut errors);
            self.scale_mistakes(object, &mut errors);
            embedded::check(object, schema, &Path::root(), &mut errors);
            lists::check(object, schema, &Path::root(), &mut errors);
            self.rule_mistakes(object, None, &mut errors);
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let schema = self.version.schema.root();
        let mut errors = self.type_mistakes(object);
        if errors.is_empty() {
            validate::update(object, Some(old), schema, &Path::root(), &mut errors);
            self.scale_mistakes(object, &mut errors);
            embedded::check(object, schema, &Path::root(), &mut errors);
            self.new_list_mistakes(object, old, &mut errors);
            self.rule_mistakes(object, Some(old), &mut errors);
        }
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.type_mistakes(object);
        if !errors.is_empty() {
            return errors;
        }
        let schema = self.version.schema.root().properties.get("status");
        if let (Some(schema), Some(status)) = (schema, object.get("status")) {
            validate::update(status, old.get("status"), schema, &Path::new("status"), &mut errors);
        }
        self.scale_mistakes(object, &mut errors);
        self.new_list_mistakes(object, old, &mut errors);
        self.rule_mistakes(object, Some(old), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map_or(&[][..], |old| old.list_at("metadata.finalizers"));
        let added = object.list_at("metadata.finalizers").iter().filter(|one| !known.contains(one));
        let added = added.filter_map(Value::as_str).filter(|one| !one.contains('/'));
        let unqualified = added.filter(|one| !["orphan", "foregroundDeletion", "kubernetes"].contains(one));
        let advice = unqualified.map(|one| {
            format!("metadata.finalizers: \"{one}\": prefer a name with a domain and a path, such as example.com/{one}, so that no other writer has the same")
        });
        advice.collect()
    }

    fn deprecation(&self) -> Option<&str> {
        self.version.deprecation.as_deref()
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::headers(&self.version.columns)
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        columns::cells(&self.version.columns, object, now)
    }
}

impl CustomRules {
    fn type_mistakes(&self, object: &Value) -> Vec<FieldError> {
        let wrong = |(field, wanted): (&str, &str)| {
            let given = object.str_at(field);
            (given != wanted).then(|| FieldError::invalid(&Path::new(field), given, format!("must be {wanted}")))
        };
        [("kind", self.kind.as_str()), ("apiVersion", self.api_version.as_str())]
            .into_iter()
            .filter_map(wrong)
            .collect()
    }

    /// The numbers that the scale subresource shows are numbers.
    fn scale_mistakes(&self, object: &Value, errors: &mut Vec<FieldError>) {
        let Some(scale) = &self.version.scale else { return };
        for dotted in [&scale.spec_replicas, &scale.status_replicas] {
            let value = object.at(dotted);
            if !value.is_null() && value.as_i64().is_none_or(|n| i32::try_from(n).is_err() || n < 0) {
                let detail = format!("must be a whole number from 0 to {}", i32::MAX);
                errors.push(FieldError::invalid(&Path::new(dotted), value.clone(), detail));
            }
        }
        if let Some(dotted) = &scale.selector
            && !object.at(dotted).is_null()
            && !object.at(dotted).is_string()
        {
            errors.push(FieldError::invalid(&Path::new(dotted), object.at(dotted).clone(), "must be a string"));
        }
    }

    /// Lists that held duplicates before may go on doing so.
    fn new_list_mistakes(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let (schema, mut before) = (self.version.schema.root(), Vec::new());
        lists::check(old, schema, &Path::root(), &mut before);
        if before.is_empty() {
            lists::check(object, schema, &Path::root(), errors);
        }
    }

    /// Rules rely on types, sizes and required fields; where these are wrong the rules are not asked.
    fn rule_mistakes(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let blocks = |error: &FieldError| {
            matches!(
                error.reason,
                Reason::NotSupported | Reason::Required | Reason::TooLong | Reason::TooMany | Reason::TypeInvalid
            )
        };
        let schema = self.version.schema.root();
        if !errors.iter().any(blocks) {
            errors.extend(cel::validate(self.version.schema.rules(), schema, object, old, &Path::root()));
        } else if !self.version.schema.rules().is_empty() {
            errors.push(FieldError {
                field: "<nil>".to_owned(),
                reason: Reason::Invalid,
                value: Some(Value::Null),
                detail: "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
                    .to_owned(),
            });
        }
    }
}
