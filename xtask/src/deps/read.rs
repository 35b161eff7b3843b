//! The facts that the rules look at: crates with their edges and sources, and the table of third-party crates.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The whole workspace.
pub(super) struct Workspace {
    pub(super) crates: Vec<Crate>,
    /// Root manifest, whose `[workspace.dependencies]` is the table.
    pub(super) manifest: String,
}

/// One of our crates.
pub(super) struct Crate {
    pub(super) name: String,
    /// Text of its manifest.
    pub(super) manifest: String,
    /// Our own crates that it uses, tests included. Tests may also use the API server, to run a component against the real one.
    pub(super) uses: Vec<String>,
    /// Path below the crate and text of each Rust file.
    pub(super) sources: Vec<(String, String)>,
    pub(super) has_build_script: bool,
}

pub(super) fn workspace() -> Result<Workspace, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = PathBuf::from(text(&metadata, "workspace_root")?);
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let crates = packages.iter().map(|package| read_crate(package, &ours)).collect::<Result<_, _>>()?;
    Ok(Workspace { crates, manifest: read(&root.join("Cargo.toml"))? })
}

fn read_crate(package: &Value, ours: &[&str]) -> Result<Crate, String> {
    let manifest_path = PathBuf::from(text(package, "manifest_path")?);
    let folder = manifest_path.parent().ok_or("a manifest without a folder")?;
    let uses = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| !(dependency["kind"] == "dev" && dependency["name"] == "apiserver"))
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| ours.contains(name))
        .map(str::to_owned)
        .collect();
    let mut sources = Vec::new();
    collect(folder, folder, &mut sources)?;
    let has_build_script = package["targets"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|target| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"custom-build".into())));
    Ok(Crate { name: text(package, "name")?, manifest: read(&manifest_path)?, uses, sources, has_build_script })
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<(String, String)>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            sources.push((name, read(&path)?));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value[key].as_str().map(str::to_owned).ok_or_else(|| format!("cargo metadata: no {key}"))
}
