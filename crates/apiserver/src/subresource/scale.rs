//! `scale`: an object seen as autoscaling/v1 Scale.
//!
//! A write makes the Scale of the stored object, changes that as any object is changed, managed fields included, and
//! carries the number and those who own it back.

use crate::{
    answer::{self, Answer},
    call::{Call, Written},
    request::{
        body::{self, Duplicates, Mismatch, Parsed},
        query::{FieldValidation, Write, WriteOptions},
    },
    verbs::{
        create,
        update::{self, Tracking},
        write::Part,
    },
};
use api::{
    error::{ApiError, FieldError},
    kinds::selector,
    object::Fields,
    path::Path,
    resource::Subresource,
    schema::{self, Shape},
};
use jiff::Timestamp;
use patch::{
    Format,
    apply::{self, Apply, Claim, FieldSet, Force, Update},
};
use serde_json::{Value, json};

const SHAPE: Shape = Shape::Named("io.k8s.api.autoscaling.v1.Scale");
const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Where the parts of a Scale stand in the object.
#[derive(Clone, Copy)]
struct Paths<'a> {
    spec: &'a str,
    status: &'a str,
    selector: Option<&'a str>,
}

/// get, update, patch.
pub(super) async fn serve(call: &Call, subresource: &Subresource, bytes: &[u8]) -> Result<Answer, ApiError> {
    let Subresource::Scale { spec_replicas, status_replicas, selector } = subresource else {
        return Err(call.not_allowed());
    };
    let paths = Paths { spec: spec_replicas, status: status_replicas, selector: selector.as_deref() };
    if call.request.verb == "get" {
        let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
        return show(call, &paths, &Written::from(&entry)).await;
    }
    let (edit, options) = read(call, bytes)?;
    let (api_version, versions) = (call.resource.api_version(), call.versions());
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let change = Change {
        edit,
        paths,
        ownership: apply::Scale { api_version: &api_version, versions: &versions, replicas: paths.spec },
        manager: call.manager(&options.field_manager),
        force: if options.force.unwrap_or(false) { Force::Yes } else { Force::No },
        validation: options.field_validation,
        now: call.server.now(),
    };
    let written = update::change(call, Part::Scale, &options, Tracking::Done, |old| {
        let mut warnings = Vec::new();
        let mut scale = change.scale(old, &mut warnings)?;
        call.warn(warnings);
        update::match_name(call, &scale)?;
        create::match_namespace(call, &mut scale)?;
        change.parent(&scale, old).map(Into::into)
    })
    .await?;
    show(call, &paths, &written).await
}

/// The Scale of an object whose `scale` is being written.
pub(crate) fn scale_of(call: &Call, object: &Value) -> Value {
    paths(call).map_or_else(|| object.clone(), |paths| scale_at(object, &paths))
}

/// Carries the number of a Scale back into its object.
pub(crate) fn set_scale(call: &Call, object: &mut Value, scale: &Value) {
    if let (Some(paths), Some(replicas)) = (paths(call), scale.int_at("spec.replicas")) {
        object.set(paths.spec, replicas);
    }
}

fn paths(call: &Call) -> Option<Paths<'_>> {
    match call.resource.subresource("scale")? {
        Subresource::Scale { spec_replicas, status_replicas, selector } => {
            Some(Paths { spec: spec_replicas, status: status_replicas, selector: selector.as_deref() })
        }
        _ => None,
    }
}

