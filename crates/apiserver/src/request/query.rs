//! Query parameters: read once, all mistakes of one request reported together.

use api::{
    error::{ApiError, FieldError},
    path::Path,
};
use std::{collections::HashMap, time::Duration};

/// The parameters of a URL, decoded; of repeated ones the first counts, as upstream does.
#[derive(Clone, Debug, Default)]
pub struct Query(HashMap<String, String>);

impl Query {
    /// Reads the part of a URL after `?`.
    pub fn new(text: Option<&str>) -> Self {
        let mut map = HashMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            map.entry(form_decode(key)).or_insert_with(|| form_decode(value));
        }
        Self(map)
    }

    /// A parameter, empty when it is not there.
    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// How long the answer may take: what `timeout` asks for where that is less than `most`. Zero and less ask for nothing.
    pub fn timeout(&self, most: Duration) -> Result<Duration, ApiError> {
        let text = self.get("timeout");
        if text.is_empty() {
            return Ok(most);
        }
        let nanos = api::go_duration::nanoseconds(text).ok_or_else(|| {
            let accepted = "lengths of time like 30s and 1m30s are accepted";
            ApiError::bad_request(format!(
                "invalid timeout specified in the request URL - invalid duration {text:?}: {accepted}"
            ))
        })?;
        let asked = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        Ok(asked.map_or(most, |asked| asked.min(most)))
    }

    /// A whole number; one that is there and says nothing is none.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let wrong = |text: &String| ApiError::bad_request(format!("{key} {text:?} is not a whole number"));
        self.0.get(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Whether a parameter is set to something other than false: `watch`, `watch=1`, `watch=true`.
    pub fn flag(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

fn form_decode(text: &str) -> String {
    super::info::decode(&text.replace('+', " "))
}

/// How much of a write is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    No,
    /// All but storing.
    All,
}

/// What to do about unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    Warn,
    /// Refuse the request.
    Strict,
}

/// Parameters of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `dryRun`.
    pub dry_run: DryRun,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `fieldManager`, empty when none is named.
    pub field_manager: String,
    /// `force`, of an apply patch.
    pub force: Option<bool>,
}

/// Which kind of write; its name is in the message when a parameter is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH of the three older types.
    Patch,
    /// PATCH by server-side apply.
    Apply,
}

impl WriteOptions {
    /// Reads and checks the parameters of a write.
    pub fn new(query: &Query, write: Write) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let dry_run = match query.get("dryRun") {
            "" => DryRun::No,
            "All" => DryRun::All,
            other => {
                errors.push(FieldError::not_supported(&Path::new("dryRun"), other, &["All"]));
                DryRun::All
            }
        };
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let accepted = ["Ignore", "Strict", "Warn", ""];
                errors.push(FieldError::not_supported(&Path::new("fieldValidation"), other, &accepted));
                FieldValidation::Strict
            }
        };
        let field_manager = query.get("fieldManager").to_owned();
        let path = Path::new("fieldManager");
        if field_manager.chars().count() > 128 {
            errors.push(FieldError::too_long(&path, 128));
        }
        if let Some(odd) = field_manager
            .chars()
            .find(|c| c.is_control() || (!c.is_ascii_graphic() && *c != ' ' && !c.is_alphanumeric()))
        {
            errors.push(FieldError::invalid(
                &path,
                field_manager.as_str(),
                format!("{odd:?} is not a printable character"),
            ));
        }
        if write == Write::Apply && field_manager.is_empty() {
            errors.push(FieldError::required(&path, "is required for apply patch"));
        }
        let force = match query.get("force") {
            "" => None,
            text => Some(matches!(text, "true" | "1" | "True" | "TRUE" | "t" | "T")),
        };
        if force.is_some() && write == Write::Patch {
            errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        if !errors.is_empty() {
            let kind = match write {
                Write::Create => "CreateOptions",
                Write::Update => "UpdateOptions",
                Write::Patch | Write::Apply => "PatchOptions",
            };
            return Err(ApiError::invalid(kind, "meta.k8s.io", "", &errors));
        }
        Ok(Self { dry_run, field_validation, field_manager, force })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_of_a_write_are_reported_at_once() {
        let query = Query::new(Some("dryRun=Some&fieldValidation=Maybe&force=true"));
        let error = WriteOptions::new(&query, Write::Patch).unwrap_err();
        let fields: Vec<_> =
            error.details["causes"].as_array().unwrap().iter().map(|c| c["field"].as_str().unwrap()).collect();
        assert_eq!(error.code, 422);
        assert_eq!(fields, ["dryRun", "fieldValidation", "force"]);
    }

    #[test]
    fn a_request_may_ask_for_less_time_and_not_for_more() {
        let most = Duration::from_secs(60);
        let asked = |text: &str| Query::new(Some(text)).timeout(most);
        for (text, seconds) in [("", 60), ("timeout=", 60), ("timeout=5s", 5), ("timeout=3m", 60), ("timeout=0s", 60)] {
            assert_eq!(asked(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(asked("timeout=-5s").unwrap(), most);
        let error = asked("timeout=invalid").unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                400,
                "invalid timeout specified in the request URL - invalid duration \"invalid\": lengths of time like 30s and \
                 1m30s are accepted"
            )
        );
    }

    #[test]
    fn values_are_decoded() {
        let query = Query::new(Some("labelSelector=a%3Db%2Cc&fieldManager=my+tool&watch"));
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert_eq!(query.get("fieldManager"), "my tool");
        assert!(query.flag("watch"));
        assert!(!Query::new(Some("watch=0")).flag("watch"));
    }
}
