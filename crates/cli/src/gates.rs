//! `--feature-gates`: upstream's names are known, and each that is given is answered with why nothing follows from it.
//!
//! What a gate switches is here either always on or not there at all; `docs/compat.md` has the list of what is there.

use crate::flag::{Flag, Flags};
use runtime::{config::Settings, suggest};

pub(crate) const FEATURE_GATES: Flag<Vec<(String, bool)>> = Flag::new(
    "feature-gates",
    "NAME=BOOL,...",
    "",
    read,
    "known so that other programs' command lines work; what they switch is always on here or not there",
);

/// As a table, for commands.
pub(crate) const FLAGS: Flags = &[&FEATURE_GATES];

/// Those that stand for many.
const MANY: [&str; 2] = ["AllAlpha", "AllBeta"];

fn read(text: &str) -> Result<Vec<(String, bool)>, String> {
    let mut gates = Vec::new();
    let mut mistakes = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let Some((name, value)) = word.split_once('=') else {
            mistakes.push(format!("{word:?} has no value; accepted: {word}=true, {word}=false"));
            continue;
        };
        match value.trim().to_ascii_lowercase().parse() {
            Ok(value) if KNOWN.contains(&name) || MANY.contains(&name) => gates.push((name.to_owned(), value)),
            Ok(_) => {
                let known = KNOWN.iter().copied().chain(MANY);
                let hint =
                    suggest::nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                mistakes.push(format!("there is no feature gate {name:?}{hint}"));
            }
            Err(_) => mistakes.push(format!("{name}={value} is not accepted; accepted: {name}=true, {name}=false")),
        }
    }
    if mistakes.is_empty() { Ok(gates) } else { Err(mistakes.join("; ")) }
}

/// A line for each gate that was given.
pub(crate) fn idle(given: &mut Settings) -> Vec<String> {
    let gates = given.optional(&FEATURE_GATES).unwrap_or_default();
    let line = |(name, value): (String, bool)| {
        format!("--feature-gates: {name}={value} changes nothing: what it switches is always on here or not there")
    };
    gates.into_iter().map(line).collect()
}

