//! Every field of KubeProxyConfiguration (v1alpha1): its shape, and what it does here.

use serde_json::{Value, json};

pub(super) struct Field {
    pub(super) path: &'static str,
    pub(super) shape: Shape,
    pub(super) effect: Effect,
}

/// What may stand there.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Text,
    Whole,
    Number,
    Switch,
    /// A length of time as Go writes it; 0 means that nothing is given.
    Time,
    /// A length of time, of which 0 is one too.
    TimeOrZero,
    Texts,
    /// Anything; only for what has no effect.
    Any,
}

/// What it does.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// The same as a flag.
    Flag(&'static str),
    /// The same as a flag, in these modes.
    InMode(&'static [&'static str], &'static str),
    /// Nothing.
    None,
}

use Effect::{Flag, InMode, None as Nothing};
use Shape::{Any, Number, Switch, Text, Texts, Time, TimeOrZero, Whole};

const fn field(path: &'static str, shape: Shape, effect: Effect) -> Field {
    Field { path, shape, effect }
}

const NFTABLES: &[&str] = &["nftables"];
const IPTABLES: &[&str] = &["iptables"];
const IPVS: &[&str] = &["ipvs"];
/// What is masqueraded in IPVS mode is said where iptables mode says it.
const IPTABLES_AND_IPVS: &[&str] = &["iptables", "ipvs"];

#[rustfmt::skip]
pub(super) const FIELDS: &[Field] = &[
    field("featureGates", Any, Nothing),
    field("clientConnection.kubeconfig", Text, Flag("kubeconfig")),
    field("clientConnection.acceptContentTypes", Text, Nothing),
    field("clientConnection.contentType", Text, Nothing),
    field("clientConnection.qps", Number, Nothing),
    field("clientConnection.burst", Whole, Nothing),
    field("logging.format", Text, Flag("log-format")),
    field("logging.verbosity", Whole, Flag("log-level")),
    field("logging.flushFrequency", Any, Nothing),
    field("logging.vmodule", Any, Nothing),
    field("logging.options", Any, Nothing),
    field("hostnameOverride", Text, Flag("hostname-override")),
    field("bindAddress", Text, Flag("bind-address")),
    field("healthzBindAddress", Text, Flag("healthz-bind-address")),
    field("metricsBindAddress", Text, Flag("metrics-bind-address")),
    field("bindAddressHardFail", Switch, Nothing),
    field("enableProfiling", Switch, Nothing),
    field("showHiddenMetricsForVersion", Text, Nothing),
    field("mode", Text, Flag("proxy-mode")),
    field("iptables.masqueradeBit", Whole, InMode(IPTABLES_AND_IPVS, "iptables-masquerade-bit")),
    field("iptables.masqueradeAll", Switch, InMode(IPTABLES_AND_IPVS, "masquerade-all")),
    field("iptables.localhostNodePorts", Switch, InMode(IPTABLES, "iptables-localhost-nodeports")),
    field("iptables.syncPeriod", Time, InMode(IPTABLES, "iptables-sync-period")),
    field("iptables.minSyncPeriod", Time, InMode(IPTABLES, "iptables-min-sync-period")),
    field("nftables.masqueradeBit", Whole, InMode(NFTABLES, "iptables-masquerade-bit")),
    field("nftables.masqueradeAll", Switch, InMode(NFTABLES, "masquerade-all")),
    field("nftables.syncPeriod", Time, InMode(NFTABLES, "iptables-sync-period")),
    field("nftables.minSyncPeriod", Time, InMode(NFTABLES, "iptables-min-sync-period")),
    field("ipvs.syncPeriod", Time, InMode(IPVS, "ipvs-sync-period")),
    field("ipvs.minSyncPeriod", Time, InMode(IPVS, "ipvs-min-sync-period")),
    field("ipvs.scheduler", Text, InMode(IPVS, "ipvs-scheduler")),
    field("ipvs.excludeCIDRs", Texts, InMode(IPVS, "ipvs-exclude-cidrs")),
    field("ipvs.strictARP", Switch, InMode(IPVS, "ipvs-strict-arp")),
    field("ipvs.tcpTimeout", Time, InMode(IPVS, "ipvs-tcp-timeout")),
    field("ipvs.tcpFinTimeout", Time, InMode(IPVS, "ipvs-tcpfin-timeout")),
    field("ipvs.udpTimeout", Time, InMode(IPVS, "ipvs-udp-timeout")),
    field("winkernel.networkName", Text, Nothing),
    field("winkernel.sourceVip", Text, Nothing),
    field("winkernel.enableDSR", Switch, Nothing),
    field("winkernel.rootHnsEndpointName", Text, Nothing),
    field("winkernel.forwardHealthCheckVip", Switch, Nothing),
    field("detectLocalMode", Text, Flag("detect-local-mode")),
    field("detectLocal.bridgeInterface", Text, Flag("pod-bridge-interface")),
    field("detectLocal.interfaceNamePrefix", Text, Flag("pod-interface-name-prefix")),
    field("clusterCIDR", Text, Flag("cluster-cidr")),
    field("nodePortAddresses", Texts, Flag("nodeport-addresses")),
    field("oomScoreAdj", Whole, Nothing),
    field("conntrack.maxPerCore", Whole, Flag("conntrack-max-per-core")),
    field("conntrack.min", Whole, Flag("conntrack-min")),
    field("conntrack.tcpEstablishedTimeout", TimeOrZero, Flag("conntrack-tcp-timeout-established")),
    field("conntrack.tcpCloseWaitTimeout", TimeOrZero, Flag("conntrack-tcp-timeout-close-wait")),
    field("conntrack.tcpBeLiberal", Switch, Flag("conntrack-tcp-be-liberal")),
    field("conntrack.udpTimeout", Time, Flag("conntrack-udp-timeout")),
    field("conntrack.udpStreamTimeout", Time, Flag("conntrack-udp-timeout-stream")),
    field("configSyncPeriod", Time, Nothing),
    field("portRange", Text, Nothing),
    field("windowsRunAsService", Switch, Nothing),
];