/// What a request does to a Scale.
enum Edit {
    Put(Parsed),
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

fn read(call: &Call, bytes: &[u8]) -> Result<(Edit, WriteOptions), ApiError> {
    if call.request.verb == "update" {
        let options = WriteOptions::new(&call.query, Write::Update)?;
        return Ok((Edit::Put(body::parse(bytes, &call.content_type)?), options));
    }
    if call.request.verb != "patch" {
        return Err(call.not_allowed());
    }
    // A custom resource's Scale is a built-in kind, but its patches are those of its resource.
    let edit: fn(Value) -> Edit = match call.patch_format()? {
        Format::Json => Edit::Json,
        Format::Strategic => Edit::Strategic,
        Format::Merge => Edit::Merge,
        Format::Apply => {
            let options = WriteOptions::new(&call.query, Write::Apply)?;
            call.exists()?;
            let mut config = body::parse(bytes, "application/yaml")?.value;
            body::expect_kind(&mut config, API_VERSION, KIND)?;
            config.set_default("metadata.name", call.request.name.as_str());
            update::match_name(call, &config)?;
            create::match_namespace(call, &mut config)?;
            return Ok((Edit::Apply(config), options));
        }
    };
    let options = WriteOptions::new(&call.query, Write::Patch)?;
    call.exists()?;
    let (document, _) =
        schema::parse_json(bytes).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    Ok((edit(document), options))
}

/// A write through a Scale.
struct Change<'a> {
    edit: Edit,
    paths: Paths<'a>,
    ownership: apply::Scale<'a>,
    manager: String,
    force: Force,
    validation: FieldValidation,
    now: Timestamp,
}

impl Change<'_> {
    /// The Scale of the object after the edit, with its managed fields.
    fn scale(&self, old: &Value, warnings: &mut Vec<String>) -> Result<Value, ApiError> {
        let mut before = scale_at(old, &self.paths);
        self.ownership.show(old, &mut before);
        let (patched, duplicates) = match &self.edit {
            Edit::Apply(config) => return self.applied(&before, config),
            Edit::Put(sent) => (sent.value.clone(), sent.duplicates.clone()),
            Edit::Json(document) => (patch::json::apply(before.clone(), document)?, Duplicates::default()),
            Edit::Merge(document) => (patch::merge::apply(before.clone(), document.clone())?, Duplicates::default()),
            Edit::Strategic(document) => {
                (patch::strategic::apply(&SHAPE, before.clone(), document.clone())?, Duplicates::default())
            }
        };
        let mut scale = patched;
        body::expect_kind(&mut scale, API_VERSION, KIND)?;
        let patched = (!matches!(self.edit, Edit::Put(_))).then(|| scale.clone());
        body::shape(&mut scale, &SHAPE, &duplicates, self.validation, warnings).map_err(|mismatch| {
            match (patched, mismatch) {
                (Some(patched), Mismatch::Type(why) | Mismatch::Strict(why)) => patch::not_an_object(&patched, &why),
                (_, mismatch) => mismatch.into(),
            }
        })?;
        let update = Update {
            shape: &SHAPE,
            live: Some(&before),
            claim: Claim::default(),
            manager: &self.manager,
            api_version: API_VERSION,
            versions: &[API_VERSION],
            subresource: Part::Scale.subresource(),
            reset: &FieldSet::default(),
            now: self.now,
        };
        apply::track_update(&update, &mut scale);
        Ok(scale)
    }

    fn applied(&self, before: &Value, config: &Value) -> Result<Value, ApiError> {
        let mut scale = apply::apply(&Apply {
            shape: &SHAPE,
            kind: KIND,
            live: Some(before),
            config,
            manager: &self.manager,
            force: self.force,
            api_version: API_VERSION,
            versions: &[API_VERSION],
            subresource: Part::Scale.subresource(),
            reset: &FieldSet::default(),
            now: self.now,
        })?;
        body::shape(&mut scale, &SHAPE, &Duplicates::default(), self.validation, &mut Vec::new())?;
        Ok(scale)
    }

    /// The object with the number of the Scale and with those who own it; uid and resourceVersion are preconditions.
    fn parent(&self, scale: &Value, old: &Value) -> Result<Value, ApiError> {
        let replicas = scale.int_at("spec.replicas").unwrap_or(0);
        if replicas < 0 {
            let path = Path::new("spec").child("replicas");
            let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
            return Err(ApiError::invalid(KIND, "autoscaling", old.str_at("metadata.name"), &[error]));
        }
        let mut object = old.clone();
        object.set(self.paths.spec, replicas);
        // Whoever names no version means whichever there is, also of kinds that want one of their own updates.
        if !scale.str_at("metadata.resourceVersion").is_empty() {
            object.set("metadata.resourceVersion", scale.str_at("metadata.resourceVersion"));
        }
        if !scale.str_at("metadata.uid").is_empty() {
            object.set("metadata.uid", scale.str_at("metadata.uid"));
        }
        self.ownership.settle(scale, &mut object);
        Ok(object)
    }
}

