//! Certificates that openssl asks for and kubectl approves, and machines that join with a bootstrap token, with the API server and the
//! controller manager killed in between.

use e2e::{Kubectl, Process, Server, twinstack, wait_for};
use std::{path::Path, process::Command, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);
/// Of a Secret that `kubeadm token create` would make.
const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

fn manager(server: &Server, name: &str) -> Process {
    let (kubeconfig, pki) = (server.kubeconfig(), server.folder().join("data/pki"));
    let words = [
        "controller-manager".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--cluster-signing-cert-file={}", pki.join("ca.crt").display()),
        format!("--cluster-signing-key-file={}", pki.join("ca.key").display()),
        format!("--root-ca-file={}", pki.join("ca.crt").display()),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Process::start(twinstack(), &words, &server.folder().join(format!("{name}.log")))
}

/// What a program of the machine prints.
fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {words:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A new key, and a request for a certificate with this subject, in base64.
fn request(folder: &Path, name: &str, subject: &str) -> String {
    let (key, csr) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.csr")));
    run(
        "openssl",
        &[
            "req",
            "-new",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            subject,
            "-keyout",
            &text(&key),
            "-out",
            &text(&csr),
        ],
    );
    run("base64", &["-w0", &text(&csr)])
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn csr(name: &str, request: &str, signer: &str) -> String {
    format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec:\n  request: {request}\n  \
         signerName: {signer}\n  expirationSeconds: 3600\n  usages: [digital signature, key encipherment, client auth]\n"
    )
}

fn condition(kubectl: &Kubectl, name: &str) -> String {
    let row = kubectl.ok(&["get", "csr", name, "--no-headers"]);
    row.split_whitespace().last().unwrap_or_default().to_owned()
}

fn becomes(kubectl: &Kubectl, name: &str, wanted: &str) {
    let seen = wait_for(PATIENCE, || (condition(kubectl, name) == wanted).then_some(()));
    assert!(seen.is_some(), "{name} is {}, not {wanted}", condition(kubectl, name));
}

#[test]
fn a_certificate_is_asked_for_approved_signed_and_believed() {
    let mut server = Server::start(&[]);
    let mut first = manager(&server, "first");
    let folder = server.folder().to_owned();
    let asked = request(&folder, "jane", "/O=dev/O=ops/CN=jane");
    let kubectl = server.kubectls().pop().unwrap();
    kubectl.ok_with(&["apply", "-f", "-"], &csr("jane", &asked, "kubernetes.io/kube-apiserver-client"));
    assert_eq!(condition(&kubectl, "jane"), "Pending");
    let masters = request(&folder, "root", "/O=system:masters/CN=root");
    let refused = kubectl.fails(&["apply", "-f", "-"], &csr("root", &masters, "kubernetes.io/kube-apiserver-client"));
    assert!(refused.contains("system:masters group is not allowed"), "{refused}");

    // Approved while nobody signs, and read by a manager that comes later, from a server that was killed.
    first.kill();
    kubectl.ok(&["certificate", "approve", "jane"]);
    assert_eq!(condition(&kubectl, "jane"), "Approved");
    server.crash_and_restart();
    let _second = manager(&server, "second");
    let kubectl = server.kubectls().pop().unwrap();
    becomes(&kubectl, "jane", "Approved,Issued");

    let pem = kubectl.ok(&["get", "csr", "jane", "-o", "jsonpath={.status.certificate}"]);
    let certificate = folder.join("jane.crt");
    std::fs::write(folder.join("jane.b64"), pem).unwrap();
    std::fs::write(&certificate, run("base64", &["-d", &text(&folder.join("jane.b64"))])).unwrap();
    let authority = text(&folder.join("data/pki/ca.crt"));
    let verified = run("openssl", &["verify", "-CAfile", &authority, &text(&certificate)]);
    assert!(verified.ends_with(": OK\n") || verified.ends_with(": OK"), "{verified}");
    let shown = run("openssl", &["x509", "-in", &text(&certificate), "-noout", "-subject", "-ext", "extendedKeyUsage"]);
    assert!(shown.contains("O = dev, O = ops, CN = jane") || shown.contains("O=dev, O=ops, CN=jane"), "{shown}");
    assert!(shown.contains("TLS Web Client Authentication"), "{shown}");

    let config = bare_config(&server, &kubectl);
    let own =
        [config.as_str(), "--client-certificate", &text(&certificate), "--client-key", &text(&folder.join("jane.key"))];
    let me = kubectl.ok(&[
        &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"],
        &own[..],
    ]
    .concat());
    assert_eq!(me, r#"jane ["dev","ops","system:authenticated"]"#);

    // Somebody else says no.
    kubectl.ok_with(&["apply", "-f", "-"], &csr("again", &asked, "kubernetes.io/kube-apiserver-client"));
    kubectl.ok(&["certificate", "deny", "again"]);
    becomes(&kubectl, "again", "Denied");
    // A signer says no: this is no kubelet.
    kubectl.ok_with(&["apply", "-f", "-"], &csr("posing", &asked, "kubernetes.io/kube-apiserver-client-kubelet"));
    kubectl.ok(&["certificate", "approve", "posing"]);
    becomes(&kubectl, "posing", "Approved,Failed");
    let bundle = wait_for(PATIENCE, || {
        let all = kubectl.ok(&["get", "clustertrustbundles", "-o", "name"]);
        all.contains("kubernetes.io:kube-apiserver-serving:").then_some(())
    });
    assert!(bundle.is_some(), "the authorities of the API server are published");
}

/// The flag for a kubeconfig without credentials: the administrator's would come before any other.
fn bare_config(server: &Server, kubectl: &Kubectl) -> String {
    let (config, authority) = (server.folder().join("bare.kubeconfig"), server.folder().join("data/pki/ca.crt"));
    let address = kubectl.ok(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{address}', certificate-authority: {}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c}}}}]\ncurrent-context: c\n",
        authority.display()
    );
    std::fs::write(&config, text).expect("a file");
    format!("--kubeconfig={}", config.display())
}

fn token_secret(extra: &str) -> String {
    let (id, secret) = TOKEN;
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: bootstrap-token-{id}, namespace: kube-system}}\ntype: bootstrap.kubernetes.io/token\n\
         stringData:\n  token-id: {id}\n  token-secret: {secret}\n  usage-bootstrap-authentication: 'true'\n  usage-bootstrap-signing: 'true'\n  \
         auth-extra-groups: system:bootstrappers:kubeadm:default-node-token\n{extra}"
    )
}

