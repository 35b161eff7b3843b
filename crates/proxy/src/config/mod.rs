//! kube-proxy's own configuration file (`kind: KubeProxyConfiguration`) in terms of this program's flags. Pure.
//!
//! Called by the command for the file of `--config`, so that the ConfigMap of an existing cluster works as it is.

use runtime::config::document::{
    Document,
    Effect::{Flag, InMode, None as Nothing},
    Field, Read,
    Shape::{Any, Number, Switch, Text, Texts, Time, TimeOrZero, Whole},
};
use serde_json::Value;

const KIND: &str = "KubeProxyConfiguration";
const VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

/// What such a file can say.
const DOCUMENT: Document = Document { kind: KIND, version: VERSION, fields: FIELDS, mode: Some(("mode", "nftables")) };

/// Reads a file; `None` when it is not of this kind.
#[must_use]
pub fn read(content: &[u8]) -> Option<Read> {
    Document::parse(content).map(|document| DOCUMENT.read(&document))
}

/// The file that says what these flags say, for a mode; `given` has the text of a flag.
#[must_use]
pub fn write(mode: &str, given: impl FnMut(&'static str) -> Option<String>) -> Value {
    DOCUMENT.write(mode, given)
}

const NFTABLES: &[&str] = &["nftables"];
const IPTABLES: &[&str] = &["iptables"];
const IPVS: &[&str] = &["ipvs"];
/// What is masqueraded in IPVS mode is said where iptables mode says it.
const IPTABLES_AND_IPVS: &[&str] = &["iptables", "ipvs"];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    Field::new("featureGates", Any, Nothing),
    Field::new("clientConnection.kubeconfig", Text, Flag("kubeconfig")),
    Field::new("clientConnection.acceptContentTypes", Text, Nothing),
    Field::new("clientConnection.contentType", Text, Nothing),
    Field::new("clientConnection.qps", Number, Nothing),
    Field::new("clientConnection.burst", Whole, Nothing),
    Field::new("logging.format", Text, Flag("log-format")),
    Field::new("logging.verbosity", Whole, Flag("log-level")),
    Field::new("logging.flushFrequency", Any, Nothing),
    Field::new("logging.vmodule", Any, Nothing),
    Field::new("logging.options", Any, Nothing),
    Field::new("hostnameOverride", Text, Flag("hostname-override")),
    Field::new("bindAddress", Text, Flag("bind-address")),
    Field::new("healthzBindAddress", Text, Flag("healthz-bind-address")),
    Field::new("metricsBindAddress", Text, Flag("metrics-bind-address")),
    Field::new("bindAddressHardFail", Switch, Nothing),
    Field::new("enableProfiling", Switch, Nothing),
    Field::new("showHiddenMetricsForVersion", Text, Nothing),
    Field::new("mode", Text, Flag("proxy-mode")),
    Field::new("iptables.masqueradeBit", Whole, InMode(IPTABLES_AND_IPVS, "iptables-masquerade-bit")),
    Field::new("iptables.masqueradeAll", Switch, InMode(IPTABLES_AND_IPVS, "masquerade-all")),
    Field::new("iptables.localhostNodePorts", Switch, InMode(IPTABLES, "iptables-localhost-nodeports")),
    Field::new("iptables.syncPeriod", Time, InMode(IPTABLES, "iptables-sync-period")),
    Field::new("iptables.minSyncPeriod", Time, InMode(IPTABLES, "iptables-min-sync-period")),
    Field::new("nftables.masqueradeBit", Whole, InMode(NFTABLES, "iptables-masquerade-bit")),
    Field::new("nftables.masqueradeAll", Switch, InMode(NFTABLES, "masquerade-all")),
    Field::new("nftables.syncPeriod", Time, InMode(NFTABLES, "iptables-sync-period")),
    Field::new("nftables.minSyncPeriod", Time, InMode(NFTABLES, "iptables-min-sync-period")),
    Field::new("ipvs.syncPeriod", Time, InMode(IPVS, "ipvs-sync-period")),
    Field::new("ipvs.minSyncPeriod", Time, InMode(IPVS, "ipvs-min-sync-period")),
    Field::new("ipvs.scheduler", Text, InMode(IPVS, "ipvs-scheduler")),
    Field::new("ipvs.excludeCIDRs", Texts, InMode(IPVS, "ipvs-exclude-cidrs")),
    Field::new("ipvs.strictARP", Switch, InMode(IPVS, "ipvs-strict-arp")),
    Field::new("ipvs.tcpTimeout", Time, InMode(IPVS, "ipvs-tcp-timeout")),
    Field::new("ipvs.tcpFinTimeout", Time, InMode(IPVS, "ipvs-tcpfin-timeout")),
    Field::new("ipvs.udpTimeout", Time, InMode(IPVS, "ipvs-udp-timeout")),
    Field::new("winkernel.networkName", Text, Nothing),
    Field::new("winkernel.sourceVip", Text, Nothing),
    Field::new("winkernel.enableDSR", Switch, Nothing),
    Field::new("winkernel.rootHnsEndpointName", Text, Nothing),
    Field::new("winkernel.forwardHealthCheckVip", Switch, Nothing),
    Field::new("detectLocalMode", Text, Flag("detect-local-mode")),
    Field::new("detectLocal.bridgeInterface", Text, Flag("pod-bridge-interface")),
    Field::new("detectLocal.interfaceNamePrefix", Text, Flag("pod-interface-name-prefix")),
    Field::new("clusterCIDR", Text, Flag("cluster-cidr")),
    Field::new("nodePortAddresses", Texts, Flag("nodeport-addresses")),
    Field::new("oomScoreAdj", Whole, Nothing),
    Field::new("conntrack.maxPerCore", Whole, Flag("conntrack-max-per-core")),
    Field::new("conntrack.min", Whole, Flag("conntrack-min")),
    Field::new("conntrack.tcpEstablishedTimeout", TimeOrZero, Flag("conntrack-tcp-timeout-established")),
    Field::new("conntrack.tcpCloseWaitTimeout", TimeOrZero, Flag("conntrack-tcp-timeout-close-wait")),
    Field::new("conntrack.tcpBeLiberal", Switch, Flag("conntrack-tcp-be-liberal")),
    Field::new("conntrack.udpTimeout", Time, Flag("conntrack-udp-timeout")),
    Field::new("conntrack.udpStreamTimeout", Time, Flag("conntrack-udp-timeout-stream")),
    Field::new("configSyncPeriod", Time, Nothing),
    Field::new("portRange", Text, Nothing),
    Field::new("windowsRunAsService", Switch, Nothing),
];

#[cfg(test)]
mod tests;