async fn show(call: &Call, paths: &Paths<'_>, written: &Written) -> Result<Answer, ApiError> {
    answer::value(call, 200, &scale_at(&written.parse(call).await?, paths))
}

fn scale_at(object: &Value, paths: &Paths<'_>) -> Value {
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {}, "status": {}});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at("metadata").get(field) {
            scale["metadata"][field] = value.clone();
        }
    }
    let wanted = object.int_at(paths.spec).unwrap_or(0);
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    scale["status"]["replicas"] = object.int_at(paths.status).unwrap_or(0).into();
    if let Some(path) = paths.selector {
        // Custom resources may have it as text; a ReplicationController has the labels alone.
        let text = match object.at(path) {
            Value::String(text) => text.clone(),
            Value::Object(labels) if labels.values().all(Value::is_string) => {
                selector::text(&json!({"matchLabels": labels}))
            }
            selector => selector::text(selector),
        };
        if !text.is_empty() {
            scale["status"]["selector"] = text.into();
        }
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: &[&str] = &["apps/v1"];

    fn change(edit: Edit, manager: &str) -> Change<'static> {
        let paths = Paths { spec: "spec.replicas", status: "status.replicas", selector: Some("spec.selector") };
        Change {
            edit,
            paths,
            ownership: apply::Scale { api_version: "apps/v1", versions: VERSIONS, replicas: paths.spec },
            manager: manager.to_owned(),
            force: Force::No,
            validation: FieldValidation::Strict,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn run(change: &Change<'_>, old: &Value) -> Result<Value, ApiError> {
        let scale = change.scale(old, &mut Vec::new())?;
        change.parent(&scale, old)
    }

    fn owner(manager: &str, operation: &str, subresource: Option<&str>, fields: &Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if let Some(subresource) = subresource {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn deployment() -> Value {
        let fields = json!({"f:spec": {"f:paused": {}, "f:replicas": {}}});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "5", "managedFields": [owner("maker", "Apply", None, &fields)]},
            "spec": {"replicas": 2, "paused": true, "selector": {"matchLabels": {"app": "d"}}},
            "status": {"replicas": 1},
        })
    }

    fn config(replicas: i64) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "d"}, "spec": {"replicas": replicas}})
    }

    fn put(scale: Value) -> Edit {
        Edit::Put(Parsed { value: scale, duplicates: Duplicates::default() })
    }

    #[test]
    fn every_way_to_scale_moves_the_number_and_its_owner() {
        let number = json!({"f:spec": {"f:replicas": {}}});
        let rest = owner("maker", "Apply", None, &json!({"f:spec": {"f:paused": {}}}));
        for (what, edit) in [
            ("update", put(config(4))),
            ("JSON patch", Edit::Json(json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]))),
            ("merge patch", Edit::Merge(json!({"spec": {"replicas": 4}}))),
            ("strategic merge patch", Edit::Strategic(json!({"spec": {"replicas": 4}}))),
        ] {
            let scaled = run(&change(edit, "scaler"), &deployment()).unwrap();
            assert_eq!((scaled.int_at("spec.replicas"), scaled.is_true("spec.paused")), (Some(4), true), "{what}");
            let expected = [rest.clone(), owner("scaler", "Update", Some("scale"), &number)];
            assert_eq!(scaled.list_at("metadata.managedFields"), expected, "{what}");
        }
    }

    #[test]
    fn an_apply_conflicts_takes_over_by_force_and_shares_what_agrees() {
        let error = run(&change(Edit::Apply(config(4)), "scaler"), &deployment()).unwrap_err();
        assert_eq!(error.code, 409);
        assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"maker\": .spec.replicas");

        let forced = Change { force: Force::Yes, ..change(Edit::Apply(config(4)), "scaler") };
        let scaled = run(&forced, &deployment()).unwrap();
        let managers: Vec<&str> =
            scaled.list_at("metadata.managedFields").iter().map(|entry| entry.str_at("manager")).collect();
        assert_eq!((scaled.int_at("spec.replicas"), managers), (Some(4), vec!["maker", "scaler"]));
        assert_eq!(scaled.at("metadata.managedFields")[0]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));

        let shared = run(&change(Edit::Apply(config(2)), "scaler"), &deployment()).unwrap();
        let fields: Vec<bool> = shared
            .list_at("metadata.managedFields")
            .iter()
            .map(|entry| entry["fieldsV1"]["f:spec"].get("f:replicas").is_some())
            .collect();
        assert_eq!(fields, [true, true]);
    }

    #[test]
    fn scaling_to_the_same_number_changes_nothing() {
        for edit in [put(config(2)), Edit::Merge(json!({"spec": {"replicas": 2}})), Edit::Merge(json!({}))] {
            let mut scaled = run(&change(edit, "scaler"), &deployment()).unwrap();
            scaled.set("metadata.resourceVersion", "5");
            assert_eq!(scaled, deployment());
        }
    }

    #[test]
    fn preconditions_are_handed_on_and_mistakes_named() {
        let mut stale = config(3);
        stale.set("metadata.resourceVersion", "4");
        stale.set("metadata.uid", "other");
        let scaled = run(&change(put(stale), "scaler"), &deployment()).unwrap();
        assert_eq!((scaled.str_at("metadata.resourceVersion"), scaled.str_at("metadata.uid")), ("4", "other"));

        let mut odd = config(3);
        odd["spec"]["bogus"] = json!(1);
        for (edit, code, part) in [
            (put(config(-1)), 422, "spec.replicas"),
            (put(odd), 400, "spec.bogus"),
            (put(json!({"kind": "Deployment"})), 400, "Scale"),
            (Edit::Merge(json!({"spec": {"replicas": "many"}})), 422, "patch"),
            (Edit::Merge(json!([])), 400, "object"),
            (Edit::Json(json!([{"op": "test", "path": "/spec/replicas", "value": 9}])), 422, "test"),
        ] {
            let error = run(&change(edit, "scaler"), &deployment()).unwrap_err();
            assert_eq!(error.code, code, "{}", error.message);
            assert!(error.message.contains(part), "{part:?} in {:?}", error.message);
        }
    }

    #[test]
    fn a_custom_resource_keeps_its_number_where_its_definition_says() {
        let paths = Paths { spec: "spec.size.wanted", status: "status.size", selector: None };
        let fields = json!({"f:spec": {"f:size": {"f:wanted": {}}}});
        let mut old = json!({"apiVersion": "x.io/v1", "kind": "Fleet", "metadata": {"name": "d"}, "spec": {"size": {"wanted": 1}}});
        let mut entry = owner("maker", "Update", None, &fields);
        entry["apiVersion"] = json!("x.io/v1");
        old["metadata"]["managedFields"] = json!([entry]);
        let ownership = apply::Scale { api_version: "x.io/v1", versions: &["x.io/v1"], replicas: paths.spec };
        let change = Change { paths, ownership, ..change(Edit::Merge(json!({"spec": {"replicas": 3}})), "scaler") };
        let scaled = run(&change, &old).unwrap();
        entry["manager"] = json!("scaler");
        entry["subresource"] = json!("scale");
        assert_eq!(scaled["spec"], json!({"size": {"wanted": 3}}));
        assert_eq!(scaled["metadata"]["managedFields"], json!([entry]));
    }
}
