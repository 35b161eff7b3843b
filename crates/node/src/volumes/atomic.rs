//! Files that change all at once: `..data` leads to the folder that holds them, and moves to the next one when it is whole.
//!
//! As upstream lays it out, because programs look at it: `NAME -> ..data/NAME`, `..data -> ..2026_01_02_03_04_05.678`. Whoever is cut
//! off in between leaves a folder that nothing leads to; the next write removes it.

use super::file::Files;
use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Makes the folder hold these files and no others. `finish` sees the new ones before anybody else does. Says whether anything changed.
pub(super) fn write(
    folder: &Path,
    files: &Files,
    stamp: &str,
    finish: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<bool> {
    let current = fs::read_link(folder.join(DATA)).ok().map(|target| folder.join(target));
    let changes = current.as_deref().is_none_or(|current| differs(current, files));
    let mut kept = current.clone();
    if changes {
        let next = fresh(folder, stamp)?;
        put(&next, files)?;
        finish(&next)?;
        let link = folder.join(NEXT);
        // One that was left by somebody who was cut off.
        let _ = fs::remove_file(&link);
        let name = next.file_name().map(PathBuf::from).unwrap_or_default();
        symlink(name, &link)?;
        fs::rename(&link, folder.join(DATA))?;
        kept = Some(next);
    }
    show(folder, files)?;
    tidy(folder, files, kept.as_deref())?;
    Ok(changes)
}

/// A folder that nobody has yet.
fn fresh(folder: &Path, stamp: &str) -> io::Result<PathBuf> {
    for count in 0_u32.. {
        let path = folder.join(format!("..{stamp}.{count:09}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok(path);
            }
        }
    }
    Err(io::Error::other("there is no free name"))
}

fn put(folder: &Path, files: &Files) -> io::Result<()> {
    for (path, file) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.data)?;
        // After writing: the umask has no say in it.
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
        if let Some(owner) = file.owner {
            chown(&path, Some(owner), None)?;
        }
    }
    Ok(())
}

/// What is there, by path.
fn listed(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            listed(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.insert(name);
        }
    }
    Ok(())
}

/// Whether the folder holds something else. Group bits are left out: `fsGroup` adds to them.
fn differs(folder: &Path, files: &Files) -> bool {
    let mut there = BTreeSet::new();
    if listed(folder, "", &mut there).is_err() || !there.iter().eq(files.keys()) {
        return true;
    }
    files.iter().any(|(path, file)| {
        let path = folder.join(path);
        let mode = fs::metadata(&path).map(|metadata| metadata.permissions().mode());
        let same_mode = mode.is_ok_and(|mode| mode & 0o707 == file.mode & 0o707);
        !same_mode || fs::read(&path).ok().as_deref() != Some(&file.data)
    })
}

/// The first part of each path leads to its place in the current folder.
fn show(folder: &Path, files: &Files) -> io::Result<()> {
    for name in firsts(files) {
        let (link, target) = (folder.join(name), Path::new(DATA).join(name));
        if fs::read_link(&link).ok().as_deref() != Some(&target) {
            symlink(&target, &link)?;
        }
    }
    Ok(())
}

fn firsts(files: &Files) -> BTreeSet<&str> {
    files.keys().filter_map(|path| path.split('/').next()).collect()
}

/// Removes links to what is gone, and folders that are no longer or were never led to.
fn tidy(folder: &Path, files: &Files, current: Option<&Path>) -> io::Result<()> {
    let wanted = firsts(files);
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))?;
        if name == DATA || wanted.contains(name.as_str()) || Some(path.as_path()) == current {
            continue;
        }
        if path.is_symlink() {
            fs::remove_file(&path)?;
        } else if name.starts_with("..") && path.is_dir() {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}
