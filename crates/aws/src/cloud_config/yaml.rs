//! A cloud-config as YAML: the sections are keys, a list is a repeated key, parts of a section are keys below it.

use super::gcfg::{Entry, SyntaxError};
use serde_json::Value;

/// Reads YAML (or JSON) to the same entries as the dialect of git's configuration.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    let wrong = |problem: String| SyntaxError { line: 1, problem };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let sections = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(sections) => sections,
        _ => return Err(wrong("neither sections such as [Global] nor YAML with a key global".to_owned())),
    };
    let mut entries = Vec::new();
    for (section, content) in sections {
        let Value::Object(content) = content else {
            return Err(wrong(format!("{section}: must hold keys and values")));
        };
        for (key, value) in content {
            match value {
                Value::Object(inner) => {
                    for (inner_key, value) in inner {
                        push(&mut entries, &section, Some(&key), &inner_key, value)?;
                    }
                }
                value => push(&mut entries, &section, None, &key, value)?,
            }
        }
    }
    Ok(entries)
}

fn push(
    entries: &mut Vec<Entry>,
    section: &str,
    subsection: Option<&str>,
    key: &str,
    value: Value,
) -> Result<(), SyntaxError> {
    let one = |value: Option<String>| Entry {
        section: section.to_owned(),
        subsection: subsection.map(str::to_owned),
        key: key.to_owned(),
        value,
        line: 1,
    };
    match value {
        Value::Null => entries.push(one(Some(String::new()))),
        Value::String(text) => entries.push(one(Some(text))),
        Value::Bool(_) | Value::Number(_) => entries.push(one(Some(value.to_string()))),
        Value::Array(list) => {
            for value in list {
                push(entries, section, subsection, key, value)?;
            }
        }
        Value::Object(_) => {
            return Err(SyntaxError { line: 1, problem: format!("{section}.{key}: lies too deep") });
        }
    }
    Ok(())
}
