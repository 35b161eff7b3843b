//! `cargo xtask compat`: writes the table of kinds in docs/compat.md from the table that the API server is built from. A test here
//! says when it was forgotten.

use api::resource::{Resource, Verbs};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

const BEGIN: &str = "<!-- kinds: written by `cargo xtask compat` -->";
const END: &str = "<!-- kinds: end -->";

/// Writes the file.
pub(crate) fn run() -> Result<(), String> {
    let path = path();
    let before = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let after = renewed(&before)?;
    std::fs::write(&path, after).map_err(|error| format!("{}: {error}", path.display()))
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/compat.md"))
}

/// The text with today's table.
fn renewed(text: &str) -> Result<String, String> {
    let missing = |mark: &str| format!("docs/compat.md has no line {mark}");
    let (head, rest) = text.split_once(BEGIN).ok_or_else(|| missing(BEGIN))?;
    let (_, tail) = rest.split_once(END).ok_or_else(|| missing(END))?;
    Ok(format!("{head}{BEGIN}\n{}{END}{tail}", table(&api::kinds::table())))
}

fn table(resources: &[Arc<Resource>]) -> String {
    let mut groups: BTreeMap<String, Vec<&Resource>> = BTreeMap::new();
    for resource in resources {
        groups.entry(resource.api_version()).or_default().push(resource);
    }
    let mut text = String::from("| group and version | kinds | subresources beside `status` |\n|---|---|---|\n");
    // The core group has no name and comes first.
    let mut ordered: Vec<_> = groups.into_iter().collect();
    ordered.sort_by_key(|(version, _)| (version.contains('/'), version.clone()));
    for (version, mut kinds) in ordered {
        kinds.sort_by(|a, b| a.kind.cmp(&b.kind));
        let names: Vec<String> = kinds.iter().map(|resource| name(resource)).collect();
        let below: Vec<String> = kinds
            .iter()
            .flat_map(|resource| {
                resource.subresources.iter().map(move |sub| format!("{}/{}", resource.plural, sub.name()))
            })
            .filter(|path| !path.ends_with("/status"))
            .collect();
        text.push_str(&format!("| {version} | {} | {} |\n", names.join(", "), below.join(", ")));
    }
    text
}

fn name(resource: &Resource) -> String {
    match resource.verbs {
        Verbs::CreateOnly => format!("{} (create)", resource.kind),
        _ => resource.kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_that_of_the_code() {
        let text = std::fs::read_to_string(path()).unwrap();
        assert!(renewed(&text).unwrap() == text, "docs/compat.md is not current: cargo xtask compat");
    }

    #[test]
    fn a_file_without_marks_is_left_alone() {
        assert_eq!(renewed("x").unwrap_err(), format!("docs/compat.md has no line {BEGIN}"));
    }
}