/// Upstream's names, of 1.37 and of all versions that it still knows.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "APIResponseCompression", "APIServerIdentity", "APIServerWebhookAuthenticationToken", "APIServingWithRoutine",
    "AggregatedDiscoveryRemoveBetaType", "AllowDNSOnlyNodeCSR", "AllowInsecureKubeletCertificateSigningRequests",
    "AllowOverwriteTerminationGracePeriodSeconds", "AllowParsingUserUIDFromCertAuth", "AllowServiceExternalIPs",
    "AllowUnsafeMalformedObjectDeletion", "AtomicWriteVolumeUserFields",
    "AuthorizePodWebsocketUpgradeCreatePermission", "CBORServingAndStorage", "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions", "CPUManagerPolicyOptions", "CRIListStreaming", "CSIServiceAccountTokenSecrets",
    "CSIVolumeHealth", "ChangeContainerStatusOnKubeletRestart", "ClearingNominatedNodeNameAfterBinding",
    "ClusterTrustBundle", "ClusterTrustBundleProjection", "ComponentFlagz", "ComponentStatusz", "CompositePodGroup",
    "ConcurrentWatchObjectDecode", "ConsistentListFromCacheSkipTimeoutFallback", "ConstrainedImpersonation",
    "ContainerCheckpoint", "ContainerRestartRules", "ContainerStopSignals", "CoordinatedLeaderElection",
    "CrossNamespaceVolumeDataSource", "CustomCPUCFSQuotaPeriod", "DRAAdminAccess", "DRAConsumableCapacity",
    "DRADerivedAttributes", "DRADeviceBindingConditions", "DRADeviceCompatibilityGroups", "DRADeviceTaintRules",
    "DRADeviceTaints", "DRAExtendedResource", "DRAFractionalCapacityRange", "DRAListTypeAttributes",
    "DRANodeAllocatableResources", "DRAOptionalNodeOperations", "DRAPartitionableDevices",
    "DRAPartitionableDevicesType", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus",
    "DRAResourceClaimGranularStatusAuthorization", "DRAResourcePoolStatus", "DRASchedulerFilterTimeout",
    "DRAWorkloadResourceClaims", "DeclarativeValidation", "DeclarativeValidationBeta",
    "DeclarativeValidationTakeover", "DefaultPodSysctls", "DeploymentReplicaSetTerminatingReplicas",
    "DetectCacheInconsistency", "DisableAllocatorDualWrite", "DisableCPUQuotaWithExclusiveCPUs",
    "DisableNodeKubeProxyVersion", "DynamicResourceAllocation", "EmptyDirVolumeMode", "EnvFiles", "EtcdRangeStream",
    "EventedPLEG", "EvictionRequestAPI", "ExcludeAdmissionWebhookVirtualResources", "ExecProbeTimeout",
    "ExtendWebSocketsToKubelet", "ExternalServiceAccountTokenSigner", "GRPCContainerProbeTLS", "GenericWorkload",
    "GitRepoVolumeDriver", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "H2CContainerProbe",
    "HPAConfigurableTolerance", "HPAGeneration", "HPAOptimizedSelectorStore", "HPAScaleToZero", "HostnameOverride",
    "HugepageAwareEviction", "ImageMaximumGCAge", "ImageVolume", "ImageVolumeWithDigest",
    "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory", "InPlacePodVerticalScalingInitContainers",
    "InPlacePodVerticalScalingMemoryBackedVolumes", "InPlacePodVerticalScalingSchedulerPreemption",
    "InterPodAffinityHostnameFastPath", "JobManagedBy", "KMSv1", "KubeProxyIPVS",
    "KubeProxyNFTablesLocalhostNodePorts", "KubeletAllocatedPodsEndpoint", "KubeletCgroupDriverFromCRI",
    "KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages", "KubeletFineGrainedAuthz",
    "KubeletInUserNamespace", "KubeletPSI", "KubeletPodResourcesDynamicResources", "KubeletPodResourcesGet",
    "KubeletPodResourcesListUseActivePods", "KubeletRegistrationGetOnExistsOnly", "KubeletSeparateDiskGC",
    "KubeletServiceAccountTokenForCredentialProviders", "KubeletTracing", "ListFromCacheSnapshot",
    "LocalStorageCapacityIsolationFSQuotaMonitoring", "ManifestBasedAdmissionControlConfig",
    "MatchLabelKeysInPodAffinity", "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge", "MaxUnavailableStatefulSet", "MemoryQoS",
    "MultiCIDRServiceAllocator", "MutableCSINodeAllocatableCount", "MutablePVNodeAffinity",
    "MutablePodResourcesForSuspendedJobs", "MutableSchedulingDirectivesForSuspendedJobs", "MutatingAdmissionPolicy",
    "NFTablesNetlink", "NFTablesProxyMode", "NativeHistograms", "NodeControllerLeaseCircuitBreaker",
    "NodeDeclaredFeatures", "NodeInclusionPolicyInPodTopologySpread", "NodeLifecycleConditions", "NodeLogQuery",
    "NodeSwap", "NominatedNodeNameForExpectation", "OpenAPIEnums", "OpportunisticBatching", "PLEGOnDemandRelist",
    "PersistentVolumeClaimUnusedSinceTime", "PodAndContainerStatsFromCRI", "PodCertificateRequest",
    "PodDeletionCost", "PodGroupPreemptionPolicy", "PodLevelResourceManagers", "PodLevelResources",
    "PodLevelResourcesFixDefaulting", "PodLevelResourcesFixKubeletQOSClass", "PodLogsQuerySplitStreams",
    "PodObservedGenerationTracking", "PodReadyToStartContainersCondition", "PodSchedulingReadiness",
    "PodTopologyLabelsAdmission", "PodsAPI", "PortForwardWebsockets", "PreferSameTrafficDistribution",
    "ProcMountType", "QOSReserved", "RecoverVolumeExpansionFailure", "RecursiveReadOnlyMounts",
    "ReduceDefaultCrashLoopBackOffDecay", "RelaxedEnvironmentVariableValidation", "RelaxedServiceNameValidation",
    "ReloadKubeletServerCertificateFile", "RemoteRequestHeaderUID", "ResourceHealthStatus",
    "ResourceHealthStatusMessage", "RestartAllContainersOnContainerExits", "RotateKubeletServerCertificate",
    "RuntimeClassInImageCriApi", "SELinuxChangePolicy", "SELinuxMount", "SELinuxMountReadWriteOncePod",
    "SchedulerAsyncAPICalls", "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ", "SchedulerPreQueueingHints",
    "SeparateCacheWatchRPC", "SeparateTaintEvictionController", "ServiceAccountNodeAudienceRestriction",
    "ServiceAccountTokenJTI", "ServiceAccountTokenNodeBinding", "ServiceAccountTokenNodeBindingValidation",
    "ServiceAccountTokenPodNodeInfo", "ServiceCIDRStatusFieldWiping", "ShardedListAndWatch",
    "SizeBasedListCostEstimate", "StaleControllerConsistencyDaemonSet", "StaleControllerConsistencyHPA",
    "StaleControllerConsistencyJob", "StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyStatefulSet",
    "StatefulSetRecreateStrategy", "StatefulSetSemanticRevisionComparison", "StorageCapacityScoring",
    "StorageNamespaceIndex", "StorageVersionAPI", "StorageVersionHash", "StorageVersionMigrator",
    "StrictIPCIDRValidation", "StructuredAuthenticationConfigurationEgressSelector",
    "StructuredAuthenticationConfigurationJWKSMetrics", "SupplementalGroupsPolicy",
    "TaintTolerationComparisonOperators", "TokenRequestServiceAccountUIDValidation",
    "TopologyAwareWorkloadScheduling", "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions", "TranslateStreamCloseWebsocketRequests", "UnauthenticatedHTTP2DOSMitigation",
    "UnknownVersionInteroperabilityProxy", "UserNamespacesHostNetworkSupport", "UserNamespacesSupport",
    "VolumeAttributesClass", "VolumeBindMountOptions", "VolumeLimitScaling", "WatchCacheInitializationPostStartHook",
    "WatchList", "WatchListCompression", "WebhookRoundTripLoadBalancing", "WinDSR", "WinOverlay",
    "WindowsCPUAndMemoryAffinity", "WindowsGracefulNodeShutdown", "WindowsHostNetwork", "WorkloadWithJob",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gates_are_taken_and_unknown_ones_get_a_hint() {
        let known = read("AllAlpha=false, InPlacePodVerticalScaling=TRUE").unwrap();
        assert_eq!(known, [("AllAlpha".to_owned(), false), ("InPlacePodVerticalScaling".to_owned(), true)]);
        assert_eq!(
            read("InPlacePodVerticalScalling=true,AllBeta,AllBeta=maybe,Zzzzz=true").unwrap_err(),
            "there is no feature gate \"InPlacePodVerticalScalling\"; did you mean InPlacePodVerticalScaling?; \
             \"AllBeta\" has no value; accepted: AllBeta=true, AllBeta=false; \
             AllBeta=maybe is not accepted; accepted: AllBeta=true, AllBeta=false; \
             there is no feature gate \"Zzzzz\""
        );
    }
}
