//! A real kube-apiserver on the same etcd: either reads what the other wrote. Runs when `KUBE_APISERVER` names one; a comparison,
//! not a test that CI needs.

use e2e::{Etcd, KubeApiserver, Server};

#[test]
fn twinstack_and_kube_apiserver_share_an_etcd() {
    if KubeApiserver::program().is_none() {
        return;
    }
    let Some(etcd) = Etcd::start() else { return };
    let (ranges, etcd_flag) =
        ("--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112", format!("--etcd-servers={}", etcd.url()));
    let server = Server::start(&[&etcd_flag, ranges]);
    let Some(ours) = server.kubectls().pop() else { return };
    ours.ok(&["create", "configmap", "ours", "--from-literal=a=1"]);
    let dual = "apiVersion: v1\nkind: Service\nmetadata: {name: dual}\nspec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}\n";
    ours.ok_with(&["create", "-f", "-"], dual);

    let Some(peer) = KubeApiserver::start(&server, &etcd, "127.0.0.1", ranges) else { return };
    let there = |words: &[&str]| peer.kubectl.run(words);
    assert_eq!(there(&["get", "configmap", "ours", "-o", "jsonpath={.data.a}"]).stdout, "1");
    let ips = ["get", "service", "dual", "-o", "jsonpath={.spec.clusterIPs}"];
    assert_eq!(there(&ips).stdout, ours.ok(&ips));
    assert!(there(&["create", "configmap", "theirs", "--from-literal=b=2"]).success);
    assert_eq!(ours.ok(&["get", "configmap", "theirs", "-o", "jsonpath={.data.b}"]), "2");
    assert!(there(&["create", "service", "clusterip", "theirs", "--tcp=80"]).success);
    assert!(ours.ok(&["get", "service", "theirs", "-o", "jsonpath={.spec.clusterIP}"]).starts_with("10.96."));
    ours.ok(&["delete", "service", "theirs"]);
    assert!(there(&["delete", "service", "dual"]).success);
    let left = ours.ok(&["get", "ipaddresses", "-o", "jsonpath={.items[*].spec.parentRef.name}"]);
    assert_eq!(left, "kubernetes", "addresses went with their Services, whoever deleted them");
}
