//! Tables of what a container finds, for each order of families.

use super::*;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ALLOCATABLE: Allocatable = Allocatable { cpu_millis: 2000, memory: 4 << 30, ephemeral_storage: 10 << 30 };

#[derive(Default)]
struct Known {
    maps: BTreeMap<String, Arc<ConfigMap>>,
    secrets: BTreeMap<String, Arc<Secret>>,
    services: Vec<Arc<Service>>,
    files: BTreeMap<String, String>,
}

impl Sources for Known {
    fn config_map(&self, _: &str, name: &str) -> Option<Arc<ConfigMap>> {
        self.maps.get(name).cloned()
    }
    fn secret(&self, _: &str, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(name).cloned()
    }
    fn services(&self, _: &str) -> Vec<Arc<Service>> {
        self.services.clone()
    }
    fn env_file(&self, _: &Pod, volume: &str, path: &str) -> Result<Option<String>, String> {
        Ok(self.files.get(&format!("{volume}/{path}")).cloned())
    }
}

fn pod(spec: Value) -> Pod {
    let mut whole = json!({"containers": []});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let metadata = json!({
        "name": "web-0", "namespace": "shop", "uid": "u-1",
        "labels": {"app": "web", "zone": "a\"b"}, "annotations": {"note": "x\ny"},
    });
    objects::from_value(&json!({"metadata": metadata, "spec": whole})).unwrap()
}

fn container(value: Value) -> Container {
    let mut whole = json!({"name": "c"});
    for (key, value) in value.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    pod(json!({"containers": [whole]})).spec.unwrap().containers.remove(0)
}

