//! `hostPath`: whether what is in that place is what was asked for; made where the type says so.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
};

/// Looks, and makes a folder or an empty file for the types that end in `OrCreate`.
pub(super) fn check(path: &Path, kind: &str) -> Result<(), String> {
    let found = match fs::metadata(path) {
        Ok(metadata) => Some(metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let made = |made: io::Result<()>| made.map_err(|error| format!("{}: {error}", path.display()));
    let is = |holds: fn(&fs::FileType) -> bool, what: &str| match found.as_ref().is_some_and(holds) {
        true => Ok(()),
        false => Err(format!("hostPath type check failed: {} is not {what}", path.display())),
    };
    match kind {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => made(fs::create_dir_all(path).and_then(|()| mode(path, 0o755))),
        "FileOrCreate" if found.is_none() => made(fs::File::create(path).and_then(|_| mode(path, 0o644))),
        "Directory" | "DirectoryOrCreate" => is(fs::FileType::is_dir, "a directory"),
        "File" | "FileOrCreate" => is(fs::FileType::is_file, "a file"),
        "Socket" => is(FileTypeExt::is_socket, "a socket file"),
        "CharDevice" => is(FileTypeExt::is_char_device, "a character device"),
        "BlockDevice" => is(FileTypeExt::is_block_device, "a block device"),
        other => Err(format!("{other} is an invalid volume type")),
    }
}

fn mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
