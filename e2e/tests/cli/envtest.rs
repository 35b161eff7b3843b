//! `twinstack envtest`: its folder is used as controller-runtime's envtest uses one, with the flags and files that it gives, over each family.

use e2e::{Kubectl, Process, free_port, run, twinstack, wait_for};
use runtime::{
    kubeconfig::{Credential, Kubeconfig, Url},
    pki::{Authority, Purpose},
};
use std::{
    fs,
    net::IpAddr,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_test_environment_starts_from_its_folder_and_keeps_nothing() {
    for address in ["127.0.0.1", "::1"] {
        let folder = TempDir::new().expect("a folder");
        let (assets, certs) = (folder.path().join("assets"), folder.path().join("certs"));
        let made = run(&["envtest", &assets.display().to_string()]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert!(String::from_utf8_lossy(&made.stdout).starts_with("export KUBEBUILDER_ASSETS=/"));
        // Twice does no harm.
        assert!(run(&["envtest", &assets.display().to_string()]).status.success());
        assert_eq!(fs::read_link(assets.join("etcd")).expect("a link"), twinstack().canonicalize().expect("a path"));

        // The files that envtest makes: a certificate to serve with, and keys of tokens of which one is a certificate.
        fs::create_dir(&certs).expect("a folder");
        let now = SystemTime::now();
        let authority = Authority::create("envtest", now).expect("an authority");
        let ip: IpAddr = address.parse().expect("an address");
        let serving = Purpose::Serving { names: vec!["localhost".into()], addresses: vec![ip] };
        let serving = authority.issue(&serving, now).expect("a certificate");
        let tokens = authority.issue(&Purpose::Client { user: "tokens".into(), groups: vec![] }, now).expect("a key");
        for (name, text) in [
            ("apiserver.crt", serving.chain_pem().to_owned()),
            ("apiserver.key", serving.key_pem().expose().to_owned()),
            ("sa-signer.crt", tokens.chain_pem().to_owned()),
            ("sa-signer.key", tokens.key_pem().expose().to_owned()),
            ("client-cert-auth-ca.crt", authority.certificate_pem().to_owned()),
        ] {
            fs::write(certs.join(name), text).expect("a file");
        }

        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let (etcd_port, port) = (free_port(), free_port());
        let url = format!("http://{host}:{etcd_port}");
        let data = folder.path().join("etcd");
        let words = [
            &format!("--listen-client-urls={url}"),
            &format!("--advertise-client-urls={url}"),
            &format!("--listen-peer-urls=http://{host}:{}", free_port()),
            &format!("--data-dir={}", data.display()),
            "--unsafe-no-fsync=true",
        ];
        let mut etcd = Process::start(assets.join("etcd"), &words, &folder.path().join("etcd.log"));
        let listens = || etcd.output().contains("stands in for etcd").then_some(());
        assert!(wait_for(PATIENCE, listens).is_some(), "{}", etcd.output());

        let at = |name: &str| certs.join(name).display().to_string();
        let words = [
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--bind-address={address}"),
            format!("--cert-dir={}", certs.display()),
            format!("--client-ca-file={}", at("client-cert-auth-ca.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={url}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://{host}:{port}/"),
            format!("--service-account-key-file={}", at("sa-signer.crt")),
            format!("--service-account-signing-key-file={}", at("sa-signer.key")),
            format!(
                "--service-cluster-ip-range={}",
                if address.contains(':') { "fd00:10::/112" } else { "10.0.0.0/24" }
            ),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = folder.path().join("apiserver.log");
        // As envtest does: a client of its own, signed by the authority that it names.
        let admin = Purpose::Client { user: "admin".into(), groups: vec!["system:masters".into()] };
        let kubeconfig = folder.path().join("client.kubeconfig");
        Kubeconfig {
            user: "admin".into(),
            servers: vec![("envtest".into(), Url::named(&host, port))],
            authority_pem: authority.certificate_pem().to_owned(),
            credential: Credential::Certificate(authority.issue(&admin, now).expect("a certificate")),
        }
        .write(&kubeconfig)
        .expect("a file");
        let mut server = Process::start(assets.join("kube-apiserver"), &words, &log);
        let ready = |server: &Process| server.output().contains("API server is ready").then_some(());
        assert!(wait_for(PATIENCE, || ready(&server)).is_some(), "{}", server.output());
        let kubectl = Kubectl::all(&kubeconfig, folder.path()).remove(0);
        assert!(kubectl.ok(&["get", "namespaces", "-o", "name"]).contains("namespace/default"));
        kubectl.ok(&["create", "serviceaccount", "one"]);
        let tokens = "/api/v1/namespaces/default/serviceaccounts/one/token";
        let issued = kubectl.ok_with(&["create", "--raw", tokens, "-f", "-"], r#"{"spec": {"audiences": ["x"]}}"#);
        assert!(issued.contains(r#""token":"ey"#), "{issued}");
        kubectl.ok(&["create", "configmap", "gone"]);
        assert!(server.terminate(PATIENCE).is_some());
        // The next test begins with nothing.
        let mut server = Process::start(assets.join("kube-apiserver"), &words, &folder.path().join("again.log"));
        assert!(wait_for(PATIENCE, || ready(&server)).is_some(), "{}", server.output());
        assert!(!kubectl.ok(&["get", "configmaps", "-o", "name"]).contains("gone"));
        assert!(!data.exists() && !certs.join("state.redb").exists(), "nothing is written");
        assert!(!certs.join("admin.kubeconfig").exists(), "nor is a credential put where only certificates are wanted");
        assert!(server.terminate(PATIENCE).is_some() && etcd.terminate(PATIENCE).is_some());
    }
}