fn service(namespace: &str, name: &str, address: &str, ports: Value) -> Arc<Service> {
    let value =
        json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": ports}});
    Arc::new(objects::from_value(&value).unwrap())
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn ask(pod: &Pod, of: &Container, known: &Known) -> Result<Vec<(String, String)>, EnvironmentError> {
    let (pod_ips, host_ips) = (addresses(&["10.1.0.2", "fd00:1::2"]), addresses(&["192.0.2.1", "2001:db8::1"]));
    variables(pod, of, &Addresses { pod_ips: &pod_ips, host_ips: &host_ips }, &ALLOCATABLE, known)
}

fn shown(variables: &[(String, String)]) -> Vec<String> {
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[test]
fn every_address_is_told_in_the_order_of_the_nodes_families() {
    let fields = ["status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"];
    for (pod_ips, host_ips, want) in [
        (vec!["10.1.0.2"], vec!["192.0.2.1"], ["10.1.0.2", "10.1.0.2", "192.0.2.1", "192.0.2.1"]),
        (vec!["fd00:1::2"], vec!["2001:db8::1"], ["fd00:1::2", "fd00:1::2", "2001:db8::1", "2001:db8::1"]),
        (
            vec!["10.1.0.2", "fd00:1::2"],
            vec!["192.0.2.1", "2001:db8::1"],
            ["10.1.0.2", "10.1.0.2,fd00:1::2", "192.0.2.1", "192.0.2.1,2001:db8::1"],
        ),
        (
            vec!["fd00:1::2", "10.1.0.2"],
            vec!["2001:db8::1", "192.0.2.1"],
            ["fd00:1::2", "fd00:1::2,10.1.0.2", "2001:db8::1", "2001:db8::1,192.0.2.1"],
        ),
    ] {
        let (pod_ips, host_ips) = (addresses(&pod_ips), addresses(&host_ips));
        let at = Addresses { pod_ips: &pod_ips, host_ips: &host_ips };
        assert_eq!(fields.map(|path| field(path, &pod(json!({})), &at).unwrap()), want);
    }
}

#[test]
fn variables_come_from_everywhere_and_the_containers_own_win() {
    let mut known = Known::default();
    let map = json!({"metadata": {"name": "m"}, "data": {"A": "map", "B": "map", "level": "high"}});
    known.maps.insert("m".into(), Arc::new(objects::from_value(&map).unwrap()));
    let secret = json!({"metadata": {"name": "s"}, "data": {"PASS": "c2VjcmV0"}});
    known.secrets.insert("s".into(), Arc::new(objects::from_value(&secret).unwrap()));
    known.files.insert("v/app.env".into(), "KEY='from a file'\n".into());
    let of = container(json!({
        "envFrom": [
            {"configMapRef": {"name": "m"}},
            {"prefix": "S_", "secretRef": {"name": "s"}},
            {"configMapRef": {"name": "gone", "optional": true}},
        ],
        "env": [
            {"name": "B", "value": "own"},
            {"name": "C", "value": "$(A)-$(B)-$(S_PASS)-$(nobody)-$$(A)-$(KUBERNETES_SERVICE_HOST)"},
            {"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "level"}}},
            {"name": "SKIPPED", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": true}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "FILE", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "app.env", "key": "KEY"}}},
        ],
    }));
    known.services = vec![service("default", "kubernetes", "fd00::1", json!([{"name": "https", "port": 443}]))];
    let found = ask(&pod(json!({"enableServiceLinks": false})), &of, &known).unwrap();
    let want = [
        "A=map",
        "B=own",
        "level=high",
        "S_PASS=secret",
        "C=map-own-secret-$(nobody)-$(A)-fd00::1",
        "IPS=10.1.0.2,fd00:1::2",
        "APP=web",
        "LEVEL=high",
        "CPU=2000",
        "FILE=from a file",
        "KUBERNETES_PORT=tcp://[fd00::1]:443",
        "KUBERNETES_PORT_443_TCP=tcp://[fd00::1]:443",
        "KUBERNETES_PORT_443_TCP_ADDR=fd00::1",
        "KUBERNETES_PORT_443_TCP_PORT=443",
        "KUBERNETES_PORT_443_TCP_PROTO=tcp",
        "KUBERNETES_SERVICE_HOST=fd00::1",
        "KUBERNETES_SERVICE_PORT=443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
    ];
    assert_eq!(shown(&found), want);
}

#[test]
fn services_of_the_namespace_are_named_if_the_pod_wants_links() {
    let known = Known {
        services: vec![
            service("default", "kubernetes", "10.96.0.1", json!([{"port": 443}])),
            service("shop", "data-base", "10.96.0.7", json!([{"port": 53, "protocol": "UDP"}])),
            service("shop", "headless", "None", json!([{"port": 1}])),
        ],
        ..Known::default()
    };
    for (links, want) in [(true, 2), (false, 1)] {
        let found = ask(&pod(json!({"enableServiceLinks": links})), &container(json!({})), &known).unwrap();
        assert_eq!(found.iter().filter(|(name, _)| name.ends_with("_SERVICE_HOST")).count(), want);
        let link = found.iter().find(|(name, _)| name == "DATA_BASE_PORT_53_UDP").map(|(_, value)| value.as_str());
        assert_eq!(link, links.then_some("udp://10.96.0.7:53"));
    }
}

#[test]
fn what_is_missing_is_told_in_upstreams_words() {
    let mut known = Known::default();
    let map = json!({"metadata": {"name": "m"}, "data": {}});
    known.maps.insert("m".into(), Arc::new(objects::from_value(&map).unwrap()));
    for (env, want) in [
        (json!({"envFrom": [{"configMapRef": {"name": "gone"}}]}), "configmap \"gone\" not found"),
        (json!({"envFrom": [{"secretRef": {"name": "gone"}}]}), "secret \"gone\" not found"),
        (
            json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}),
            "couldn't find key k in ConfigMap shop/m",
        ),
        (
            json!({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}]}),
            "unsupported fieldPath: spec.hostname",
        ),
        (
            json!({"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]}),
            "unsupported container resource : limits.gpu",
        ),
        (
            json!({"env": [{"name": "X", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "f", "key": "K"}}}]}),
            "environment variable key \"K\" not found in file \"f\" of volume \"v\"",
        ),
    ] {
        assert_eq!(ask(&pod(json!({})), &container(env), &known).unwrap_err().to_string(), want);
    }
}

#[test]
fn amounts_are_rounded_up_to_the_divisor() {
    let resources = json!({"limits": {"cpu": "1500m", "memory": "100Mi"}, "requests": {"cpu": "250m"}});
    let pod = pod(json!({"containers": [{"name": "c", "resources": resources}, {"name": "free"}]}));
    for (container, resource, divisor, want) in [
        ("c", "limits.cpu", "0", "2"),
        ("c", "limits.cpu", "1m", "1500"),
        ("c", "requests.cpu", "1", "1"),
        ("c", "limits.memory", "1Mi", "100"),
        ("c", "limits.memory", "1", "104857600"),
        ("c", "requests.memory", "1", "0"),
        ("free", "limits.cpu", "1", "2"),
        ("free", "limits.memory", "1Gi", "4"),
        ("free", "limits.ephemeral-storage", "1Gi", "10"),
        ("free", "limits.hugepages-2Mi", "1", "0"),
    ] {
        let asked = json!({"containerName": container, "resource": resource, "divisor": divisor});
        let asked = serde_json::from_value(asked).unwrap();
        assert_eq!(amount(&asked, &pod, None, &ALLOCATABLE).unwrap(), want, "{container} {resource} {divisor}");
    }
}