#[test]
fn a_machine_joins_with_a_bootstrap_token_until_it_is_over() {
    let mut server = Server::start(&["--enable-bootstrap-token-auth"]);
    let mut joined = manager(&server, "manager");
    let folder = server.folder().to_owned();
    let kubectl = server.kubectls().pop().unwrap();
    kubectl.ok_with(&["apply", "-f", "-"], &token_secret(""));
    for (name, role) in [
        ("bootstrap", "system:node-bootstrapper"),
        ("approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"),
    ] {
        let (role, group) =
            (format!("--clusterrole={role}"), "--group=system:bootstrappers:kubeadm:default-node-token");
        kubectl.ok(&["create", "clusterrolebinding", name, &role, group]);
    }
    kubectl.ok(&["create", "configmap", "cluster-info", "-n", "kube-public", "--from-literal=kubeconfig=text"]);
    let signed = || {
        let shown = "jsonpath={.data.jws-kubeconfig-abcdef}";
        kubectl.ok(&["get", "configmap", "cluster-info", "-n", "kube-public", "-o", shown])
    };
    let signature = wait_for(PATIENCE, || Some(signed()).filter(|text| !text.is_empty()));
    let header = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..";
    assert!(signature.is_some_and(|text| text.starts_with(header)), "cluster-info is signed");

    let token = format!("--token={}.{}", TOKEN.0, TOKEN.1);
    let wrong = format!("--token={}.{}", TOKEN.0, "1123456789abcdef");
    let config = bare_config(&server, &kubectl);
    let me = kubectl.ok(&["auth", "whoami", &config, &token, "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(me, "system:bootstrap:abcdef");
    let refused = kubectl.fails(&["auth", "whoami", &config, &wrong], "");
    assert!(refused.contains("Unauthorized") || refused.contains("logged in"), "{refused}");
    let asked = request(&folder, "node", "/O=system:nodes/CN=system:node:n1");
    let wanted = csr("node-csr", &asked, "kubernetes.io/kube-apiserver-client-kubelet");
    kubectl.ok_with(&["create", "-f", "-", &config, &token], &wanted);
    becomes(&kubectl, "node-csr", "Approved,Issued");

    joined.kill();
    server.crash_and_restart();
    let _again = manager(&server, "again");
    let kubectl = server.kubectls().pop().unwrap();
    kubectl.ok_with(&["apply", "-f", "-"], &token_secret("  expiration: 2020-01-01T00:00:00Z\n"));
    let gone = wait_for(PATIENCE, || {
        let left = kubectl.ok(&["get", "secrets", "-n", "kube-system", "-o", "name"]);
        (!left.contains("bootstrap-token")).then_some(())
    });
    assert!(gone.is_some(), "a token that is over is cleared away");
}
