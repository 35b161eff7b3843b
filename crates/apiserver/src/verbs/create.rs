//! `create`: a new object, or a review that is answered and not kept.

use super::{update::Tracking, write};
use crate::{
    admission,
    answer::Answer,
    call::{Call, Written},
    request::{
        body::{self, Wanted},
        query::{DryRun, Write, WriteOptions},
    },
};
use api::{
    error::ApiError,
    kinds::names,
    object::Fields,
    resource::{Scope, Verbs},
};
use serde_json::Value;

/// How many letters are appended to generateName.
pub(crate) const SUFFIX: usize = 5;
/// A name is at most 63 characters long when it is generated.
const MOST_GENERATED: usize = 63;
/// How often a generated name that is taken is drawn again.
const TRIES: usize = 8;
/// How often addresses and ports are chosen again when other servers on the same store were faster.
const CONTESTS: usize = 64;

/// POST to a collection.
pub async fn create(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let options = WriteOptions::new(&call.query, Write::Create)?;
    if call.resource.scope == Scope::Namespaced && call.request.namespace.is_empty() {
        return Err(call.not_allowed());
    }
    let mut parsed = body::parse(bytes, &call.content_type)?;
    let aside = call.kind().set_aside(&call.server, &mut parsed.value);
    let mut warnings = Vec::new();
    let mut wanted = body::object(parsed, &call.resource, options.field_validation, &mut warnings)?;
    aside.put_back(&mut wanted.object);
    call.warn(warnings);
    if call.resource.verbs == Verbs::CreateOnly {
        return crate::subresource::review(call, wanted.object).await;
    }
    let written = create_object(call, wanted, &options).await?;
    call.object(201, &written).await
}

/// Creates an object that has the shape of its kind. PUT and server-side apply on a missing name come here too.
pub async fn create_object(call: &Call, mut wanted: Wanted, options: &WriteOptions) -> Result<Written, ApiError> {
    let object = &mut wanted.object;
    match_namespace(call, object)?;
    // The store refuses it, which a dry run does not come to.
    if options.dry_run == DryRun::No && !object.str_at("metadata.resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    call.resource.rules.default(object);
    let generated = object.str_at("metadata.name").is_empty() && !object.str_at("metadata.generateName").is_empty();
    for attempt in 1.. {
        let mut candidate = wanted.clone();
        if generated {
            let name = generate(candidate.object.str_at("metadata.generateName"));
            candidate.object.set("metadata.name", name);
        }
        match try_create(call, candidate, options, Tracking::Update).await? {
            Some(written) => return Ok(written),
            None if generated && attempt < TRIES => {}
            None => break,
        }
    }
    Err(ApiError::already_exists(&call.resource.plural, &call.resource.group, wanted.object.str_at("metadata.name")))
}

/// Creates an object that server-side apply has made; none when the name is taken.
pub async fn create_applied(call: &Call, object: Value, options: &WriteOptions) -> Result<Option<Written>, ApiError> {
    try_create(call, object.into(), options, Tracking::Done).await
}

async fn try_create(
    call: &Call,
    wanted: Wanted,
    options: &WriteOptions,
    tracking: Tracking,
) -> Result<Option<Written>, ApiError> {
    for _ in 0..CONTESTS {
        match attempt(call, wanted.clone(), options, tracking).await? {
            write::Put::Done(written) => return Ok(Some(written)),
            write::Put::Outrun => return Ok(None),
            write::Put::Contested => {}
        }
    }
    Err(ApiError::unavailable("what the object needs was taken by others again and again; please try again"))
}

async fn attempt(
    call: &Call,
    mut wanted: Wanted,
    options: &WriteOptions,
    tracking: Tracking,
) -> Result<write::Put, ApiError> {
    write::fill_metadata(call, &mut wanted.object);
    if tracking == Tracking::Update {
        write::track(call, write::Part::Main, None, &mut wanted, options);
    }
    let mut object = wanted.object;
    admission::create(call, &mut object).await?;
    call.resource.rules.prepare_create(&mut object);
    let reserved = call.kind().reserve(call, &mut object, None).await?;
    write::validate_new(call, &object)?;
    admission::check(call, &object, None).await?;
    let reserved = admission::charge(call, &object, None, reserved).await?;
    let key = crate::registry::key(&call.resource, &call.request.namespace, object.str_at("metadata.name"));
    write::put_new(call, key, &object, reserved, options.dry_run).await
}

/// The namespace of the path is the object's; another one in the body is a mistake.
pub fn match_namespace(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    let given = object.str_at("metadata.namespace").to_owned();
    let wanted = match call.resource.scope {
        Scope::Namespaced => call.request.namespace.as_str(),
        Scope::Cluster => "",
    };
    if given.is_empty() && !wanted.is_empty() {
        object.set("metadata.namespace", wanted);
    } else if given != wanted {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object ({given:?}) does not match the namespace sent on the request ({wanted:?})"
        )));
    }
    Ok(())
}

fn generate(base: &str) -> String {
    let cut =
        base.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= MOST_GENERATED - SUFFIX).last();
    let mut name = base[..cut.unwrap_or(0)].to_owned();
    name.push_str(&random_suffix());
    name
}

/// Letters that make a name another one.
pub(crate) fn random_suffix() -> String {
    let mut random = [0_u8; SUFFIX];
    // Without randomness the name is still made; a clash is answered as one.
    let _ = getrandom::fill(&mut random);
    names::safe_letters(random)
}
