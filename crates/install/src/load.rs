//! The way back: what a directory that `init` wrote means for a server that starts from it.

use crate::plan::MARKER;
use serde_json::{Map, Value};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Why a directory cannot be started from.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not a directory that `init` wrote.
    #[error("{}: was not written by `twinstack init`: {MARKER} is missing or damaged", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file holds something else than it should.
    #[error("{}: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
}

/// Definitions first, then objects, each in the order of their file names. A file may hold several documents.
pub fn objects(directory: &Path) -> Result<Vec<Value>, LoadError> {
    marker(directory)?;
    let mut all = Vec::new();
    for folder in ["crds", "objects"] {
        let folder = directory.join(folder);
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|source| LoadError::Read { path: folder, source })?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "json"));
        paths.sort();
        for path in paths {
            let damaged = |problem: String| LoadError::Damaged { path: path.clone(), problem };
            let documents: Vec<Option<Value>> =
                serde_saphyr::from_multiple(&text(&path)?).map_err(|error| damaged(error.to_string()))?;
            for document in documents.into_iter().flatten().filter(|document| !document.is_null()) {
                if ["apiVersion", "kind"].iter().any(|field| document[field].as_str().is_none()) {
                    return Err(damaged("is no object: apiVersion or kind is missing".to_owned()));
                }
                all.push(document);
            }
        }
    }
    Ok(all)
}

/// Name and text of the API server's flags. Paths lead into the directory, wherever it lies now; where state is kept is
/// for whoever starts the server to say.
pub fn settings(directory: &Path) -> Result<Vec<(String, String)>, LoadError> {
    let certificates = marker(directory)?;
    let path = directory.join("components/apiserver.yaml");
    let damaged = |problem: String| LoadError::Damaged { path: path.clone(), problem };
    let flags: Map<String, Value> =
        serde_saphyr::from_str(&text(&path)?).map_err(|error| damaged(error.to_string()))?;
    let here = directory.join("pki").display().to_string();
    let mut settings = Vec::new();
    for (name, value) in flags.into_iter().filter(|(name, _)| name != "data-dir") {
        let value = crate::fields::scalar(&value).ok_or_else(|| damaged(format!("{name}: is not a text")))?;
        let moved = match value.strip_prefix(&certificates) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{here}{rest}"),
            _ => value,
        };
        settings.push((name, moved));
    }
    Ok(settings)
}

/// Where the files say that certificates are.
fn marker(directory: &Path) -> Result<String, LoadError> {
    let not_ours = || LoadError::NotOurs { path: directory.to_owned() };
    let content = fs::read(directory.join(MARKER)).map_err(|_| not_ours())?;
    let marker: Value = serde_json::from_slice(&content).map_err(|_| not_ours())?;
    marker["certificatesDir"].as_str().filter(|path| path.starts_with('/')).map(str::to_owned).ok_or_else(not_ours)
}

fn text(path: &Path) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}
