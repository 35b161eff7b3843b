//! The process's environment, read once: what names region, credentials and profiles.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// Variables and their values; one that is empty counts as not set.
#[derive(Clone, Default)]
pub(super) struct Environment(Arc<BTreeMap<String, String>>);

impl Environment {
    pub(super) fn of_process() -> Self {
        Self::of(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    pub(super) fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(Arc::new(variables.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A file that a variable names, or else one in the home folder.
    pub(super) fn file(&self, name: &str, in_home: &str) -> Option<PathBuf> {
        let home = || self.get("HOME").map(PathBuf::from);
        match self.get(name) {
            Some(given) => match given.strip_prefix("~/") {
                Some(rest) => Some(home()?.join(rest)),
                None => Some(given.into()),
            },
            None => Some(home()?.join(in_home)),
        }
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }
}

/// Values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
