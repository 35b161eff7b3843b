//! `list`: a consistent page of objects, copied from their stored bytes.

use crate::{
    answer::{self, Answer, Page},
    call::Call,
    definitions::conversion,
    select::Selection,
    stored,
};
use api::{
    error::{ApiError, FieldError},
    path::Path,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use store::ReadError;

/// Entries taken from the store at a time while selectors thin them out.
const STEP: usize = 1000;

/// What a client says about the version it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// Nothing: the most recent one.
    Latest,
    /// "0": whatever is at hand.
    Any,
    /// A number.
    At(u64),
}

/// Reads a resourceVersion.
pub fn parse_revision(text: &str) -> Result<Revision, ApiError> {
    match text {
        "" => Ok(Revision::Latest),
        "0" => Ok(Revision::Any),
        text => text.parse().map(Revision::At).map_err(|_| {
            ApiError::bad_request(format!(
                "resourceVersion {text:?} is not a number; leave it out, or use one that the server gave"
            ))
        }),
    }
}

/// Waits until the state at hand is as new as the client asks for; refuses what the store has not come to.
pub async fn wait_for(call: &Call, revision: &Revision) -> Result<(), ApiError> {
    match *revision {
        Revision::Any => Ok(()),
        Revision::Latest => latest(call).await.map(drop),
        Revision::At(wanted) => {
            let mut current = call.server.store.known_revision();
            if current < wanted {
                current = latest(call).await?;
            }
            // No server of this store has told such a revision yet: it is of another history, perhaps one that a backup has
            // replaced. Who waited for it would be shown that history as the end of its own.
            if current >= wanted {
                return Ok(());
            }
            Err(ApiError::timeout(format!("Too large resource version: {wanted}, current: {current}"))
                .with_details(json!({"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]})))
        }
    }
}

async fn latest(call: &Call) -> Result<u64, ApiError> {
    call.server.store.revision().await.map_err(|error| ApiError::unavailable(error.to_string()))
}

/// A page to continue after.
struct Continue {
    revision: u64,
    start: String,
}

impl Continue {
    fn parse(token: &str) -> Result<Self, ApiError> {
        let bad = || ApiError::bad_request("continue key is not valid: use the token of the previous page as it is");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err(bad());
        }
        let revision = value["rv"].as_u64().ok_or_else(bad)?;
        let start = value["start"].as_str().filter(|start| !start.contains("..")).ok_or_else(bad)?;
        Ok(Self { revision, start: start.trim_end_matches('\0').to_owned() })
    }

    fn token(revision: u64, start: &str) -> String {
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": format!("{start}\0")}).to_string())
    }
}

/// GET of a collection.
pub async fn list(call: &Call) -> Result<Answer, ApiError> {
    let page = read(call).await?;
    let whole = ["labelSelector", "fieldSelector", "continue"].iter().all(|name| call.query.get(name).is_empty());
    if let Some(fairness) = call.server.fairness.as_ref().filter(|_| whole) {
        let more = usize::try_from(page.remaining.unwrap_or_default()).unwrap_or(usize::MAX);
        fairness.widths.note(&call.key(), page.entries.len().saturating_add(more));
    }
    answer::list(call, &page)
}

/// Reads the page that the query asks for.
pub async fn read(call: &Call) -> Result<Page, ApiError> {
    let query = &call.query;
    let limit = query.number("limit")?.unwrap_or_default();
    let selection = Selection::new(call)?;
    let revision = parse_revision(query.get("resourceVersion"))?;
    // As upstream, which has whatever is at hand in one piece, in a cache that what expires never enters; less than nothing
    // is no limit.
    let cached = !call.resource.rules.expires();
    let whole = cached && revision == Revision::Any && query.get("continue").is_empty();
    let limit = if whole { 0 } else { usize::try_from(limit).unwrap_or_default() };
    check_match(query.get("resourceVersionMatch"), query.get("resourceVersion"), query.get("continue"))?;
    let (at, start) = match query.get("continue") {
        "" => {
            wait_for(call, &revision).await?;
            let exact = query.get("resourceVersionMatch") == "Exact"
                || (limit > 0 && query.get("resourceVersionMatch").is_empty());
            match revision {
                Revision::At(wanted) if exact => (Some(wanted), None),
                _ => (None, None),
            }
        }
        token => {
            if revision != Revision::Latest && revision != Revision::Any {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            let token = Continue::parse(token)?;
            (Some(token.revision), Some(token.start))
        }
    };
    collect(call, &selection, limit, at, start).await
}

async fn collect(
    call: &Call,
    selection: &Selection,
    limit: usize,
    at: Option<u64>,
    start: Option<String>,
) -> Result<Page, ApiError> {
    let range = selection.range(call);
    let prefix = &range.prefix;
    let mut after = start.map(|start| format!("{prefix}{start}"));
    let mut page = Page { entries: Vec::new(), revision: 0, next: None, remaining: None };
    let mut at = at;
    loop {
        let step = range.limit((limit > 0).then(|| if selection.is_everything() { limit } else { STEP }));
        let tagged = range.tag.as_deref().filter(|_| limit == 0 && at.is_none());
        let got = match tagged {
            Some(tag) => call.server.store.list_tagged(prefix, tag),
            None => {
                let got = call.server.store.list(prefix, after.as_deref(), step, at).await;
                got.map_err(|error| gone(&error, call))?
            }
        };
        page.revision = got.revision;
        at = Some(got.revision);
        let (entries, remaining) = (got.entries, got.remaining);
        let entries = conversion::entries(&call.server, &call.resource, entries).await?;
        for (index, entry) in entries.iter().enumerate() {
            if !range.covers(entry.key()) {
                return Ok(page);
            }
            stored::readable(entry)?;
            if selection.matches(call, entry) {
                page.entries.push(entry.clone());
            }
            if limit > 0 && page.entries.len() == limit {
                let left = (entries.len() - index - 1) as u64 + remaining as u64;
                if left > 0 && !range.single {
                    page.next = Some(Continue::token(got.revision, &entry.key()[prefix.len()..]));
                    page.remaining = selection.is_everything().then_some(left);
                }
                return Ok(page);
            }
        }
        match got.more.filter(|_| !range.single) {
            Some(last) => after = Some(last.to_string()),
            None => return Ok(page),
        }
    }
}

/// 410 when the revision is compacted; a fresh token lets a client go on without consistency.
fn gone(error: &ReadError, call: &Call) -> ApiError {
    match error {
        ReadError::Compacted { .. } => {
            let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.";
            let start = Continue::parse(call.query.get("continue")).map(|token| token.start).unwrap_or_default();
            let token = Continue::token(call.server.store.known_revision(), &start);
            ApiError::expired(message).with_metadata(json!({"continue": token}))
        }
        ReadError::FutureRevision { requested, current } => {
            ApiError::timeout(format!("Too large resource version: {requested}, current: {current}"))
        }
        ReadError::Unavailable(why) => ApiError::unavailable(why.to_string()),
    }
}

fn check_match(mode: &str, revision: &str, token: &str) -> Result<(), ApiError> {
    if mode.is_empty() {
        return Ok(());
    }
    let path = Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if revision.is_empty() {
        errors
            .push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if !token.is_empty() {
        errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if mode != "Exact" && mode != "NotOlderThan" {
        errors.push(FieldError::not_supported(&path, mode, &["Exact", "NotOlderThan", ""]));
    }
    if mode == "Exact" && revision == "0" {
        errors.push(FieldError::forbidden(
            &path,
            "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
        ));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", &errors)) }
}
