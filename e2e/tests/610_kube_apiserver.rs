//! A real kube-apiserver on the same etcd: either reads what the other wrote. Runs when `KUBE_APISERVER` names one; a comparison,
//! not a test that CI needs.

use e2e::{Etcd, Process, Server, wait_for};
use std::time::Duration;

#[test]
fn twinstack_and_kube_apiserver_share_an_etcd() {
    let Some(program) = std::env::var_os("KUBE_APISERVER") else { return };
    let Some(etcd) = Etcd::start() else { return };
    let (ranges, etcd_flag) =
        ("--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112", format!("--etcd-servers={}", etcd.url()));
    let server = Server::start(&[&etcd_flag, ranges]);
    let Some(ours) = server.kubectls().pop() else { return };
    ours.ok(&["create", "configmap", "ours", "--from-literal=a=1"]);
    let dual = "apiVersion: v1\nkind: Service\nmetadata: {name: dual}\nspec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}\n";
    ours.ok_with(&["create", "-f", "-"], dual);

    let (folder, port) = (server.folder().join("peer"), e2e::free_port());
    std::fs::create_dir(&folder).expect("a folder can be made");
    let pki = server.folder().join("data/pki");
    let path = |name: &str| pki.join(name).display().to_string();
    let words = [
        etcd_flag.clone(),
        ranges.to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", path("sa.pub")),
        format!("--service-account-signing-key-file={}", path("sa.key")),
        format!("--client-ca-file={}", path("ca.crt")),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let peer = Process::start(program, &words, &server.folder().join("peer.log"));
    let there = |words: &[&str]| {
        let url = format!("--server=https://127.0.0.1:{port}");
        let mut all = vec!["--insecure-skip-tls-verify", "--certificate-authority=", url.as_str()];
        all.extend(words);
        ours.run(&all)
    };
    let ready = wait_for(Duration::from_secs(90), || there(&["get", "--raw", "/readyz"]).success.then_some(()));
    assert!(ready.is_some(), "{}\n{}", there(&["get", "--raw", "/readyz"]).stderr, peer.output());
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
