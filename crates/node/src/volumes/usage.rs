//! How much the volumes of a Pod hold, for its statistics and for the limits of `emptyDir`.

use super::{Volumes, kind_of};
use k8s_openapi::api::core::v1::Pod;
use rustix::fs::statvfs;
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// Of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUsage {
    pub name: String,
    pub used: u64,
    pub inodes_used: u64,
    /// Of the file system that it is on.
    pub capacity: u64,
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

impl Volumes {
    /// Of all volumes that live in the Pod's folder. Blocking: files are counted.
    pub fn usage(&self, pod: &Pod) -> Vec<VolumeUsage> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let own = volumes.filter(|volume| {
            volume.empty_dir.is_some()
                || volume.config_map.is_some()
                || volume.secret.is_some()
                || volume.projected.is_some()
                || volume.downward_api.is_some()
        });
        own.filter_map(|volume| of_folder(&volume.name, &self.root.volume(uid, kind_of(volume), &volume.name)))
            .collect()
    }
}

fn of_folder(name: &str, folder: &Path) -> Option<VolumeUsage> {
    let whole = statvfs(folder).ok()?;
    let mut counted = Counted::default();
    counted.add(folder);
    Some(VolumeUsage {
        name: name.to_owned(),
        used: counted.bytes,
        inodes_used: counted.inodes.len() as u64,
        capacity: whole.f_blocks * whole.f_frsize,
        available: whole.f_bavail * whole.f_frsize,
        inodes: whole.f_files,
        inodes_free: whole.f_ffree,
    })
}

#[derive(Default)]
struct Counted {
    bytes: u64,
    /// A file of two names is one file.
    inodes: BTreeSet<(u64, u64)>,
}

impl Counted {
    fn add(&mut self, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if self.inodes.insert((metadata.dev(), metadata.ino())) {
            self.bytes += metadata.blocks() * 512;
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
                self.add(&entry.path());
            }
        }
    }
}
