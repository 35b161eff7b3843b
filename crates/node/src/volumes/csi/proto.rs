//! The messages of CSI v1 and of plugin registration that a node uses, field by field as in `csi.proto` and `api.proto`.
//!
//! Written by hand so that no build needs protoc. Fields that are never set nor read are left out; protobuf skips them.

use crate::cri::proto::Rpc;
use prost::{Enumeration, Message, Oneof};
use std::collections::BTreeMap;

macro_rules! rpc {
    ($($request:ident -> $answer:ident, $path:literal;)+) => {$(
        impl Rpc for $request {
            const PATH: &'static str = $path;
            type Answer = $answer;
        }
    )+};
}

rpc! {
    NodeStageVolumeRequest -> Nothing, "/csi.v1.Node/NodeStageVolume";
    NodeUnstageVolumeRequest -> Nothing, "/csi.v1.Node/NodeUnstageVolume";
    NodePublishVolumeRequest -> Nothing, "/csi.v1.Node/NodePublishVolume";
    NodeUnpublishVolumeRequest -> Nothing, "/csi.v1.Node/NodeUnpublishVolume";
    NodeGetCapabilitiesRequest -> NodeGetCapabilitiesResponse, "/csi.v1.Node/NodeGetCapabilities";
    NodeGetInfoRequest -> NodeGetInfoResponse, "/csi.v1.Node/NodeGetInfo";
    InfoRequest -> PluginInfo, "/pluginregistration.Registration/GetInfo";
    RegistrationStatus -> Nothing, "/pluginregistration.Registration/NotifyRegistrationStatus";
}

/// An answer that says no more than that it worked.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BlockVolume {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MountVolume {
    #[prost(string, tag = "1")]
    pub(super) fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) mount_flags: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) volume_mount_group: String,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AccessType {
    #[prost(message, tag = "1")]
    Block(BlockVolume),
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum Mode {
    Unknown = 0,
    SingleNodeWriter = 1,
    MultiNodeReaderOnly = 3,
    MultiNodeMultiWriter = 5,
    SingleNodeSingleWriter = 6,
    SingleNodeMultiWriter = 7,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AccessMode {
    #[prost(enumeration = "Mode", tag = "1")]
    pub(super) mode: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VolumeCapability {
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub(super) access_type: Option<AccessType>,
    #[prost(message, optional, tag = "3")]
    pub(super) access_mode: Option<AccessMode>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeStageVolumeRequest {
    #[prost(string, tag = "1")]
    pub(super) volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub(super) volume_capability: Option<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(super) secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(super) volume_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeUnstageVolumeRequest {
    #[prost(string, tag = "1")]
    pub(super) volume_id: String,
    #[prost(string, tag = "2")]
    pub(super) staging_target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodePublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub(super) volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) staging_target_path: String,
    #[prost(string, tag = "4")]
    pub(super) target_path: String,
    #[prost(message, optional, tag = "5")]
    pub(super) volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub(super) readonly: bool,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(super) secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(super) volume_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeUnpublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub(super) volume_id: String,
    #[prost(string, tag = "2")]
    pub(super) target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeGetCapabilitiesRequest {}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum RpcType {
    Unknown = 0,
    StageUnstageVolume = 1,
    GetVolumeStats = 2,
    ExpandVolume = 3,
    VolumeCondition = 4,
    SingleNodeMultiWriter = 5,
    VolumeMountGroup = 6,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CapabilityRpc {
    #[prost(enumeration = "RpcType", tag = "1")]
    pub(super) r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeServiceCapability {
    #[prost(message, optional, tag = "1")]
    pub(super) rpc: Option<CapabilityRpc>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeGetCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) capabilities: Vec<NodeServiceCapability>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeGetInfoRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Topology {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(super) segments: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeGetInfoResponse {
    #[prost(string, tag = "1")]
    pub(super) node_id: String,
    #[prost(int64, tag = "2")]
    pub(super) max_volumes_per_node: i64,
    #[prost(message, optional, tag = "3")]
    pub(super) accessible_topology: Option<Topology>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InfoRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PluginInfo {
    #[prost(string, tag = "1")]
    pub(super) r#type: String,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) endpoint: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) supported_versions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RegistrationStatus {
    #[prost(bool, tag = "1")]
    pub(super) plugin_registered: bool,
    #[prost(string, tag = "2")]
    pub(super) error: String,
}
