//! What belongs to a lab, by names that follow from its data folder: found again by the next start, whoever was killed before.

use runtime::stable_hash;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Names and folders of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Six letters that tell labs of one machine apart.
    pub id: String,
    /// What lasts: images, volumes of Pods, logs.
    pub data: PathBuf,
    /// What ends with the lab: sockets, states of containers, kubeconfigs of nodes.
    pub run: PathBuf,
}

impl Home {
    /// The lab of a data folder.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        let folder = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let folder = folder.canonicalize().unwrap_or(folder);
        let hash = stable_hash(folder.as_os_str().as_encoded_bytes());
        let id = format!("{:06x}", (hash ^ (hash >> 24) ^ (hash >> 48)) & 0xff_ffff);
        // Paths of sockets are short, data folders need not be.
        let run = Path::new("/run/twinstack").join(&id);
        Self { id, data: folder.join("lab"), run }
    }

    /// How names of its namespaces and cgroups begin.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("twinstack-{}-", self.id)
    }

    /// The namespace of a node, or of the bridge.
    #[must_use]
    pub fn namespace(&self, part: &str) -> String {
        format!("{}{part}", self.prefix())
    }

    /// The one interface that the machine gets.
    #[must_use]
    pub fn interface(&self) -> String {
        format!("twin-{}", self.id)
    }

    /// Where a part of a node, or of all, writes what it has to say.
    #[must_use]
    pub fn log(&self, node: &str, part: &str) -> PathBuf {
        self.data.join(node).join(format!("{part}.log"))
    }

    /// Makes this process the only one that works on the lab; `None` when another one does.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        std::fs::create_dir_all(&self.data)?;
        let file = File::options().create(true).append(true).open(self.data.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Held as long as a lab is worked on; the kernel gives it back when its holder is killed.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_folder_and_fit_the_kernel() {
        let home = Home::of(Path::new("/nowhere/twinstack"));
        assert_eq!(home, Home::of(Path::new("/nowhere/twinstack")));
        assert_ne!(home.id, Home::of(Path::new("/nowhere/twinstack-2")).id);
        assert_eq!(home.data, Path::new("/nowhere/twinstack/lab"));
        assert_eq!(home.namespace("node-1"), format!("twinstack-{}-node-1", home.id));
        assert!(home.interface().len() <= 15, "the kernel's limit");
    }
}
