//! Files as clusters have them, and what can be wrong with one.

use super::*;

fn shown(read: &Read) -> Vec<String> {
    read.values.iter().map(|given| format!("{}={}", given.flag, given.text)).collect()
}

fn file(more: &str) -> Read {
    let text = format!("apiVersion: {VERSION}\nkind: {KIND}\n{more}");
    read(text.as_bytes()).expect("one of this kind")
}

/// As kubeadm leaves it in the ConfigMap kube-proxy, with zero values for what was not said.
const KUBEADM: &str = "
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection: {acceptContentTypes: '', burst: 0, contentType: '', kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
configSyncPeriod: 0s
conntrack: {maxPerCore: null, min: null, tcpCloseWaitTimeout: null, tcpEstablishedTimeout: null}
detectLocal: {bridgeInterface: '', interfaceNamePrefix: ''}
detectLocalMode: ''
enableProfiling: false
healthzBindAddress: ''
hostnameOverride: ''
iptables: {localhostNodePorts: null, masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
ipvs: {excludeCIDRs: null, minSyncPeriod: 0s, scheduler: '', strictARP: false, syncPeriod: 0s, tcpFinTimeout: 0s, tcpTimeout: 0s, udpTimeout: 0s}
logging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}}, verbosity: 0}
metricsBindAddress: ''
mode: ''
nftables: {masqueradeAll: true, masqueradeBit: 13, minSyncPeriod: 2s, syncPeriod: 0s}
nodePortAddresses: null
oomScoreAdj: null
portRange: ''
showHiddenMetricsForVersion: ''
winkernel: {enableDSR: false, forwardHealthCheckVip: false, networkName: '', rootHnsEndpointName: '', sourceVip: ''}
";

#[test]
fn a_file_of_kubeadm_says_what_it_says_and_no_more() {
    let read = file(KUBEADM);
    assert_eq!(read.problems, []);
    assert_eq!(read.idle, ["logging.options"]);
    let mut values = shown(&read);
    values.sort();
    assert_eq!(
        values,
        [
            "bind-address=0.0.0.0",
            "cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
            "iptables-masquerade-bit=13",
            "iptables-min-sync-period=2s",
            "kubeconfig=/var/lib/kube-proxy/kubeconfig.conf",
            "log-level=0",
            "masquerade-all=true",
        ]
    );
}

#[test]
fn the_section_of_the_mode_counts() {
    let sections = "iptables: {syncPeriod: 10s, masqueradeBit: 1, localhostNodePorts: false}\n\
                    nftables: {syncPeriod: 20s, masqueradeBit: 2}\nipvs: {syncPeriod: 30s, scheduler: wrr, excludeCIDRs: [10.0.0.0/8, 'fd00::/8']}\n";
    for (mode, expected) in [
        ("nftables", vec!["iptables-masquerade-bit=2", "iptables-sync-period=20s", "proxy-mode=nftables"]),
        (
            "iptables",
            vec![
                "iptables-localhost-nodeports=false",
                "iptables-masquerade-bit=1",
                "iptables-sync-period=10s",
                "proxy-mode=iptables",
            ],
        ),
        (
            "ipvs",
            vec![
                "iptables-masquerade-bit=1",
                "ipvs-exclude-cidrs=10.0.0.0/8,fd00::/8",
                "ipvs-scheduler=wrr",
                "ipvs-sync-period=30s",
                "proxy-mode=ipvs",
            ],
        ),
    ] {
        let mut values = shown(&file(&format!("mode: {mode}\n{sections}")));
        values.sort();
        assert_eq!(values, expected);
    }
}

#[test]
fn mistakes_are_told_together_with_their_place() {
    let found = file(
        "clusterCidr: 10.0.0.0/8\nnftables: {syncPeroid: 1s, masqueradeBit: x}\nmode: 5\nnonsense: 1\nconntrack: [1]\nnodePortAddresses: fd00::/8\n",
    );
    let mut problems: Vec<String> = found
        .problems
        .iter()
        .map(|p| format!("{} {:?} {}", p.field, p.value.as_deref().unwrap_or("-"), p.problem))
        .collect();
    problems.sort();
    assert_eq!(
        problems,
        [
            "clusterCidr \"-\" unknown field; did you mean clusterCIDR?",
            "conntrack \"[1]\" is no mapping of fields",
            "mode \"5\" cannot be read; accepted: text",
            "nftables.masqueradeBit \"x\" cannot be read; accepted: a whole number",
            "nftables.syncPeroid \"-\" unknown field; did you mean nftables.syncPeriod?",
            "nodePortAddresses \"fd00::/8\" cannot be read; accepted: a list of texts",
            "nonsense \"-\" unknown field",
        ]
    );
    let other = read(b"apiVersion: kubeproxy.config.k8s.io/v1beta1\nkind: KubeProxyConfiguration\n").unwrap();
    assert_eq!(other.problems[0].problem, "is not read here; accepted: kubeproxy.config.k8s.io/v1alpha1");
}

#[test]
fn limits_of_connections_that_are_zero_stay_zero() {
    let read = file(
        "conntrack: {maxPerCore: 0, min: null, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 2h, udpTimeout: 0s}\n",
    );
    let mut values = shown(&read);
    values.sort();
    assert_eq!(
        values,
        ["conntrack-max-per-core=0", "conntrack-tcp-timeout-close-wait=2h", "conntrack-tcp-timeout-established=0s"]
    );
}

#[test]
fn what_has_no_effect_is_named_once_it_says_something() {
    let read = file(
        "clientConnection: {qps: 7.5, burst: 0}\nenableProfiling: true\noomScoreAdj: -998\nfeatureGates: {A: true}\n",
    );
    let mut idle = read.idle;
    idle.sort();
    assert_eq!(idle, ["clientConnection.qps", "enableProfiling", "featureGates", "oomScoreAdj"]);
}

#[test]
fn files_with_flags_as_keys_are_not_of_this_kind() {
    for text in ["cluster-cidr: 10.0.0.0/8\n", "", "[1, 2]", "\u{0}", "a: [b"] {
        assert_eq!(read(text.as_bytes()), None);
    }
}

#[test]
fn what_is_written_reads_the_same() {
    let flags = |flag: &str| match flag {
        "cluster-cidr" => Some("10.244.0.0/16,fd00:10:244::/56".to_owned()),
        "nodeport-addresses" => Some("192.168.0.0/16,fd09::/64".to_owned()),
        "iptables-masquerade-bit" => Some("13".to_owned()),
        "masquerade-all" => Some("true".to_owned()),
        "iptables-sync-period" => Some("20s".to_owned()),
        "proxy-mode" => Some("nftables".to_owned()),
        _ => None,
    };
    let document = write("nftables", flags);
    assert_eq!(
        document["nftables"],
        serde_json::json!({"masqueradeBit": 13, "masqueradeAll": true, "syncPeriod": "20s"})
    );
    let read = read(document.to_string().as_bytes()).unwrap();
    assert_eq!((read.problems.len(), read.idle.len()), (0, 0));
    assert!(read.values.iter().all(|given| flags(given.flag).as_deref() == Some(&given.text)), "{read:?}");
    assert_eq!(read.values.len(), 6);
}
