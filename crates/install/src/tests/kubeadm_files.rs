//! kubeadm's files.

use super::{cluster, file, mistakes, warnings};

/// A ClusterConfiguration with this network, and what else is given.
fn networked(pods: &str, services: &str, more: &str) -> String {
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking: {{podSubnet: '{pods}', serviceSubnet: '{services}'}}\n{more}"
    )
}

fn advertised(address: &str) -> String {
    format!(
        "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {{advertiseAddress: '{address}'}}\n"
    )
}

#[test]
fn the_kubeadm_sample_of_the_seed_yields_the_flags_that_the_seed_shows() {
    let cluster = cluster(include_str!("../../../../testdata/init/kubeadm-v6v4/input.yaml"));
    let server = file(&cluster, "manifests/kube-apiserver.yaml");
    assert!(server.contains("- --service-cluster-ip-range=fd00:1234::/110,10.96.0.0/12\n"), "{server}");
    assert!(server.contains("- --advertise-address=fd00:90::2,10.90.0.2\n"), "{server}");
    let manager = file(&cluster, "manifests/kube-controller-manager.yaml");
    assert!(manager.contains("- --cluster-cidr=fd00:10:20::/72,10.20.0.0/16\n"), "{manager}");
    assert!(manager.contains("- --service-cluster-ip-range=fd00:1234::/110,10.96.0.0/12\n"), "{manager}");
    assert!(manager.contains("- --node-cidr-mask-size-ipv6=80\n"), "{manager}");
    assert!(manager.contains("- --allocate-node-cidrs=true\n"), "{manager}");
}

#[test]
fn every_shape_of_cluster_has_its_flags_in_order() {
    for (pods, services, advertise) in [
        ("10.244.0.0/16", "10.96.0.0/12", "192.0.2.1"),
        ("fd00:244::/56", "fd00:96::/112", "2001:db8::1"),
        ("10.244.0.0/16,fd00:244::/56", "10.96.0.0/12,fd00:96::/112", "192.0.2.1,2001:db8::1"),
        ("fd00:244::/56,10.244.0.0/16", "fd00:96::/112,10.96.0.0/12", "2001:db8::1,192.0.2.1"),
    ] {
        let cluster = cluster(&(networked(pods, services, "") + &advertised(advertise)));
        // An address with dots is quoted, one with colons is not.
        let flags = |component: &str| file(&cluster, &format!("components/{component}.yaml")).replace('"', "");
        for (component, line) in [
            ("apiserver", format!("advertise-address: {advertise}\n")),
            ("apiserver", format!("service-cluster-ip-range: {services}\n")),
            ("controller-manager", format!("cluster-cidr: {pods}\n")),
            ("controller-manager", format!("service-cluster-ip-range: {services}\n")),
            ("proxy", format!("cluster-cidr: {pods}\n")),
            ("kubelet", format!("node-ip: {advertise}\n")),
        ] {
            assert!(flags(component).contains(&line), "{line} is not in {}", flags(component));
        }
    }
}

#[test]
fn lists_may_be_lists() {
    let text = "apiVersion: kubeadm.k8s.io/v1\nkind: ClusterConfiguration\nnetworking:\n  podSubnet: [10.244.0.0/16, 'fd00:244::/56']\n  serviceSubnet: [10.96.0.0/16, 'fd00:96::/112']\n";
    assert_eq!(cluster(text).pods.map(|pods| pods.families().to_string()).as_deref(), Some("IPv4,IPv6"));
}

#[test]
fn a_file_with_hardly_anything_has_defaults() {
    let cluster = cluster("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n");
    assert_eq!(
        (cluster.name.as_str(), cluster.dns_domain.as_str(), cluster.port),
        ("kubernetes", "cluster.local", 6443)
    );
    assert_eq!(cluster.services.primary().to_string(), "10.96.0.0/12");
    assert_eq!((cluster.pods, cluster.advertise), (None, None));
    assert!(!file(&cluster, "components/controller-manager.yaml").contains("cluster-cidr"));
}

