//! `subPath`: a part of a volume, found without following any link out of it, and held where nobody in the volume can move it.
//!
//! The kernel itself keeps the walk inside (`openat2` with `RESOLVE_BENEATH`), and what is mounted is what was opened: a container that
//! swaps a folder for a link in between gains nothing.

use kernel::mount;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2},
    io::Errno,
};
use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

/// Opens a part of a volume; folders that are missing on the way are made.
fn open(volume: &Path, part: &Path) -> io::Result<OwnedFd> {
    let folder = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let root = rustix::fs::open(volume, folder, Mode::empty())?;
    let any = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(&root, part, any, Mode::empty(), resolve) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    // New folders are as open as the volume itself.
    let mode = Mode::from_raw_mode(fstat(&root)?.st_mode & 0o7777);
    let mut at = openat2(&root, ".", folder, Mode::empty(), resolve)?;
    let mut walked = std::path::PathBuf::new();
    for name in part.components() {
        let Component::Normal(name) = name else { continue };
        walked.push(name);
        match mkdirat(&at, name, mode) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            Ok(()) => {
                // The umask has taken something away.
                let made = openat2(
                    &at,
                    name,
                    OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                    resolve | ResolveFlags::NO_SYMLINKS,
                )?;
                rustix::fs::fchmod(&made, mode)?;
            }
            Err(_) => {}
        }
        // From the root each time: a link on the way may lead anywhere inside.
        at = openat2(&root, &walked, any, Mode::empty(), resolve)?;
    }
    Ok(at)
}

/// Shows a part of a volume at `target`, for a container to be given. Done again, it changes nothing.
pub(super) fn hold(volume: &Path, part: &str, target: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::XDEV.raw_os_error() => {
            format!("failed to prepare subPath {part:?}: it leads out of the volume")
        }
        _ => format!("failed to prepare subPath {part:?}: {error}"),
    };
    let relative = Path::new(part);
    if relative.is_absolute() || relative.components().any(|name| name == Component::ParentDir) {
        return Err(format!("subPath {part:?} must be relative and must not contain \"..\""));
    }
    if mount::is_mounted(target).map_err(wrong)? {
        return Ok(());
    }
    let open = open(volume, relative).map_err(wrong)?;
    let is_folder =
        FileType::from_raw_mode(fstat(&open).map_err(|error| wrong(error.into()))?.st_mode) == FileType::Directory;
    let made = match (is_folder, target.parent()) {
        (true, _) => fs::create_dir_all(target),
        (false, Some(parent)) => fs::create_dir_all(parent)
            .and_then(|()| fs::OpenOptions::new().create(true).append(true).open(target).map(drop)),
        (false, None) => Ok(()),
    };
    made.map_err(wrong)?;
    mount::bind_open(&open, target).map_err(wrong)
}

/// A text in a volume, found the same way; nothing if it is not there.
pub(super) fn read(volume: &Path, part: &str) -> Result<Option<String>, String> {
    use std::io::Read;
    let wrong = |error: io::Error| format!("{part}: {error}");
    let folder = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(volume, folder, Mode::empty()).map_err(|error| wrong(error.into()))?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match openat2(&root, part, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::NOENT) => return Ok(None),
        file => fs::File::from(file.map_err(|error| wrong(error.into()))?),
    };
    let mut text = String::new();
    // As upstream's limit on such files.
    file.take(64 << 10).read_to_string(&mut text).map_err(wrong)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn parts_are_made_and_links_do_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        fs::create_dir_all(volume.join("inner")).unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        symlink("inner", volume.join("link")).unwrap();
        symlink("../secret", volume.join("out")).unwrap();
        symlink("/etc", volume.join("etc")).unwrap();
        symlink("..", volume.join("up")).unwrap();
        for part in ["a/b/c", "link/d", "inner"] {
            open(&volume, Path::new(part)).unwrap();
            assert!(volume.join(part).is_dir(), "{part}");
        }
        assert!(volume.join("inner/d").is_dir());
        for part in ["out", "etc/passwd", "up/x", "etc/new/folder"] {
            let error = open(&volume, Path::new(part)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::XDEV.raw_os_error()), "{part}: {error}");
        }
        assert!(!folder.path().join("x").exists());
        for part in ["/etc", "a/../../x"] {
            let error = hold(&volume, part, &folder.path().join("t")).unwrap_err();
            assert_eq!(error, format!("subPath {part:?} must be relative and must not contain \"..\""));
        }
    }
}
