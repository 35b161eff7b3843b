//! Which files a cluster starts from. Pure: the same cluster always gives the same text.

mod access;
mod cloud_config;
mod components;
mod flags;
mod manifests;
mod objects;
pub mod yaml;

use crate::Cluster;
use serde_json::json;

/// Where the directory goes on the control plane's machine; paths in the files begin with it.
pub const ROOT: &str = "/etc/kubernetes";
/// Where the API server keeps its state there.
pub(crate) const DATA_DIR: &str = "/var/lib/twinstack";
/// The file that marks a directory as one of ours, and says what `load` must know.
pub(crate) const MARKER: &str = "twinstack-init.json";

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the directory.
    pub path: String,
    pub text: String,
}

impl File {
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// Every file but keys, certificates and kubeconfigs, by path. `version` is that of the program.
pub fn plan(cluster: &Cluster, version: &str) -> Vec<File> {
    let mut files = manifests::files(cluster, version);
    files.extend(components::files(cluster));
    files.extend(objects::files(cluster, version));
    files.extend(cloud_config::text(cluster).map(|text| File::new("cloud-config", text)));
    let marker = json!({"version": version, "cluster": cluster.name, "certificatesDir": cluster.certificates_dir});
    files.push(File::new(MARKER, format!("{marker:#}\n")));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The image of the static pods, in the repository that a file names. `plan` adds the version.
pub(crate) fn default_image(repository: Option<&str>) -> String {
    match repository {
        Some(repository) => format!("{}/twinstack", repository.trim_end_matches('/')),
        None => "localhost/twinstack".to_owned(),
    }
}
