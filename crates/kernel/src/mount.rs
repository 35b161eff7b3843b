//! Mounts: memory file systems, folders shown in a second place, and which there are. Called by the volumes of a node.

use rustix::{
    fs::CWD,
    io::Errno,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind_recursive,
        mount_change, mount_remount, move_mount, open_tree, unmount,
    },
};
use std::{
    ffi::CString,
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// A file system in memory. `options` are the kernel's, such as `size=1048576,mode=0777`.
pub fn tmpfs(at: &Path, options: &str) -> io::Result<()> {
    file_system("tmpfs", at, options)
}

/// A file system that needs no device.
pub fn file_system(kind: &str, at: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options).map_err(io::Error::other)?;
    Ok(mount(kind, at, kind, MountFlags::empty(), &*options)?)
}

/// Shows what is at `from`, and what is mounted below it, at `to` as well; without writing if so wished.
pub fn bind(from: &Path, to: &Path, read_only: bool) -> io::Result<()> {
    mount_bind_recursive(from, to)?;
    if read_only && let Err(error) = mount_remount(to, MountFlags::BIND | MountFlags::RDONLY, "") {
        // Half a mount would be worse than none.
        let _ = unmount(to, UnmountFlags::DETACH);
        return Err(error.into());
    }
    Ok(())
}

/// Shows what is open at `to`, whatever its path leads to by now.
pub fn bind_open(open: impl AsFd, to: &Path) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = match open_tree(&open, "", flags) {
        // Kernels before 5.2.
        Err(Errno::NOSYS) => {
            use std::os::fd::AsRawFd;
            let magic = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
            return Ok(mount_bind_recursive(magic, to)?);
        }
        tree => tree?,
    };
    Ok(move_mount(&tree, "", CWD, to, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Makes what is mounted at and below a place pass on what is mounted there later.
pub fn share(at: &Path) -> io::Result<()> {
    Ok(mount_change(at, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?)
}

/// Takes a mount away. One that is in use vanishes from sight and ends with its last user.
pub fn detach(at: &Path) -> io::Result<()> {
    match unmount(at, UnmountFlags::NOFOLLOW) {
        Err(Errno::BUSY) => Ok(unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?),
        // Nothing is mounted there.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}

/// Where something is mounted in this place and below, the deepest and latest first.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = points(&fs::read("/proc/self/mountinfo")?);
    found.retain(|point| point.starts_with(folder));
    found.reverse();
    found.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    Ok(found)
}

/// Whether something is mounted in exactly this place.
pub fn is_mounted(at: &Path) -> io::Result<bool> {
    Ok(points(&fs::read("/proc/self/mountinfo")?).iter().any(|point| point == at))
}

/// The fifth word of each line, in which the kernel writes blanks as `\040`.
fn points(mountinfo: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(mountinfo);
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(|word| unescaped(word).into()).collect()
}

fn unescaped(word: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = word.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        let code = rest.get(..3).filter(|_| *first == b'\\').and_then(|octal| std::str::from_utf8(octal).ok());
        match code.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                bytes = &rest[3..];
            }
            None => {
                out.push(*first);
                bytes = rest;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_with_their_blanks() {
        let text = b"36 35 98:0 / /mnt/a rw,noatime master:1 - ext3 /dev/root rw\n37 35 0:5 / /mnt/b\\040c rw - tmpfs tmpfs rw\n";
        assert_eq!(points(text), [PathBuf::from("/mnt/a"), PathBuf::from("/mnt/b c")]);
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/nowhere")).unwrap());
    }
}
