//! `patch`: the four ways to change a part of an object.

use super::{
    create,
    update::{self, Tracking},
    write::Part,
};
use crate::{
    answer::Answer,
    call::Call,
    request::{
        body::{self, Duplicates, Mismatch, Parsed, Wanted},
        query::{DryRun, Write, WriteOptions},
    },
};
use api::{error::ApiError, object::Fields, schema};
use patch::{
    Format,
    apply::{self, Apply, Claim, Force},
};
use serde_json::Value;

pub async fn patch(call: &Call, part: Part, bytes: &[u8]) -> Result<Answer, ApiError> {
    match call.patch_format()? {
        Format::Apply => apply_patch(call, part, bytes).await,
        Format::Json => plain_patch(call, part, Edit::Json, bytes).await,
        Format::Merge => plain_patch(call, part, Edit::Merge, bytes).await,
        Format::Strategic => plain_patch(call, part, Edit::Strategic, bytes).await,
    }
}

async fn plain_patch(call: &Call, part: Part, edit: fn(Value) -> Edit, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = WriteOptions::new(&call.query, Write::Patch)?;
    call.exists()?;
    let (document, duplicates) =
        schema::parse_json(bytes).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    let edit = edit(document);
    let odd = edit.odd(duplicates);
    let written = update::change(call, part, &options, Tracking::Update, |old| {
        let patched = edit.apply(call, old)?;
        patched_object(call, patched, &odd, &options)
    })
    .await?;
    call.object(200, &written).await
}

/// A patch document that was understood.
enum Edit {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

impl Edit {
    /// What is strange about the document: fields that stand twice, and those that no operation of a JSON patch has.
    fn odd(&self, duplicates: Vec<String>) -> Vec<String> {
        let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        match self {
            Self::Json(document) => {
                let unknown = patch::json::unknown_fields(document).into_iter();
                let odd = unknown.map(|path| format!("unknown field {path:?}")).chain(duplicates);
                odd.map(|one| format!("json patch {one}")).collect()
            }
            Self::Merge(_) | Self::Strategic(_) => duplicates.collect(),
        }
    }

    fn apply(&self, call: &Call, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(document) => patch::json::apply(old.clone(), document),
            Self::Merge(document) => patch::merge::apply(old.clone(), document.clone()),
            Self::Strategic(document) => patch::strategic::apply(&call.resource.shape, old.clone(), document.clone()),
        }
    }
}

/// The patched document as an object of its kind; `odd` is what is strange about the patch itself.
fn patched_object(call: &Call, mut patched: Value, odd: &[String], options: &WriteOptions) -> Result<Wanted, ApiError> {
    let claim = Claim::of(&patched);
    let shown = patched.clone();
    body::expect_kind(&mut patched, &call.resource.api_version(), &call.resource.kind)
        .map_err(|error| patch::not_an_object(&shown, &error.message))?;
    let aside = call.kind().set_aside(&call.server, &mut patched);
    let mut warnings = Vec::new();
    let mistakes = Duplicates::Patch(odd.to_vec());
    body::typed(&mut patched, &call.resource, &mistakes, options.field_validation, &mut warnings)
        .map_err(|(Mismatch::Type(why) | Mismatch::Strict(why))| patch::not_an_object(&shown, &why))?;
    call.warn(warnings);
    aside.put_back(&mut patched);
    call.resource.rules.default(&mut patched);
    update::match_name(call, &patched)?;
    create::match_namespace(call, &mut patched)?;
    Ok(Wanted { object: patched, claim })
}

async fn apply_patch(call: &Call, part: Part, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = WriteOptions::new(&call.query, Write::Apply)?;
    if part != Part::Main
        && let Err(missing) = call.exists()
    {
        // Upstream would create such a kind here: who may not create is told that, as by PUT.
        if call.resource.rules.create_on_update() {
            call.authorize("create")?;
        }
        return Err(missing);
    }
    let Parsed { mut value, duplicates } = body::parse(bytes, "application/yaml")?;
    if let Some(field) = ["apiVersion", "kind"].into_iter().find(|field| value.str_at(field).is_empty()) {
        return Err(ApiError::bad_request(format!("an applied configuration must have {field}")));
    }
    body::expect_kind(&mut value, &call.resource.api_version(), &call.resource.kind)?;
    let aside = call.kind().set_aside(&call.server, &mut value);
    if value.str_at("metadata.name").is_empty() {
        value.set("metadata.name", call.request.name.as_str());
    }
    update::match_name(call, &value)?;
    create::match_namespace(call, &mut value)?;
    let strict = || -> Result<(), ApiError> {
        let mut warnings = Vec::new();
        body::tolerate_applied(&duplicates, options.field_validation, &mut warnings)?;
        call.warn(warnings);
        Ok(())
    };
    if part == Part::Main && call.exists().is_err() {
        call.authorize("create")?;
        let mut object = applied(call, part, None, &value, &options)?;
        strict()?;
        aside.put_back(&mut object);
        match create::create_applied(call, object, &options).await? {
            Some(written) => return call.object(201, &written).await,
            // Somebody created it in the meantime: it is a change now.
            None if options.dry_run == DryRun::No => {}
            None => return Err(call.conflict("the object was created meanwhile; please try again")),
        }
    }
    let written = update::change(call, part, &options, Tracking::Done, |old| {
        let mut object = applied(call, part, Some(old), &value, &options)?;
        strict()?;
        aside.put_back(&mut object);
        Ok(object.into())
    })
    .await?;
    call.object(200, &written).await
}

fn applied(
    call: &Call,
    part: Part,
    live: Option<&Value>,
    config: &Value,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let versions = call.versions();
    let (shape, kind, api_version) = (&call.resource.shape, &call.resource.kind, &call.resource.api_version());
    let narrowed;
    let config = match part {
        Part::Below(name) => {
            apply::check_config(shape, kind, api_version, config)?;
            narrowed = call.resource.rules.applied_below(name, config);
            &narrowed
        }
        _ => config,
    };
    let mut object = apply::apply(&Apply {
        shape,
        kind,
        live,
        config,
        manager: &options.field_manager,
        force: if options.force.unwrap_or(false) { Force::Yes } else { Force::No },
        api_version,
        versions: &versions.iter().map(String::as_str).collect::<Vec<_>>(),
        subresource: part.subresource(),
        reset: &part.reset(&call.resource),
        now: call.server.now(),
    })?;
    let mut warnings = Vec::new();
    body::typed(&mut object, &call.resource, &Duplicates::default(), options.field_validation, &mut warnings)?;
    call.warn(warnings);
    call.resource.rules.default(&mut object);
    Ok(object)
}
