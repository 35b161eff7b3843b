//! What a driver is told of a volume and of the Pod that gets it. Pure.

use super::super::claims::Persistent;
use super::proto::{AccessMode, AccessType, BlockVolume, Mode, MountVolume, VolumeCapability};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::BTreeMap;

/// A volume as a driver knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Volume {
    pub(super) handle: String,
    /// Of the PersistentVolume, or of the volume in the Pod.
    pub(super) name: String,
    pub(super) read_only: bool,
    pub(super) fs_type: String,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) ephemeral: bool,
    pub(super) block: bool,
    pub(super) access_modes: Vec<String>,
    pub(super) mount_options: Vec<String>,
    /// Namespace and name.
    pub(super) stage_secret: Option<(String, String)>,
    pub(super) publish_secret: Option<(String, String)>,
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

impl Volume {
    pub(super) fn read(found: &Persistent, source: &Value, read_only: bool) -> Self {
        let secret = |key: &str| {
            let named = &source[key];
            named.is_object().then(|| (text(named, "namespace"), text(named, "name")))
        };
        Self {
            handle: text(source, "volumeHandle"),
            name: found.name.clone(),
            read_only: read_only || source["readOnly"] == true,
            fs_type: text(source, "fsType"),
            attributes: map(&source["volumeAttributes"]),
            ephemeral: false,
            block: found.block,
            access_modes: found.access_modes.clone(),
            mount_options: found.mount_options.clone(),
            stage_secret: secret("nodeStageSecretRef"),
            publish_secret: secret("nodePublishSecretRef"),
        }
    }

    pub(super) fn capability(&self, mount_group: Option<&str>, finer_modes: bool) -> VolumeCapability {
        let has = |mode: &str| self.access_modes.iter().any(|one| one == mode);
        let mode = if has("ReadWriteMany") {
            Mode::MultiNodeMultiWriter
        } else if has("ReadOnlyMany") {
            Mode::MultiNodeReaderOnly
        } else if has("ReadWriteOncePod") && finer_modes {
            Mode::SingleNodeSingleWriter
        } else if has("ReadWriteOnce") && finer_modes {
            Mode::SingleNodeMultiWriter
        } else {
            Mode::SingleNodeWriter
        };
        let access_type = match self.block {
            true => AccessType::Block(BlockVolume {}),
            false => AccessType::Mount(MountVolume {
                fs_type: self.fs_type.clone(),
                mount_flags: self.mount_options.clone(),
                volume_mount_group: mount_group.unwrap_or_default().to_owned(),
            }),
        };
        VolumeCapability { access_type: Some(access_type), access_mode: Some(AccessMode { mode: mode as i32 }) }
    }
}

/// What a CSIDriver object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    pub(super) attach_required: bool,
    pub(super) pod_info_on_mount: bool,
    pub(super) requires_republish: bool,
    fs_group_policy: String,
    /// Audiences, with how long their tokens live.
    pub(super) tokens: Vec<(String, Option<i64>)>,
}

impl Driver {
    pub(super) fn read(object: Option<&Value>) -> Self {
        let spec = object.map(|object| &object["spec"]).unwrap_or(&Value::Null);
        let policy = text(spec, "fsGroupPolicy");
        let tokens = spec["tokenRequests"].as_array().into_iter().flatten();
        Self {
            attach_required: spec["attachRequired"].as_bool().unwrap_or(true),
            pod_info_on_mount: spec["podInfoOnMount"] == true,
            requires_republish: spec["requiresRepublish"] == true,
            fs_group_policy: if policy.is_empty() { "ReadWriteOnceWithFSType".to_owned() } else { policy },
            tokens: tokens.map(|one| (text(one, "audience"), one["expirationSeconds"].as_i64())).collect(),
        }
    }

    /// Whether files of a volume are given to the Pod's group by the kubelet.
    pub(super) fn changes_group(&self, volume: &Volume) -> bool {
        let writable_once = volume.access_modes.iter().any(|mode| mode.starts_with("ReadWriteOnce"));
        !volume.block
            && match self.fs_group_policy.as_str() {
                "File" => true,
                "None" => false,
                _ => !volume.fs_type.is_empty() && writable_once && !volume.read_only,
            }
    }
}

pub(super) fn fs_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref()?.security_context.as_ref()?;
    u32::try_from(context.fs_group?).ok()
}

