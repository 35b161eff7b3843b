//! Two servers on one etcd: either sees what the other writes, watches included, in the keys that Kubernetes uses.

use e2e::{Etcd, Server, free_port, wait_for};
use std::time::Duration;

#[test]
fn two_servers_are_one_api() {
    let Some(etcd) = Etcd::start() else { return };
    let flag = format!("--etcd-servers={}", etcd.url());
    let (one, two) = (Server::start(&[&flag]), Server::start(&[&flag]));
    for (here, there) in one.kubectls().into_iter().zip(two.kubectls()) {
        let name = format!("seen-{}", here.version.replace('.', "-"));
        let watch = there.background(&["get", "configmaps", "-w", "-o", "name"]);
        let shown = |row: &str, times: usize| {
            let seen =
                wait_for(Duration::from_secs(60), || (watch.output().matches(row).count() >= times).then_some(()));
            assert!(seen.is_some(), "{row}: {}", watch.output());
        };
        here.ok(&["create", "configmap", "first"]);
        shown("configmap/first", 1);
        here.ok(&["create", "configmap", &name, "--from-literal=a=1"]);
        assert_eq!(there.ok(&["get", "configmap", &name, "-o", "jsonpath={.data.a}"]), "1", "at once, not later");
        there.ok(&["patch", "configmap", &name, "-p", r#"{"data":{"a":"2"}}"#]);
        assert_eq!(here.ok(&["get", "configmap", &name, "-o", "jsonpath={.data.a}"]), "2");
        shown(&format!("configmap/{name}"), 2);
        let stored = etcd.get(&format!("/registry/configmaps/default/{name}"));
        assert!(stored.contains(r#""kind":"ConfigMap""#), "{stored}");
        here.ok(&["create", "service", "clusterip", &name, "--tcp=80"]);
        assert!(etcd.get(&format!("/registry/services/specs/default/{name}")).contains("clusterIPs"));
        there.ok(&["delete", "service,configmap", &name]);
        there.ok(&["delete", "configmap", "first"]);
    }
}

#[test]
fn neither_of_two_servers_hands_out_an_address_twice() {
    let Some(etcd) = Etcd::start() else { return };
    let flag = format!("--etcd-servers={}", etcd.url());
    let ranges = "--service-cluster-ip-range=10.9.0.0/27,fd00:9::/123";
    let (one, two) = (Server::start(&[&flag, ranges]), Server::start(&[&flag, ranges]));
    let (Some(here), Some(there)) = (one.kubectls().pop(), two.kubectls().pop()) else { return };
    let make = |kubectl: &e2e::Kubectl, name: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ipFamilyPolicy: RequireDualStack, ports: [{{port: 80}}]}}\n"
        );
        kubectl.ok_with(&["create", "-f", "-"], &text);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..10).for_each(|index| make(&here, &format!("here-{index}"))));
        scope.spawn(|| (0..10).for_each(|index| make(&there, &format!("there-{index}"))));
    });
    let ips = here.ok(&["get", "services", "-A", "-o", "jsonpath={.items[*].spec.clusterIPs[*]}"]);
    let mut ips: Vec<&str> = ips.split_whitespace().collect();
    let all = ips.len();
    ips.sort_unstable();
    ips.dedup();
    assert_eq!((all >= 40, ips.len()), (true, all), "{ips:?}");
}

#[test]
fn the_kubernetes_service_leads_to_every_live_server_and_to_no_other() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--etcd-servers={}", etcd.url());
    // One port, as in a real cluster: one server listens on each loopback address.
    let port = format!("--secure-port={}", free_port());
    let both = "--dual-stack-kubernetes-service";
    let start = |bind: &str, advertise: &str| {
        Server::start(&[
            &store,
            &port,
            both,
            &format!("--bind-address={bind}"),
            &format!("--advertise-address={advertise}"),
        ])
    };
    let one = start("127.0.0.1", "192.0.2.1,2001:db8::1");
    let mut two = start("::1", "192.0.2.2,2001:db8::2");
    let Some(kubectl) = one.kubectls().pop() else { return };
    let addresses = |slice: &str| {
        let path = "jsonpath={.endpoints[*].addresses[*]}";
        let found = kubectl.ok(&["get", "endpointslice", slice, "-o", path]);
        let mut found: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
        found.sort();
        found
    };
    let until = |want: [&[&str]; 2]| {
        let both = || (addresses("kubernetes") == want[0] && addresses("kubernetes-ipv6") == want[1]).then_some(());
        let found = wait_for(Duration::from_secs(60), both);
        assert!(found.is_some(), "{:?} {:?}", addresses("kubernetes"), addresses("kubernetes-ipv6"));
    };
    let all: [&[&str]; 2] = [&["192.0.2.1", "192.0.2.2"], &["2001:db8::1", "2001:db8::2"]];
    let first: [&[&str]; 2] = [&["192.0.2.1"], &["2001:db8::1"]];
    until(all);
    assert!(two.process().terminate(Duration::from_secs(60)).is_some());
    until(first);
    let mut two = start("::1", "192.0.2.2,2001:db8::2");
    until(all);
    two.process().kill();
    until(first);
}
