//! An OCI image of programs of this machine: no Docker, no registry, the same bytes each time.
//!
//! Programs come with the shared objects that the loader finds for them, in the places where they are here; beside them there is what
//! a program expects to find: authorities, names of users, a folder for temporary files. The archive is read by containerd, podman, skopeo and docker.

mod libraries;
mod oci;
mod pause;
mod recipe;
mod tar;

pub use oci::{Summary, write};
pub use recipe::Recipe;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Retrying helps after it was installed.
    #[error("{0} is not on the PATH; install it, or leave it out of --with")]
    NoProgram(String),
    /// Retrying helps after it was installed.
    #[error("{program} needs {library}, which is not there")]
    NoLibrary {
        /// Who needs it.
        program: String,
        /// The shared object.
        library: String,
    },
    /// `ldd` is a part of every libc.
    #[error("cannot see which libraries {program} needs: {source}")]
    Libraries {
        /// Who needs them.
        program: String,
        /// What `ldd` said.
        source: kernel::process::ProcessError,
    },
    /// No archive can say it.
    #[error("{0} is too long a path for an archive")]
    LongPath(String),
    /// No program is written for this machine.
    #[error("there is no pause for {0}; known are x86_64 and aarch64")]
    Architecture(&'static str),
    /// It must run in any container.
    #[error("{0} needs {1}: install busybox-static")]
    NotStatic(String, String),
    /// A file changed while it was read: try again.
    #[error("{0} changed while it was read; try again")]
    Changed(String),
    /// A file cannot be read, or the archive not be written.
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
}

/// What an image holds, by path without the first slash.
pub type Tree = BTreeMap<String, Node>;

/// One thing in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// With its permissions.
    Folder(u32),
    /// What is in this file of the machine.
    Copy(PathBuf),
    /// These words.
    Text(&'static str),
    /// A program, byte by byte.
    Program(Vec<u8>),
    /// Leads to another path.
    Link(String),
}

/// What a container of it starts with, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub tree: Tree,
    pub entrypoint: Vec<String>,
    /// Words after the entrypoint, which a Pod's `args` replace.
    pub command: Vec<String>,
}

/// Where twinstack is in an image.
pub const PROGRAM: &str = "/usr/bin/twinstack";
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where the loader finds libraries that are in no usual place.
const CACHE: &str = "/etc/ld.so.cache";
const USERS: &str = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";
const NAMES: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// What every program expects to find.
fn base() -> Tree {
    let mut tree = Tree::from([
        ("etc/group".to_owned(), Node::Text(GROUPS)),
        ("etc/nsswitch.conf".to_owned(), Node::Text(NAMES)),
        ("etc/passwd".to_owned(), Node::Text(USERS)),
        ("run".to_owned(), Node::Folder(0o755)),
        ("tmp".to_owned(), Node::Folder(0o1777)),
    ]);
    for file in [AUTHORITIES, CACHE].into_iter().filter(|file| Path::new(file).exists()) {
        tree.insert(inside(file), Node::Copy(file.into()));
    }
    tree
}

/// Puts a program of this machine where `place` says, and everything that it loads where it is here.
fn add(tree: &mut Tree, program: &Path, place: &str) -> Result<(), ImageError> {
    tree.insert(inside(place), Node::Copy(program.to_owned()));
    for library in libraries::of(program)? {
        tree.insert(inside(&library), Node::Copy(library.into()));
    }
    Ok(())
}

fn inside(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// On the PATH, or where programs for root are, which is not on everybody's.
fn find(name: &str, path: &str) -> Option<PathBuf> {
    let root = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(path).chain(root).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Every folder on the way, so that none depends on who unpacks.
fn with_folders(mut tree: Tree) -> Tree {
    let paths: Vec<String> = tree.keys().cloned().collect();
    for path in paths {
        for (at, _) in path.match_indices('/') {
            tree.entry(path[..at].to_owned()).or_insert(Node::Folder(0o755));
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_what_it_loads_and_the_folders_on_the_way() {
        let own = std::env::current_exe().unwrap();
        let recipe = Recipe::Twinstack { with: vec!["sh".to_owned()] };
        let tree = recipe.image(&own, "/nowhere:/bin:/usr/bin").unwrap().tree;
        assert_eq!(tree["usr/bin/twinstack"], Node::Copy(own));
        assert_eq!(tree["bin/sh"], Node::Copy("/bin/sh".into()));
        assert_eq!((&tree["usr"], &tree["tmp"]), (&Node::Folder(0o755), &Node::Folder(0o1777)));
        assert!(tree.keys().any(|path| path.contains("libc.so")), "{:?}", tree.keys());
        assert!(tree.keys().any(|path| path.contains("/ld-linux")), "{:?}", tree.keys());
        assert!(tree.keys().all(|path| !path.starts_with('/')));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let own = std::env::current_exe().unwrap();
        let recipe = Recipe::Twinstack { with: vec!["no-such-program".to_owned()] };
        let error = recipe.image(&own, "/bin").unwrap_err().to_string();
        assert_eq!(error, "no-such-program is not on the PATH; install it, or leave it out of --with");
    }
}
