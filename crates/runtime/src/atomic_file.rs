//! Files that are either the old or the new content, never half of it. Called by `pki`, `kubeconfig` and whoever
//! renders a configuration that another program reads.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Readable and writable by the owner alone: keys, tokens, kubeconfigs.
pub const PRIVATE: u32 = 0o600;
/// Readable by everyone: certificates, configuration without secrets.
pub const PUBLIC: u32 = 0o644;
/// In such a directory everyone may put files, and remove only their own.
const STICKY: u32 = 0o1000;

/// Replaces `path` with `content`, whatever was there. A symbolic link is replaced, not followed.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = Temporary::write(path, content, mode)?;
    std::fs::rename(&temporary.path, path)?;
    sync_directory(path)
}

/// Writes `path` only if nothing is there; otherwise fails with [`io::ErrorKind::AlreadyExists`] and changes nothing.
/// Of several processes doing this at once exactly one succeeds.
pub fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = Temporary::write(path, content, mode)?;
    // A hard link, unlike a rename, refuses to replace.
    std::fs::hard_link(&temporary.path, path)?;
    sync_directory(path)
}

/// Creates a directory (and its parents) that only the owner may enter. One that exists is left as it is.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes `path` a directory that only the owner may enter, also if it is there already and open to others. One that everyone
/// shares, such as `/tmp`, is not taken over but refused.
pub fn close_directory(path: &Path) -> io::Result<()> {
    private_directory(path)?;
    if path.metadata()?.permissions().mode() & STICKY != 0 {
        let text = "is shared by everyone on this machine (sticky bit); choose a directory of its own";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    restrict(path, 0o700).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let text = "is open to others, and only its owner can close it (chmod 700); let this user own it";
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        }
        _ => error,
    })
}

/// Takes away what `mode` does not give; what is narrower already stays.
pub fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let now = path.metadata()?.permissions().mode() & 0o7777;
    if now & !mode == 0 { Ok(()) } else { std::fs::set_permissions(path, Permissions::from_mode(now & mode)) }
}

/// A finished file beside its target, removed when dropped unless it was renamed away.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn write(target: &Path, content: &[u8], mode: u32) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", target.display()))
        })?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}.{number}.tmp", name.to_string_lossy(), std::process::id());
        let path = target.with_file_name(name);
        // What a crashed process with the same id left behind must not get in the way.
        if path.symlink_metadata().is_ok() {
            std::fs::remove_file(&path)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        let temporary = Self { path };
        // The mode given to open is narrowed by the umask; this one is not.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(temporary)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _gone_after_a_rename = std::fs::remove_file(&self.path);
    }
}

/// Makes the new name survive a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn write_replaces_content_and_mode_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        write(&path, b"old", PUBLIC).unwrap();
        assert_eq!(mode_of(&path), 0o644);
        write(&path, b"new", PRIVATE).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(mode_of(&path), 0o600);
        assert_eq!(names_in(directory.path()), ["config"]);
    }

    #[test]
    fn create_never_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        create(&path, b"first", PRIVATE).unwrap();
        assert_eq!(create(&path, b"second", PRIVATE).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(mode_of(&path), 0o600);
        assert_eq!(names_in(directory.path()), ["key"]);
    }

    #[test]
    fn of_many_creators_exactly_one_wins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let winners = std::thread::scope(|scope| {
            let creators: Vec<_> = (0..8)
                .map(|number| {
                    scope.spawn({
                        let path = &path;
                        move || create(path, &[number], PRIVATE).is_ok()
                    })
                })
                .collect();
            creators.into_iter().map(|creator| creator.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(winners, 1);
        assert_eq!(std::fs::read(&path).unwrap().len(), 1);
    }

    #[test]
    fn private_directories_are_for_the_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        private_directory(&path).unwrap();
        private_directory(&path).unwrap();
        assert_eq!((mode_of(&path), mode_of(path.parent().unwrap())), (0o700, 0o700));
    }

    #[test]
    fn a_directory_that_was_open_is_closed_and_a_shared_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        for (before, after) in [(0o755, 0o700), (0o2775, 0o700), (0o500, 0o500)] {
            close_directory(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            close_directory(&path).unwrap();
            assert_eq!(mode_of(&path), after);
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(close_directory(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(mode_of(&path), 0o777, "and left as it is");
    }

    #[test]
    fn a_path_that_names_no_file_is_refused() {
        assert_eq!(write(Path::new("/"), b"", PRIVATE).unwrap_err().to_string(), "/ names no file");
    }
}
