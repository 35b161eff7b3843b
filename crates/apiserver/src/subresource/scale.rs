//! `scale`: an object seen as autoscaling/v1 Scale.

use crate::{
    answer::{self, Answer},
    call::{Call, Written},
    patch::{self, Format},
    request::{
        body,
        query::{Write, WriteOptions},
    },
    verbs::{
        finish::Part,
        update::{self, Tracking},
    },
};
use api::{
    error::{ApiError, FieldError},
    object::Fields,
    path::Path,
    resource::Subresource,
    schema::{self, Shape},
};
use serde_json::{Value, json};

const SHAPE: Shape = Shape::Named("io.k8s.api.autoscaling.v1.Scale");

/// Where the parts of a Scale stand in the object.
struct Paths<'a> {
    spec: &'a str,
    status: &'a str,
    selector: Option<&'a str>,
}

/// get, update, patch.
pub async fn serve(call: &Call, subresource: &Subresource, bytes: &[u8]) -> Result<Answer, ApiError> {
    let Subresource::Scale { spec_replicas, status_replicas, selector } = subresource else {
        return Err(call.not_allowed());
    };
    let paths = Paths { spec: spec_replicas, status: status_replicas, selector: selector.as_deref() };
    if call.request.verb == "get" {
        let entry = call.server.store.get(&call.key()).ok_or_else(|| call.not_found())?;
        return show(call, &paths, &Written::from(&entry));
    }
    let change: Box<dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync> = match call.request.verb {
        "update" => {
            let mut sent = body::parse(bytes, &call.content_type)?.value;
            body::expect_kind(&mut sent, "autoscaling/v1", "Scale")?;
            decode(&mut sent)?;
            update::match_name(call, &sent)?;
            Box::new(move |_| Ok(sent.clone()))
        }
        "patch" => {
            let format = Format::from_content_type(&call.content_type, &Format::ALL)?;
            let document = body::parse(bytes, "application/yaml")?.value;
            Box::new(move |scale| {
                let mut scale = match format {
                    Format::Json => patch::json::apply(scale.clone(), &document)?,
                    Format::Merge | Format::Apply => patch::merge::apply(scale.clone(), document.clone())?,
                    Format::Strategic => patch::strategic::apply(&SHAPE, scale.clone(), document.clone())?,
                };
                decode(&mut scale)?;
                Ok(scale)
            })
        }
        _ => return Err(call.not_allowed()),
    };
    let options = WriteOptions::new(&call.query, Write::Update)?;
    let written = update::change(call, Part::Scale, &options, Tracking::Update, |old| {
        let scale = change(&scale_of(old, &paths))?;
        let replicas = scale.int_at("spec.replicas").unwrap_or(0);
        if replicas < 0 {
            let error = FieldError::invalid(&Path::new("spec").child("replicas"), replicas, "must be greater than or equal to 0");
            return Err(ApiError::invalid("Scale", "autoscaling", &call.request.name, &[error]));
        }
        let mut object = old.clone();
        object.set(paths.spec, replicas);
        let version = scale.str_at("metadata.resourceVersion");
        object.set("metadata.resourceVersion", version);
        Ok(object.into())
    })
    .await?;
    show(call, &paths, &written)
}

fn decode(scale: &mut Value) -> Result<(), ApiError> {
    match schema::decode(&SHAPE, scale).errors.first() {
        Some(error) => Err(ApiError::bad_request(error.to_string())),
        None => Ok(()),
    }
}

fn show(call: &Call, paths: &Paths<'_>, written: &Written) -> Result<Answer, ApiError> {
    answer::value(call, 200, &scale_of(&written.parse()?, paths))
}

fn scale_of(object: &Value, paths: &Paths<'_>) -> Value {
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
    if let Some(selector) = paths.selector {
        let text = selector_text(object.at(selector));
        if !text.is_empty() {
            scale["status"]["selector"] = text.into();
        }
    }
    scale
}

/// A label selector in the text form that `status.selector` has.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector.map_at("matchLabels").into_iter().flatten();
    let mut parts: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for expression in selector.list_at("matchExpressions") {
        let key = expression.str_at("key");
        let values = expression.list_at("values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        parts.push(match expression.str_at("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    parts.join(",")
}
