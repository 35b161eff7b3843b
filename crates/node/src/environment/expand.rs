//! `$(NAME)` in values, commands and sub-paths.
//!
//! As upstream: `$$` is a dollar, a name that nobody knows stays as it stands, and so does what is no reference at all.

use k8s_openapi::api::core::v1::Container;

/// Puts values in the place of references.
#[must_use]
pub fn expand(text: &str, variables: &[(String, String)]) -> String {
    expand_by(text, |name| variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
}

/// The same with any way to look names up.
pub(super) fn expand_by(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.chars().next() {
            Some('$') => {
                out.push('$');
                &after[1..]
            }
            Some('(') => match after.find(')') {
                Some(end) => {
                    let name = &after[1..end];
                    out.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
                    &after[end + 1..]
                }
                None => {
                    out.push_str("$(");
                    &after[1..]
                }
            },
            _ => {
                out.push('$');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// The command and the arguments of a container, expanded.
#[must_use]
pub fn command(container: &Container, variables: &[(String, String)]) -> (Vec<String>, Vec<String>) {
    let all = |words: &Option<Vec<String>>| words.iter().flatten().map(|word| expand(word, variables)).collect();
    (all(&container.command), all(&container.args))
}
