//! From a kubeadm or install-config file to a directory that a cluster starts from.
//!
//! ```text
//! text -> read (documents, fields) -> Cluster -> plan (pure: files) -> directory (written at once)
//! ```
//!
//! `read` reports every mistake of a file together; a `Cluster` has none left. `plan` decides all public files and never
//! does I/O, so that `--dry-run` and the goldens show it. `write` adds keys and certificates and puts everything in place
//! with one rename. `objects` and `settings` are the way back, for `twinstack up --config DIR`. Called by `cli` alone.

mod cluster;
mod directory;
mod documents;
mod fields;
mod gates;
pub mod image;
mod install_config;
mod joining;
mod kubeadm;
mod load;
mod names;
mod notes;
pub mod plan;
mod ranges;
mod secrets;

pub use cluster::{Arg, Aws, Cluster, Etcd, Merge, Node, Platform};
pub use directory::{Overwrite, WriteError, write};
pub use joining::joining;
pub use load::{LoadError, objects, settings};
pub use plan::{File, plan};
pub use secrets::paths as secret_paths;

use notes::Notes;
use runtime::config::Mistakes;
use std::path::Path;

/// What a file asks for, and what in it had no effect.
#[derive(Clone, Debug)]
pub struct Read {
    pub cluster: Cluster,
    /// One line each, for the user.
    pub warnings: Vec<String>,
}

/// The flags that components have. What a file passes to one of them beyond those is left out, with a warning: it would not start.
#[derive(Clone, Copy, Debug)]
pub struct KnownFlags<'a> {
    /// Of `twinstack apiserver`.
    pub api_server: &'a [&'a str],
    /// Of `twinstack controller-manager`.
    pub controller_manager: &'a [&'a str],
}

/// Reads the text of a file; `path` is for messages.
pub fn read(path: &Path, text: &str, known: KnownFlags<'_>) -> Result<Read, Mistakes> {
    let mut notes = Notes::new(path);
    let cluster =
        documents::parse(text, &mut notes).and_then(|documents| match documents::sort(&documents, &mut notes)? {
            documents::Sort::Kubeadm => kubeadm::read(&documents, known, &mut notes),
            documents::Sort::InstallConfig => install_config::read(&documents, &mut notes),
        });
    notes.end(cluster)
}

#[cfg(test)]
mod tests;
