//! What is known of volumes of drivers, on disk: `vol_data.json` as upstream writes it, so that either kubelet can take over.

use super::super::folder::Root;
use aws_lc_rs::digest::{SHA256, digest as hash};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const FILE: &str = "vol_data.json";

/// SHA-256 in hexadecimal digits.
pub(super) fn digest(text: &str) -> String {
    hash(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(folder: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
}

fn write(folder: &Path, value: &Value) -> io::Result<()> {
    let part = folder.join(format!("{FILE}.part"));
    fs::write(&part, value.to_string())?;
    fs::rename(part, folder.join(FILE))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// A volume that one Pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishedVolume {
    pub(super) name: String,
    pub(super) handle: String,
    pub(super) driver: String,
    pub(super) node: String,
    pub(super) ephemeral: bool,
    pub(super) block: bool,
}

impl PublishedVolume {
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mode = if self.ephemeral { "Ephemeral" } else { "Persistent" };
        let mut value = json!({
            "specVolID": self.name, "volumeHandle": self.handle, "driverName": self.driver, "nodeName": self.node,
            "volumeLifecycleMode": mode,
        });
        if self.block {
            value["twinstackBlock"] = true.into();
        }
        write(folder, &value)
    }

    pub(super) fn read(folder: &Path) -> Option<Self> {
        let value = read(folder)?;
        Some(Self {
            name: text(&value, "specVolID"),
            handle: text(&value, "volumeHandle"),
            driver: text(&value, "driverName"),
            node: text(&value, "nodeName"),
            ephemeral: value["volumeLifecycleMode"] == "Ephemeral",
            block: value["twinstackBlock"] == true,
        })
    }
}

/// A volume that is ready on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StagedVolume {
    pub(super) driver: String,
    pub(super) handle: String,
}

impl StagedVolume {
    pub(super) fn folder(&self, root: &Root) -> PathBuf {
        root.staged(&self.driver, &digest(&self.handle))
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        write(folder, &json!({"driverName": self.driver, "volumeHandle": self.handle}))
    }
}

/// Folders of the volumes that drivers have given to a Pod.
pub(super) fn of_pod(root: &Root, uid: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(root.volume(uid, "csi", "")).into_iter().flatten();
    all.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Whether any Pod still has the volume.
pub(super) fn is_used(root: &Root, volume: &PublishedVolume) -> bool {
    let pods = fs::read_dir(root.pods()).into_iter().flatten().filter_map(Result::ok);
    let mut all = pods.flat_map(|pod| of_pod(root, &pod.file_name().to_string_lossy()));
    all.any(|folder| {
        PublishedVolume::read(&folder)
            .is_some_and(|other| other.driver == volume.driver && other.handle == volume.handle)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_keeps_a_volume_staged() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root(folder.path().to_owned());
        let volume = PublishedVolume {
            name: "pv".into(),
            handle: "h".into(),
            driver: "d.example.test".into(),
            node: "n".into(),
            ephemeral: false,
            block: true,
        };
        assert!(!is_used(&root, &volume));
        let place = root.volume("u-1", "csi", "pv");
        fs::create_dir_all(&place).unwrap();
        volume.write(&place).unwrap();
        assert_eq!(PublishedVolume::read(&place), Some(volume.clone()));
        assert!(is_used(&root, &volume));
        assert_eq!(of_pod(&root, "u-1"), [place]);
        let staged = StagedVolume { driver: "d".into(), handle: "h".into() };
        let want = "plugins/kubernetes.io/csi/d/aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123";
        assert_eq!(staged.folder(&root), folder.path().join(want));
    }
}
