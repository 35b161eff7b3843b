//! Mistakes and warnings of one file, collected while it is read.

use crate::{Read, cluster::Cluster};
use api::path::Path as Field;
use runtime::config::{Mistakes, SettingSource};
use std::path::{Path, PathBuf};

pub(crate) struct Notes {
    path: PathBuf,
    mistakes: Mistakes,
    warnings: Vec<String>,
}

impl Notes {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), mistakes: Mistakes::new("init"), warnings: Vec::new() }
    }

    /// The value at `field` cannot be used.
    pub(crate) fn wrong(&mut self, field: &Field, value: impl Into<String>, problem: impl Into<String>) {
        self.mistakes.add(self.location(field), Some(value.into()), problem);
    }

    /// Something about `field` as such: missing, unknown, not allowed here.
    pub(crate) fn refused(&mut self, field: &Field, problem: impl Into<String>) {
        self.mistakes.add(self.location(field), None, problem);
    }

    /// `field` has no effect, or not the one it may seem to have.
    pub(crate) fn warn(&mut self, field: &Field, text: impl std::fmt::Display) {
        self.warnings.push(format!("{}: {text}", self.location(field)));
    }

    fn location(&self, field: &Field) -> SettingSource {
        let key = Some(field.to_string()).filter(|key| !key.is_empty());
        SettingSource::File { path: self.path.clone(), key }
    }

    /// The cluster, unless there was a mistake. A reader gives none only after noting why.
    pub(crate) fn end(self, cluster: Option<Cluster>) -> Result<Read, Mistakes> {
        let Self { path, mut mistakes, warnings } = self;
        if cluster.is_none() && mistakes.list().is_empty() {
            mistakes.add(SettingSource::File { path, key: None }, None, "describes no cluster");
        }
        mistakes.or(())?;
        cluster.map(|cluster| Read { cluster, warnings }).ok_or_else(|| Mistakes::new("init"))
    }
}
