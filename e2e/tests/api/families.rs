//! The four shapes of a cluster as kubectl shows them: IPv4, IPv6, and both in either order.

use e2e::{Kubectl, Server};

const SHAPES: [(&str, &str); 4] = [
    ("10.96.0.0/16", "IPv4"),
    ("fd00:10:96::/112", "IPv6"),
    ("10.96.0.0/16,fd00:10:96::/112", "IPv4,IPv6"),
    ("fd00:10:96::/112,10.96.0.0/16", "IPv6,IPv4"),
];

fn start(ranges: &str) -> Server {
    Server::start(&[&format!("--service-cluster-ip-range={ranges}"), "--disable-admission-plugins=ServiceAccount"])
}

fn families_of(addresses: &str) -> String {
    let family = |ip: &str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    addresses.split_whitespace().map(family).collect::<Vec<_>>().join(",")
}

fn service(kubectl: &Kubectl, name: &str, policy: &str) -> (String, String) {
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ipFamilyPolicy: {policy}, ports: [{{port: 80}}]}}\n"
    );
    kubectl.ok_with(&["apply", "-f", "-"], &text);
    let field = |path: &str| kubectl.ok(&["get", "service", name, "-o", &format!("jsonpath={{{path}}}")]);
    (field(".spec.ipFamilies[*]").replace(' ', ","), families_of(&field(".spec.clusterIPs[*]")))
}

#[test]
fn services_follow_the_order_of_the_ranges() {
    for (ranges, families) in SHAPES {
        let server = start(ranges);
        for kubectl in server.kubectls() {
            let name = |what: &str| format!("{what}-{}", kubectl.version.replace('.', "-"));
            let first = families.split(',').next().unwrap_or_default();
            let single = service(&kubectl, &name("single"), "SingleStack");
            assert_eq!(single, (first.to_owned(), first.to_owned()), "{ranges}");
            let prefer = service(&kubectl, &name("prefer"), "PreferDualStack");
            assert_eq!(prefer, (families.to_owned(), families.to_owned()), "{ranges}");
            if !families.contains(',') {
                let text = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}\n";
                let refused = kubectl.fails(&["create", "-f", "-"], text);
                assert!(refused.contains("spec.ipFamilyPolicy"), "{refused}");
            }
            let kubernetes =
                kubectl.ok(&["get", "service", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIPs[*]}"]);
            assert_eq!(families_of(&kubernetes), first, "{ranges}");
        }
    }
}

#[test]
fn pods_and_nodes_show_every_address_in_their_order() {
    for (pod_ips, host_ips) in [
        (vec!["10.0.0.7"], vec!["192.0.2.1"]),
        (vec!["fd00::7"], vec!["2001:db8::1"]),
        (vec!["10.0.0.7", "fd00::7"], vec!["192.0.2.1", "2001:db8::1"]),
        (vec!["fd00::7", "10.0.0.7"], vec!["2001:db8::1", "192.0.2.1"]),
    ] {
        let server = start("10.96.0.0/16,fd00:10:96::/112");
        for kubectl in server.kubectls() {
            let objects = |ips: &[&str], key: &str| {
                let list: Vec<String> = ips.iter().map(|ip| format!(r#"{{"{key}":"{ip}"}}"#)).collect();
                format!("[{}]", list.join(","))
            };
            let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
            kubectl.ok_with(&["create", "-f", "-"], pod);
            kubectl.ok(&["config", "set-context", "--current", "--namespace=default"]);
            let status = format!(
                r#"{{"status":{{"phase":"Running","podIPs":{},"hostIPs":{},"podIP":"{}","hostIP":"{}"}}}}"#,
                objects(&pod_ips, "ip"),
                objects(&host_ips, "ip"),
                pod_ips[0],
                host_ips[0]
            );
            kubectl.patch_status("/api/v1", "pods", "p", &status);
            let wide = kubectl.ok(&["get", "pod", "p", "-o", "wide"]);
            assert!(wide.contains(pod_ips[0]), "{wide}");
            let described = kubectl.ok(&["describe", "pod", "p"]);
            for ip in &pod_ips {
                assert!(
                    described.contains(&format!("IP:  {ip}")) || described.contains(&format!("IP:           {ip}")),
                    "{ip}\n{described}"
                );
            }
            let node = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n"}},"status":{{"addresses":[{}]}}}}"#,
                host_ips
                    .iter()
                    .map(|ip| format!(r#"{{"type":"InternalIP","address":"{ip}"}}"#))
                    .collect::<Vec<_>>()
                    .join(",")
            );
            kubectl.ok_with(&["create", "-f", "-"], &node);
            let wide = kubectl.ok(&["get", "node", "n", "-o", "wide"]);
            assert!(wide.contains(host_ips[0]), "{wide}");
            kubectl.ok(&["delete", "node", "n"]);
            kubectl.ok(&["delete", "pod", "p", "--grace-period=0", "--force"]);
        }
    }
}

#[test]
fn a_cluster_keeps_its_first_family() {
    let mut server = start("10.96.0.0/16,fd00:10:96::/112");
    let ended = server.process().terminate(std::time::Duration::from_secs(60));
    assert!(ended.is_some(), "{}", server.log());
    let data = format!("--data-dir={}", server.folder().join("data").display());
    let output = e2e::run(&[
        "apiserver",
        &data,
        "--secure-port=0",
        "--bind-address=::1",
        "--service-cluster-ip-range=fd00:10:96::/112",
    ]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{complaint}");
    assert!(complaint.contains("--service-cluster-ip-range") && complaint.contains("IPv4"), "{complaint}");
}