impl Shape {
    /// The value as it would be written after a flag; `None` when it says nothing, or what is accepted.
    pub(super) fn text(self, value: &Value) -> Result<Option<String>, &'static str> {
        let some = |text: &str| Ok(Some(text.to_owned()).filter(|text| !text.is_empty()));
        match (self, value) {
            (_, Value::Null) => Ok(None),
            (Any, Value::Object(map)) if map.is_empty() => Ok(None),
            (Any, other) => Ok(Some(other.to_string())),
            (Text, Value::String(text)) => some(text),
            (Text, _) => Err("text"),
            (Whole, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(Some(number.to_string())),
            (Whole, _) => Err("a whole number"),
            (Number, Value::Number(number)) => Ok(Some(number.to_string())),
            (Number, _) => Err("a number"),
            (Switch, Value::Bool(switch)) => Ok(Some(switch.to_string())),
            (Switch, _) => Err("true, false"),
            (Time, Value::String(text)) => {
                Ok(Some(text.clone()).filter(|text| text.contains(|c: char| ('1'..='9').contains(&c))))
            }
            (Time, Value::Number(number)) if number.as_u64() == Some(0) => Ok(None),
            (TimeOrZero, Value::String(text)) => some(text),
            (Time | TimeOrZero, _) => Err("a length of time such as 30s"),
            (Texts, Value::Array(list)) => {
                let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                some(&words.ok_or("a list of texts")?.join(","))
            }
            (Texts, _) => Err("a list of texts"),
        }
    }

    /// The text of a flag as the field has it.
    pub(super) fn value(self, text: &str) -> Value {
        match self {
            Whole | Number => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
            Switch => json!(text == "true"),
            Texts => json!(text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>()),
            Text | Time | TimeOrZero | Any => json!(text),
        }
    }
}