#[test]
fn arguments_replace_append_and_prepend_as_kubeadm_has_it() {
    let args = |kind: &str, version: &str, args: &str| {
        format!("apiVersion: kubeadm.k8s.io/{version}\nkind: ClusterConfiguration\n{kind}: {{extraArgs: {args}}}\n")
    };
    let server = |version: &str, given: &str| {
        let cluster = cluster(&args("apiServer", version, given));
        let text = file(&cluster, "manifests/kube-apiserver.yaml");
        let lines =
            text.lines().filter_map(|line| line.trim().strip_prefix("- --")).filter(|line| line.starts_with("a"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (version, given, expected) in [
        ("v1beta4", "[{name: authorization-mode, value: RBAC}]", vec!["authorization-mode=RBAC"]),
        ("v1beta3", "{authorization-mode: RBAC}", vec!["authorization-mode=RBAC"]),
        ("v1", "[{name: authorization-mode, value: X, mergeMethod: append}]", vec!["authorization-mode=Node,RBAC,X"]),
        ("v1", "[{name: authorization-mode, value: X, mergeMethod: prepend}]", vec!["authorization-mode=X,Node,RBAC"]),
        (
            "v1",
            "[{name: anonymous-auth, value: true, mergeMethod: append}]",
            vec!["authorization-mode=Node,RBAC", "anonymous-auth=true"],
        ),
        ("v1beta4", "[{name: audit-log-path, value: '-'}]", vec!["authorization-mode=Node,RBAC", "audit-log-path=-"]),
    ] {
        assert_eq!(server(version, given), expected, "{version} {given}");
    }
    let manager = cluster(&args("controllerManager", "v1beta4", "[{name: leader-elect, value: 'false'}]"));
    let text = file(&manager, "manifests/kube-controller-manager.yaml");
    assert!(text.contains("--leader-elect=false") && !text.contains("--leader-elect=true"), "{text}");
}

#[test]
fn each_mistake_names_its_field_its_value_and_a_way_on() {
    let v4 = "10.244.0.0/16";
    let services = "10.96.0.0/12";
    let dual_pods = "10.244.0.0/16,fd00:244::/56";
    let dual_services = "10.96.0.0/12,fd00:96::/112";
    let masks = |list: &str| format!("controllerManager: {{extraArgs: [{list}]}}\n");
    for (text, expected) in [
        (
            networked("10.244.0.0/16,10.245.0.0/16", services, ""),
            r#"ClusterConfiguration.networking.podSubnet "10.244.0.0/16,10.245.0.0/16": 10.244.0.0/16 and 10.245.0.0/16 are both IPv4; give one CIDR, or one of each family"#,
        ),
        (
            networked(v4, "10.96.0.1/12", ""),
            r#"ClusterConfiguration.networking.serviceSubnet "10.96.0.1/12": "10.96.0.1/12" has host bits set; write 10.96.0.0/12"#,
        ),
        (
            networked(v4, "a,b,c", "").replace("a,b,c", "10.96.0.0/16,fd00::/112,10.97.0.0/16"),
            r#"ClusterConfiguration.networking.serviceSubnet "10.96.0.0/16,fd00::/112,10.97.0.0/16": "10.96.0.0/16,fd00::/112,10.97.0.0/16" has 3 values; give one CIDR, or one of each family"#,
        ),
        (
            networked(v4, "10.96.0.0/29", ""),
            r#"ClusterConfiguration.networking.serviceSubnet "10.96.0.0/29": is too small: cluster DNS has the tenth address"#,
        ),
        (
            networked("fd00:244::/56", "fd00:96::/100", ""),
            r#"ClusterConfiguration.networking.serviceSubnet "fd00:96::/100": is too big; use a prefix of /108 or longer"#,
        ),
        (
            networked("10.244.0.0/29", services, &masks("{name: node-cidr-mask-size, value: '30'}")),
            r#"ClusterConfiguration.networking.podSubnet "10.244.0.0/29": is too small: 8 of at least 14 addresses"#,
        ),
        (
            networked("10.96.128.0/17", services, ""),
            r#"ClusterConfiguration.networking.podSubnet "10.96.128.0/17": overlaps 10.96.0.0/12, which is for Services; choose ranges apart"#,
        ),
        (
            networked("fd00:10:20::/72", "fd00:1234::/110", ""),
            r#"ClusterConfiguration.networking.podSubnet "fd00:10:20::/72": cluster CIDR fd00:10:20::/72 is smaller than one node CIDR of /64; choose a mask size of 72 or more"#,
        ),
        (
            networked("10.0.0.0/8", "192.168.0.0/16", &masks("{name: node-cidr-mask-size-ipv4, value: '25'}")),
            r#"ClusterConfiguration.networking.podSubnet "10.0.0.0/8": is cut into 2^17 parts of /25, more than 2^16"#,
        ),
        (
            networked(dual_pods, dual_services, &masks("{name: node-cidr-mask-size, value: '24'}")),
            "ClusterConfiguration.controllerManager.extraArgs: ",
        ),
        (
            networked(v4, services, &masks("{name: node-cidr-mask-size-ipv6, value: '64'}")),
            "ClusterConfiguration.controllerManager.extraArgs: --node-cidr-mask-size-ipv6=64 needs an IPv6 cluster CIDR",
        ),
        (
            networked(v4, services, &masks("{name: node-cidr-mask-size, value: big}")),
            r#"ClusterConfiguration.controllerManager.extraArgs[node-cidr-mask-size] "big": is no mask size"#,
        ),
        (
            networked(v4, services, &advertised("2001:db8::1")),
            r#"InitConfiguration.localAPIEndpoint.advertiseAddress "2001:db8::1": 2001:db8::1 is IPv6, but the first service range is IPv4"#,
        ),
        (
            networked(v4, services, &advertised("0.0.0.0")),
            r#"InitConfiguration.localAPIEndpoint.advertiseAddress "0.0.0.0": 0.0.0.0 is not the address of one machine"#,
        ),
        (
            networked(v4, services, &advertised("10.96.0.9")),
            r#"InitConfiguration.localAPIEndpoint.advertiseAddress "10.96.0.9": lies in 10.96.0.0/12"#,
        ),
        (
            networked(v4, services, &advertised("fine.test")),
            r#"InitConfiguration.localAPIEndpoint.advertiseAddress "fine.test": "#,
        ),
        (
            networked(v4, services, "").replace("podSubnet", "podSubent"),
            "ClusterConfiguration.networking.podSubent: unknown field; did you mean podSubnet?",
        ),
        (
            networked(v4, services, "networkin: {}\n"),
            "ClusterConfiguration.networkin: unknown field; did you mean networking?",
        ),
        (
            networked(v4, services, "apiServer: {extraArgs: {a: b}}\n"),
            "ClusterConfiguration.apiServer.extraArgs: is a mapping, as in v1beta3",
        ),
        (
            networked(v4, services, "apiServer: {extraArgs: [{name: --anonymous-auth, value: x}]}\n"),
            r#"ClusterConfiguration.apiServer.extraArgs[0].name "--anonymous-auth": begins with a dash"#,
        ),
        (
            networked(v4, services, "apiServer: {extraArgs: [{nam: anonymous-auth, value: x}]}\n"),
            "ClusterConfiguration.apiServer.extraArgs[0].name: must be given",
        ),
        (
            networked(v4, services, "apiServer: {extraArgs: [{name: service-cluster-ip-range, value: 10.0.0.0/16}]}\n"),
            r#"ClusterConfiguration.apiServer.extraArgs[service-cluster-ip-range] "10.0.0.0/16": has a field of its own; set networking.serviceSubnet instead"#,
        ),
        (
            networked(v4, services, "apiServer: {certSANs: [Bad_Name]}\n"),
            r#"ClusterConfiguration.apiServer.certSANs[0] "Bad_Name": is neither an IP address nor a DNS name"#,
        ),
        (
            networked(v4, services, "controlPlaneEndpoint: 'a:b:c'\n"),
            r#"ClusterConfiguration.controlPlaneEndpoint "a:b:c": is neither a DNS name"#,
        ),
        (networked(v4, services, "clusterName: A_b\n"), r#"ClusterConfiguration.clusterName "A_b": is no name"#),
        (
            networked(v4, services, "certificatesDir: pki\n"),
            r#"ClusterConfiguration.certificatesDir "pki": is not an absolute path"#,
        ),
        (
            networked(v4, services, "kubernetesVersion: new\n"),
            r#"ClusterConfiguration.kubernetesVersion "new": is no version"#,
        ),
        (
            networked(v4, services, "etcd: {external: {endpoints: []}}\n"),
            "ClusterConfiguration.etcd.external.endpoints: must be given",
        ),
        (
            networked(v4, services, "etcd: {external: {endpoints: [a], certFile: /c}}\n"),
            r#"ClusterConfiguration.etcd.external.endpoints[0] "a": is no URL"#,
        ),
        (
            networked(v4, services, "networking2: x\ndns: {}\n---\nkind: Foo\napiVersion: v1\n"),
            r#"apiVersion "v1": Foo does not belong into a kubeadm file"#,
        ),
        (
            networked(v4, services, "---\nkind: ClusterConfig\napiVersion: kubeadm.k8s.io/v1beta4\n"),
            r#"kind "ClusterConfig": unknown kind; accepted: ClusterConfiguration, InitConfiguration"#,
        ),
        (
            networked(v4, services, "---\nkind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\n"),
            "ClusterConfiguration: stands twice in the file; give one",
        ),
        (
            networked(v4, services, "").replace("v1beta4", "v1beta2"),
            r#"ClusterConfiguration.apiVersion "kubeadm.k8s.io/v1beta2": is no version that is read; accepted: kubeadm.k8s.io/v1beta4"#,
        ),
        (
            networked(
                v4,
                services,
                "---\nkind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nmode: nft\n",
            ),
            r#"KubeProxyConfiguration.mode "nft": is no mode; accepted: nftables, iptables, ipvs"#,
        ),
        ("".to_owned(), "is empty; accepted"),
        ("a: [\n".to_owned(), "not YAML or JSON"),
        ("- a\n".to_owned(), "document 1 is not a mapping"),
        (
            "apiVersion: kubeadm.k8s.oi/v1beta4\nkind: ClusterConfiguration\n".to_owned(),
            r#"apiVersion "kubeadm.k8s.oi/v1beta4": is neither kubeadm's nor an install-config's"#,
        ),
    ] {
        let found = mistakes(&text);
        assert!(
            found.iter().any(|mistake| mistake.starts_with(expected)),
            "\n{expected}\nis not in\n{found:#?}\nfor\n{text}"
        );
    }
}

#[test]
fn all_mistakes_come_at_once() {
    let text =
        networked("10.244.0.0/16,x", "10.96.0.0/40", "clusterName: ''\nkubernetesVersion: x\n") + &advertised("y");
    let found = mistakes(&text);
    for field in ["podSubnet", "serviceSubnet", "kubernetesVersion"] {
        assert!(found.iter().any(|mistake| mistake.contains(field)), "{field} is not in {found:#?}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    for (text, expected) in [
        (
            networked("10.244.0.0/16", "10.96.0.0/12,fd00:96::/112", ""),
            "ClusterConfiguration.networking.podSubnet: Pods get no IPv6 address, so IPv6 Services will have no endpoints",
        ),
        (
            networked("10.244.0.0/16,fd00:244::/56", "10.96.0.0/12", ""),
            "ClusterConfiguration.networking.podSubnet: Pods are dual-stack, Services only IPv4",
        ),
        (
            networked("fd00:244::/56,10.244.0.0/16", "10.96.0.0/12,fd00:96::/112", ""),
            "ClusterConfiguration.networking.podSubnet: the first range is IPv6, that of Services is IPv4",
        ),
        (
            networked(
                "10.244.0.0/16",
                "10.96.0.0/12",
                "apiServer: {extraArgs: [{name: enable-aggregator-routing, value: 'true'}]}\n",
            ),
            "ClusterConfiguration.apiServer.extraArgs[enable-aggregator-routing]: the API server has no such flag",
        ),
        (
            networked("10.244.0.0/16", "10.96.0.0/12", "etcd: {local: {dataDir: /x}}\n"),
            "ClusterConfiguration.etcd.local: ",
        ),
        (
            networked("10.244.0.0/16", "10.96.0.0/12", "kubernetesVersion: v1.30.1\n"),
            "ClusterConfiguration.kubernetesVersion: the API served is that of 1.37, not of v1.30.1",
        ),
        (
            networked("10.244.0.0/16", "10.96.0.0/12", "").replace("v1beta4", "v1beta3"),
            "ClusterConfiguration: v1beta3 is read",
        ),
    ] {
        let found = warnings(&text);
        assert!(found.iter().any(|warning| warning.starts_with(expected)), "\n{expected}\nis not in\n{found:#?}");
    }
}
