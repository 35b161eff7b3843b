//! Where volumes are on the node, as upstream has it: `ROOT/pods/UID/volumes/kubernetes.io~KIND/NAME`.
//!
//! Drivers, backup programs and people know these paths, and a node may be handed from one kubelet to another.

use std::path::PathBuf;

/// The folder that everything of Pods is below.
#[derive(Clone, Debug)]
pub(super) struct Root(pub(super) PathBuf);

impl Root {
    pub(super) fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// `kind` is upstream's name of the plugin, without what all of them begin with.
    pub(super) fn volume(&self, uid: &str, kind: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(format!("kubernetes.io~{kind}")).join(name)
    }

    /// Where a driver shows a volume to a Pod; what is known of it lies beside.
    pub(super) fn published(&self, uid: &str, name: &str) -> PathBuf {
        self.volume(uid, "csi", name).join("mount")
    }

    /// Where a block device of a driver is shown to a Pod.
    pub(super) fn published_device(&self, uid: &str, name: &str) -> PathBuf {
        self.volume(uid, "csi", name).join("device")
    }

    pub(super) fn sub_path(&self, uid: &str, volume: &str, container: &str, index: usize) -> PathBuf {
        self.pod(uid).join("volume-subpaths").join(volume).join(container).join(index.to_string())
    }

    /// Where a driver makes a volume ready for all Pods of the node.
    pub(super) fn staged(&self, driver: &str, digest: &str) -> PathBuf {
        self.0.join("plugins/kubernetes.io/csi").join(driver).join(digest)
    }

    /// Where drivers leave a socket by which they can be asked for their name.
    pub(super) fn registrations(&self) -> PathBuf {
        self.0.join("plugins_registry")
    }
}
