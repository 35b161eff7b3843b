//! A cluster written as text, one line for each object, and tables of questions about it.

use super::*;
use serde_json::json;

/// The cluster that most tables are about.
pub(super) const CLUSTER: &str = "
namespace testns
namespace unexposedns
namespace kube-system
namespace podns
namespace svcns
service testns/svc1 10.0.0.1 http/TCP/80
service testns/svcempty 10.0.0.1 http/TCP/80
service testns/svc6 1234:abcd::1 http/TCP/80
service testns/svc-dual-stack 10.0.0.3,10::3 http/TCP/80
service testns/hdls1 None http/TCP/80
service testns/hdlsprtls None
external testns/external ext.interwebs.test
external testns/external-to-service svc1.testns.svc.cluster.local.
external testns/external-address 192.0.2.9
service unexposedns/svc1 10.0.0.2 http/TCP/80
service kube-system/kubedns 10.0.0.10 dns/UDP/53
slice testns/svc1/a ep1a=172.0.0.1 http/TCP/80
slice testns/hdls1/a 172.0.0.2,172.0.0.3,dup-name=172.0.0.4,dup-name=172.0.0.5 http/TCP/80
slice testns/hdls1/b 5678:abcd::1,5678:abcd::2 http/TCP/80
slice testns/hdlsprtls/a 172.0.0.20
slice unexposedns/svc1/a 172.0.0.40 http/TCP/80
slice kube-system/kubedns/a 172.0.0.100 dns/UDP/53
pod podns/foo 10.240.0.1,fd00:240::1
";

/// The cluster of these lines; `pod_names` as the option says.
pub(super) fn cluster(lines: &str, pod_names: bool) -> (Index, Arc<Records>) {
    let records = Arc::new(Records::new(5));
    let mut index = Index::new(Arc::clone(&records), &SORTS, Details { pod_names, zones: true, externals: true });
    SORTS.iter().for_each(|sort| index.apply(Change::Listing(*sort), 1));
    // `outside NAMESPACE/SERVICE ADDRESS,=NAME` is about a Service of another line.
    let reached = |path: &str| {
        lines.lines().find_map(|line| line.strip_prefix("outside ")?.strip_prefix(path)?.strip_prefix(' '))
    };
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("outside")) {
        let mut change = object(line);
        if let Change::Service(service) = &mut change {
            service.status = reached(line.split(' ').nth(1).unwrap_or_default()).map(balancer);
        }
        index.apply(change, 1);
    }
    SORTS.iter().for_each(|sort| index.apply(Change::Listed(*sort), 7));
    (index, records)
}

/// A load balancer of these addresses and names.
fn balancer(targets: &str) -> k8s_openapi::api::core::v1::ServiceStatus {
    let ingress = |target: &str| match target.strip_prefix('=') {
        Some(name) => json!({"hostname": name}),
        None => json!({"ip": target}),
    };
    let ingress: Vec<Value> = targets.split(',').map(ingress).collect();
    serde_json::from_value(json!({"loadBalancer": {"ingress": ingress}})).unwrap()
}

fn object(line: &str) -> Change {
    let words: Vec<&str> = line.split(' ').collect();
    let path: Vec<&str> = words[1].split('/').collect();
    let ports = || -> Vec<Value> {
        let port = |text: &&str| {
            let parts: Vec<&str> = text.split('/').collect();
            json!({"name": parts[0], "protocol": parts[1], "port": parts[2].parse::<u16>().unwrap()})
        };
        words[3..].iter().map(port).collect()
    };
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let named = |name: &str| json!({"namespace": path[0], "name": name});
    match words[0] {
        "namespace" => change("namespaces", json!({"metadata": {"name": path[0]}})),
        "service" => {
            let addresses = list(words[2]);
            let spec = json!({"clusterIP": addresses[0], "clusterIPs": addresses, "ports": ports()});
            change("services", json!({"metadata": named(path[1]), "spec": spec}))
        }
        "external" => {
            let spec = json!({"type": "ExternalName", "externalName": words[2]});
            change("services", json!({"metadata": named(path[1]), "spec": spec}))
        }
        // `[hostname=][pod@]address[~zone]`.
        "slice" => {
            let endpoint = |text: String| {
                let (hostname, rest) = text.split_once('=').unwrap_or(("", &text));
                let (pod, rest) = rest.split_once('@').unwrap_or(("", rest));
                let (address, zone) =
                    rest.split_once('~').map_or((rest, None), |(address, zone)| (address, Some(zone)));
                json!({"addresses": [address], "hostname": hostname, "targetRef": {"name": pod}, "zone": zone})
            };
            let mut metadata = named(&format!("{}-{}", path[1], path[2]));
            metadata["labels"] = json!({"kubernetes.io/service-name": path[1]});
            let endpoints: Vec<Value> = list(words[2]).into_iter().map(endpoint).collect();
            let family = if words[2].contains(':') { "IPv6" } else { "IPv4" };
            change(
                "endpointslices",
                json!({"metadata": metadata, "addressType": family, "endpoints": endpoints, "ports": ports()}),
            )
        }
        "pod" => {
            let addresses: Vec<Value> = list(words[2]).into_iter().map(|ip| json!({"ip": ip})).collect();
            change("pods", json!({"metadata": named(path[1]), "status": {"phase": "Running", "podIPs": addresses}}))
        }
        other => panic!("{other}"),
    }
}

/// A table: `name type => answer` in each line. `@` stands for the namespace `testns` of the cluster, `SOA` for the
/// record that every denial of the cluster's zone has.
pub(super) fn holds(table: &str, mut ask: impl FnMut(&str, &str) -> String) {
    let short = |text: &str| {
        let soa = "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5";
        text.replace(&format!("| {soa}"), "| SOA").replace(".testns.svc.cluster.local.", "@")
    };
    let mut wrong = String::new();
    for row in table.lines().filter(|row| !row.is_empty()) {
        let (question, expected) = row.split_once(" => ").unwrap_or_else(|| panic!("{row}"));
        let (name, rtype) = question.trim_end().split_once(' ').unwrap();
        let got = short(&ask(&name.replace('@', ".testns.svc.cluster.local."), rtype.trim()));
        if got != expected {
            wrong += &format!("{question}\n  expected {expected}\n  got      {got}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