#[test]
fn references_are_expanded_and_others_stay() {
    let variables = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())];
    for (text, want) in [
        ("$(A)", "1"),
        ("$(A)$(B)", "1$(A)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("$(C)", "$(C)"),
        ("$A ü$", "$A ü$"),
        ("$()", "$()"),
        ("a$$b", "a$b"),
    ] {
        assert_eq!(expand(text, &variables), want, "{text}");
    }
    let of = container(json!({"command": ["sh", "-c", "$(A)"], "args": ["$(B)"]}));
    assert_eq!(command(&of, &variables), (vec!["sh".into(), "-c".into(), "1".into()], vec!["$(A)".into()]));
}

#[test]
fn the_hosts_file_has_every_address_and_the_aliases() {
    let own = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
               fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
    let both = addresses(&["10.1.0.2", "fd00:1::2"]);
    let aliases = json!([{"ip": "192.0.2.9", "hostnames": ["a", "b"]}]);
    for (spec, ips, want) in [
        (json!({}), &both[..], format!("{own}10.1.0.2\tweb-0\nfd00:1::2\tweb-0\n")),
        (json!({}), &both[1..], format!("{own}fd00:1::2\tweb-0\n")),
        (
            json!({"hostname": "db", "subdomain": "sub", "hostAliases": aliases}),
            &both[..1],
            format!("{own}10.1.0.2\tdb.sub.shop.svc.cluster.local\tdb\n\n# Entries added by HostAliases.\n192.0.2.9\ta\tb\n"),
        ),
        (
            json!({"hostNetwork": true, "hostAliases": aliases}),
            &both[..],
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 host\n\n# Entries added by HostAliases.\n192.0.2.9\ta\tb\n"
                .to_owned(),
        ),
    ] {
        assert_eq!(hosts(&pod(spec), ips, "cluster.local", "127.0.0.1 host\n"), want);
    }
    let long = "a".repeat(62) + "-" + "b";
    assert_eq!(hostname(&pod(json!({"hostname": long})), "x").0, "a".repeat(62));
}

#[test]
fn name_servers_follow_the_policy() {
    let settings = DnsSettings {
        cluster_dns: addresses(&["10.96.0.10", "fd00::a"]),
        cluster_domain: "cluster.local".to_owned(),
        host: "# made by hand\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch old.test\nsearch lan.test. .\noptions ndots:2 rotate\n".to_owned(),
    };
    let cluster = "10.96.0.10 fd00::a | shop.svc.cluster.local svc.cluster.local cluster.local lan.test | ndots:5";
    let host = "192.0.2.53 2001:db8::53 | lan.test | ndots:2 rotate";
    for (spec, want) in [
        (json!({}), cluster),
        (json!({"dnsPolicy": "ClusterFirst"}), cluster),
        (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), host),
        (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster),
        (json!({"dnsPolicy": "Default"}), host),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["fd00::b"], "searches": ["x.test"], "options": [{"name": "edns0"}]}}),
            "fd00::b | x.test | edns0",
        ),
        (
            json!({"dnsPolicy": "Default", "dnsConfig": {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots", "value": "3"}]}}),
            "192.0.2.53 2001:db8::53 | lan.test | ndots:3 rotate",
        ),
    ] {
        let (config, notes) = dns(&pod(spec), &settings);
        let text = [config.servers.join(" "), config.searches.join(" "), config.options.join(" ")].join(" | ");
        assert_eq!((text.as_str(), notes.len()), (want, 0));
    }
    let (config, notes) = dns(&pod(json!({})), &DnsSettings { cluster_dns: Vec::new(), ..settings.clone() });
    assert_eq!((config.servers[0].as_str(), notes[0].0), ("192.0.2.53", "MissingClusterDNS"));
    let many = json!({"dnsConfig": {"nameservers": ["192.0.2.1", "192.0.2.2"], "searches": vec!["y".repeat(254)]}});
    let (config, notes) = dns(&pod(many), &settings);
    assert_eq!((config.servers.len(), config.searches.len(), notes.len()), (3, 4, 2));
}

#[test]
fn maps_of_a_volume_are_quoted_lines() {
    assert_eq!(field_of_volume("metadata.labels", &pod(json!({}))).unwrap(), "app=\"web\"\nzone=\"a\\\"b\"");
    assert_eq!(field_of_volume("metadata.annotations", &pod(json!({}))).unwrap(), "note=\"x\\ny\"");
    assert_eq!(field_of_volume("metadata.annotations['note']", &pod(json!({}))).unwrap(), "x\ny");
}