pub(super) fn on_root_mismatch(pod: &Pod) -> bool {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|context| context.fs_group_change_policy.as_deref()) == Some("OnRootMismatch")
}

pub(super) fn pod_info(pod: &Pod, ephemeral: bool) -> BTreeMap<String, String> {
    let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
    let account = spec.and_then(|spec| spec.service_account_name.clone());
    let known = [
        ("pod.name", metadata.name.clone()),
        ("pod.namespace", metadata.namespace.clone()),
        ("pod.uid", metadata.uid.clone()),
        ("serviceAccount.name", account),
        ("ephemeral", Some(ephemeral.to_string())),
    ];
    known.into_iter().map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value.unwrap_or_default())).collect()
}

/// The metadata of the attachment of a volume to this node.
pub(super) fn attachment(
    all: &[Value],
    driver: &str,
    node: &str,
    volume: &str,
) -> Result<BTreeMap<String, String>, String> {
    let ours = all.iter().find(|one| {
        let spec = &one["spec"];
        spec["attacher"] == driver && spec["nodeName"] == node && spec["source"]["persistentVolumeName"] == volume
    });
    match ours {
        Some(one) if one["status"]["attached"] == true => Ok(map(&one["status"]["attachmentMetadata"])),
        _ => Err(format!("volume {volume:?} is not yet attached to node {node:?}")),
    }
}

/// The texts of a Secret.
pub(super) fn decoded(secret: &Value) -> BTreeMap<String, String> {
    let pairs = map(&secret["data"]).into_iter();
    let text = |value: String| String::from_utf8_lossy(&BASE64_STANDARD.decode(value).unwrap_or_default()).into_owned();
    pairs.map(|(key, value)| (key, text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::claims::Source;
    use super::*;
    use serde_json::json;

    fn volume(modes: &[&str]) -> Volume {
        let source = json!({"driver": "d", "volumeHandle": "h", "fsType": "ext4", "nodeStageSecretRef": {"namespace": "n", "name": "s"}});
        let found = Persistent {
            name: "pv".into(),
            source: Source::Csi(source.clone()),
            block: false,
            access_modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
            mount_options: Vec::new(),
        };
        Volume::read(&found, &source, false)
    }

    #[test]
    fn access_modes_become_the_drivers() {
        for (modes, finer, want) in [
            (vec!["ReadWriteOnce"], false, Mode::SingleNodeWriter),
            (vec!["ReadWriteOnce"], true, Mode::SingleNodeMultiWriter),
            (vec!["ReadWriteOncePod"], true, Mode::SingleNodeSingleWriter),
            (vec!["ReadOnlyMany"], false, Mode::MultiNodeReaderOnly),
            (vec!["ReadWriteOnce", "ReadWriteMany"], false, Mode::MultiNodeMultiWriter),
            (vec![], false, Mode::SingleNodeWriter),
        ] {
            let mode = volume(&modes).capability(None, finer).access_mode.unwrap().mode;
            assert_eq!(mode, want as i32, "{modes:?}");
        }
        assert_eq!(volume(&[]).stage_secret, Some(("n".to_owned(), "s".to_owned())));
    }

    #[test]
    fn the_group_is_changed_as_the_driver_says() {
        for (policy, modes, want) in [
            (json!({}), vec!["ReadWriteOnce"], true),
            (json!({}), vec!["ReadWriteMany"], false),
            (json!({"spec": {"fsGroupPolicy": "File"}}), vec!["ReadWriteMany"], true),
            (json!({"spec": {"fsGroupPolicy": "None"}}), vec!["ReadWriteOnce"], false),
        ] {
            assert_eq!(Driver::read(Some(&policy)).changes_group(&volume(&modes)), want, "{policy}");
        }
        assert!(Driver::read(None).attach_required);
    }

    #[test]
    fn an_attachment_counts_when_it_is_done() {
        let one = |attached: bool| {
            json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
                   "status": {"attached": attached, "attachmentMetadata": {"device": "/dev/x"}}})
        };
        let want = BTreeMap::from([("device".to_owned(), "/dev/x".to_owned())]);
        assert_eq!(attachment(&[one(true)], "d", "n", "pv"), Ok(want));
        let late = Err("volume \"pv\" is not yet attached to node \"n\"".to_owned());
        assert_eq!(attachment(&[one(false)], "d", "n", "pv"), late);
        assert!(attachment(&[one(true)], "d", "other", "pv").is_err());
    }
}
