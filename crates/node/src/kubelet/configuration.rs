//! The kubelet's own configuration file (`kind: KubeletConfiguration`) in terms of this program's flags. Pure.
//!
//! Called by the command for the file of `--config` and those of `--config-dir`, so that what kubeadm and others wrote works as it is.

use runtime::config::document::{
    Document,
    Effect::{Flag, None as Nothing, Only},
    Field,
    Shape::{Any, Number, Pairs, Seconds, Switch, Taints, Text, Texts, Time, Whole},
};

/// What such a file can say.
pub const DOCUMENT: Document =
    Document { kind: "KubeletConfiguration", version: "kubelet.config.k8s.io/v1beta1", fields: FIELDS, mode: None };

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    Field::new("enableServer", Switch, Only(&["true"])),
    Field::new("staticPodPath", Text, Flag("pod-manifest-path")),
    Field::new("podLogsDir", Text, Flag("pod-logs-dir")),
    Field::new("syncFrequency", Time, Nothing),
    Field::new("fileCheckFrequency", Time, Flag("file-check-frequency")),
    Field::new("httpCheckFrequency", Time, Nothing),
    Field::new("staticPodURL", Text, Only(&[])),
    Field::new("staticPodURLHeader", Any, Nothing),
    Field::new("address", Text, Flag("address")),
    Field::new("port", Whole, Flag("port")),
    Field::new("readOnlyPort", Whole, Nothing),
    Field::new("tlsCertFile", Text, Flag("tls-cert-file")),
    Field::new("tlsPrivateKeyFile", Text, Flag("tls-private-key-file")),
    Field::new("tlsCipherSuites", Texts, Nothing),
    Field::new("tlsCurvePreferences", Any, Nothing),
    Field::new("tlsMinVersion", Text, Nothing),
    Field::new("rotateCertificates", Switch, Flag("rotate-certificates")),
    Field::new("serverTLSBootstrap", Switch, Flag("rotate-server-certificates")),
    Field::new("authentication.x509.clientCAFile", Text, Flag("client-ca-file")),
    Field::new("authentication.webhook.enabled", Switch, Only(&["true"])),
    Field::new("authentication.webhook.cacheTTL", Time, Nothing),
    Field::new("authentication.anonymous.enabled", Switch, Flag("anonymous-auth")),
    Field::new("authorization.mode", Text, Flag("authorization-mode")),
    Field::new("authorization.webhook.cacheAuthorizedTTL", Time, Nothing),
    Field::new("authorization.webhook.cacheUnauthorizedTTL", Time, Nothing),
    Field::new("registryPullQPS", Whole, Nothing),
    Field::new("registryBurst", Whole, Nothing),
    Field::new("imagePullCredentialsVerificationPolicy", Any, Nothing),
    Field::new("preloadedImagesVerificationAllowlist", Texts, Nothing),
    Field::new("eventRecordQPS", Whole, Nothing),
    Field::new("eventBurst", Whole, Nothing),
    Field::new("enableDebuggingHandlers", Switch, Nothing),
    Field::new("enableContentionProfiling", Switch, Nothing),
    Field::new("healthzPort", Whole, Flag("healthz-port")),
    Field::new("healthzBindAddress", Text, Flag("healthz-bind-address")),
    Field::new("oomScoreAdj", Whole, Nothing),
    Field::new("clusterDomain", Text, Flag("cluster-domain")),
    Field::new("clusterDNS", Texts, Flag("cluster-dns")),
    Field::new("streamingConnectionIdleTimeout", Time, Nothing),
    Field::new("nodeStatusUpdateFrequency", Time, Flag("node-status-update-frequency")),
    Field::new("nodeStatusReportFrequency", Time, Flag("node-status-report-frequency")),
    Field::new("nodeLeaseDurationSeconds", Seconds, Flag("node-lease-duration")),
    Field::new("imageMinimumGCAge", Time, Flag("minimum-image-ttl-duration")),
    Field::new("imageMaximumGCAge", Time, Nothing),
    Field::new("imageGCHighThresholdPercent", Whole, Flag("image-gc-high-threshold")),
    Field::new("imageGCLowThresholdPercent", Whole, Flag("image-gc-low-threshold")),
    Field::new("volumeStatsAggPeriod", Time, Nothing),
    Field::new("kubeletCgroups", Text, Nothing),
    Field::new("systemCgroups", Text, Nothing),
    Field::new("cgroupRoot", Text, Flag("cgroup-root")),
    Field::new("cgroupsPerQOS", Switch, Only(&["true"])),
    Field::new("cgroupDriver", Text, Only(&["cgroupfs"])),
    Field::new("cpuManagerPolicy", Text, Only(&["none"])),
    Field::new("singleProcessOOMKill", Switch, Nothing),
    Field::new("cpuManagerPolicyOptions", Any, Nothing),
    Field::new("cpuManagerReconcilePeriod", Time, Nothing),
    Field::new("memoryManagerPolicy", Text, Only(&["None"])),
    Field::new("topologyManagerPolicy", Text, Only(&["none"])),
    Field::new("topologyManagerScope", Text, Nothing),
    Field::new("topologyManagerPolicyOptions", Any, Nothing),
    Field::new("qosReserved", Any, Nothing),
    Field::new("runtimeRequestTimeout", Time, Nothing),
    Field::new("hairpinMode", Text, Nothing),
    Field::new("maxPods", Whole, Flag("max-pods")),
    Field::new("podCIDR", Text, Flag("pod-cidr")),
    Field::new("podPidsLimit", Whole, Nothing),
    Field::new("resolvConf", Text, Flag("resolv-conf")),
    Field::new("runOnce", Switch, Only(&["false"])),
    Field::new("cpuCFSQuota", Switch, Nothing),
    Field::new("cpuCFSQuotaPeriod", Time, Nothing),
    Field::new("nodeStatusMaxImages", Whole, Nothing),
    Field::new("maxOpenFiles", Whole, Nothing),
    Field::new("contentType", Text, Nothing),
    Field::new("kubeAPIQPS", Whole, Nothing),
    Field::new("kubeAPIBurst", Whole, Nothing),
    Field::new("serializeImagePulls", Switch, Nothing),
    Field::new("maxParallelImagePulls", Whole, Nothing),
    Field::new("evictionHard", Pairs('<'), Flag("eviction-hard")),
    Field::new("evictionSoft", Any, Nothing),
    Field::new("evictionSoftGracePeriod", Any, Nothing),
    Field::new("evictionPressureTransitionPeriod", Time, Nothing),
    Field::new("evictionMaxPodGracePeriod", Whole, Nothing),
    Field::new("evictionMinimumReclaim", Any, Nothing),
    Field::new("mergeDefaultEvictionSettings", Switch, Nothing),
    Field::new("podsPerCore", Whole, Nothing),
    Field::new("enableControllerAttachDetach", Switch, Nothing),
    Field::new("protectKernelDefaults", Switch, Nothing),
    Field::new("makeIPTablesUtilChains", Switch, Nothing),
    Field::new("iptablesMasqueradeBit", Whole, Nothing),
    Field::new("iptablesDropBit", Whole, Nothing),
    Field::new("featureGates", Any, Nothing),
    Field::new("failSwapOn", Switch, Nothing),
    Field::new("memorySwap", Any, Nothing),
    Field::new("containerLogMaxSize", Text, Flag("container-log-max-size")),
    Field::new("containerLogMaxFiles", Whole, Flag("container-log-max-files")),
    Field::new("containerLogMaxWorkers", Whole, Nothing),
    Field::new("containerLogMonitorInterval", Time, Nothing),
    Field::new("configMapAndSecretChangeDetectionStrategy", Any, Nothing),
    Field::new("systemReserved", Pairs('='), Flag("system-reserved")),
    Field::new("kubeReserved", Pairs('='), Flag("kube-reserved")),
    Field::new("reservedSystemCPUs", Text, Nothing),
    Field::new("showHiddenMetricsForVersion", Text, Nothing),
    Field::new("systemReservedCgroup", Text, Nothing),
    Field::new("kubeReservedCgroup", Text, Nothing),
    Field::new("enforceNodeAllocatable", Texts, Nothing),
    Field::new("allowedUnsafeSysctls", Texts, Flag("allowed-unsafe-sysctls")),
    Field::new("defaultPodSysctls", Any, Nothing),
    Field::new("volumePluginDir", Text, Nothing),
    Field::new("providerID", Text, Flag("provider-id")),
    Field::new("kernelMemcgNotification", Switch, Nothing),
    Field::new("logging.format", Text, Flag("log-format")),
    Field::new("logging.verbosity", Whole, Flag("log-level")),
    Field::new("logging.flushFrequency", Any, Nothing),
    Field::new("logging.vmodule", Any, Nothing),
    Field::new("logging.options", Any, Nothing),
    Field::new("enableSystemLogHandler", Switch, Nothing),
    Field::new("enableSystemLogQuery", Switch, Nothing),
    Field::new("shutdownGracePeriod", Time, Nothing),
    Field::new("shutdownGracePeriodCriticalPods", Time, Nothing),
    Field::new("shutdownGracePeriodByPodPriority", Any, Nothing),
    Field::new("crashLoopBackOff", Any, Nothing),
    Field::new("reservedMemory", Any, Nothing),
    Field::new("enableProfilingHandler", Switch, Nothing),
    Field::new("enableDebugFlagsHandler", Switch, Nothing),
    Field::new("seccompDefault", Switch, Flag("seccomp-default")),
    Field::new("memoryThrottlingFactor", Number, Nothing),
    Field::new("memoryReservationPolicy", Any, Nothing),
    Field::new("registerWithTaints", Taints, Flag("register-with-taints")),
    Field::new("registerNode", Switch, Flag("register-node")),
    Field::new("tracing", Any, Nothing),
    Field::new("localStorageCapacityIsolation", Switch, Nothing),
    Field::new("containerRuntimeEndpoint", Text, Flag("container-runtime-endpoint")),
    Field::new("imageServiceEndpoint", Text, Nothing),
    Field::new("failCgroupV1", Switch, Nothing),
    Field::new("userNamespaces", Any, Nothing),
];

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::config::document::Read;

    fn file(more: &str) -> Read {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{more}");
        DOCUMENT.read(&Document::parse(text.as_bytes()).expect("one of this kind"))
    }

    /// As kubeadm writes it, but for the cgroup driver.
    const KUBEADM: &str = "
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: cgroupfs
clusterDNS: [10.96.0.10, 'fd00:10:96::a']
clusterDomain: cluster.local
containerRuntimeEndpoint: ''
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionHard: {memory.available: 100Mi, nodefs.available: 10%}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
logging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}}, verbosity: 0}
memorySwap: {}
nodeLeaseDurationSeconds: 30
registerWithTaints: [{key: dedicated, value: db, effect: NoSchedule}, {key: bare, effect: NoExecute}]
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
systemReserved: {cpu: 200m}
volumeStatsAggPeriod: 0s
";

    #[test]
    fn a_file_of_kubeadm_says_what_it_says_and_no_more() {
        let read = file(KUBEADM);
        assert_eq!(read.problems, []);
        assert_eq!(read.idle, ["logging.options"]);
        let mut values: Vec<String> =
            read.values.iter().map(|given| format!("{}={}", given.flag, given.text)).collect();
        values.sort();
        assert_eq!(
            values,
            [
                "anonymous-auth=false",
                "authorization-mode=Webhook",
                "client-ca-file=/etc/kubernetes/pki/ca.crt",
                "cluster-dns=10.96.0.10,fd00:10:96::a",
                "cluster-domain=cluster.local",
                "eviction-hard=memory.available<100Mi,nodefs.available<10%",
                "healthz-bind-address=127.0.0.1",
                "healthz-port=10248",
                "log-level=0",
                "node-lease-duration=30s",
                "pod-manifest-path=/etc/kubernetes/manifests",
                "register-with-taints=dedicated=db:NoSchedule,bare:NoExecute",
                "rotate-certificates=true",
                "system-reserved=cpu=200m",
            ]
        );
    }

    #[test]
    fn mistakes_are_told_together_with_their_place() {
        let found = file(
            "maxPodz: 5\nport: x\nauthentication: {x509: {clientCA: /x}}\ncgroupDriver: systemd\nevictionHard: {memory.available: 5}\nregisterWithTaints: [{effect: NoSchedule}]\n",
        );
        let mut problems: Vec<String> =
            found.problems.iter().map(|one| format!("{} {}", one.field, one.problem)).collect();
        problems.sort();
        assert_eq!(
            problems,
            [
                "authentication.x509.clientCA unknown field; did you mean authentication.x509.clientCAFile?",
                "cgroupDriver is not built; accepted: cgroupfs",
                "evictionHard cannot be read; accepted: names with texts",
                "maxPodz unknown field; did you mean maxPods?",
                "port cannot be read; accepted: a whole number",
                "registerWithTaints cannot be read; accepted: a list of taints, each with key and effect",
            ]
        );
    }
}
