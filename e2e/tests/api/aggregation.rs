//! Another API server behind this one, as a process of its own, over each family: found, asked, watched, killed and back, and this server
//! killed too. Always with a second Twinstack that serves a definition; where `SAMPLE_APISERVER` names it, with Kubernetes' sample-apiserver.

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{Etcd, Kubectl, Process, Server, twinstack, wait_for};
use kernel::netns::Namespace;
use runtime::{
    kubeconfig::{Credential, Kubeconfig, Url},
    pki::{Authority, Purpose},
    secret::Secret,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const PATIENCE: Duration = Duration::from_secs(120);
const PORT: u16 = 9443;
/// Of the machine, but not of its loopback: the server does not connect to loopback on behalf of others.
const ADDRESSES: [(&str, &str); 2] = [("IPv4", "10.9.0.1"), ("IPv6", "fd09::1")];

/// What the other server serves, and an object of it.
struct Kind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
}

/// A machine with both servers on it.
struct Scene {
    server: Server,
    kubectl: Kubectl,
    files: PathBuf,
    bundle: String,
}

impl Scene {
    /// In a network of its own, which the calling thread enters for good; none where there can be no such thing, which is noted.
    fn new() -> Option<(Namespace, Self)> {
        let Ok(space) = Namespace::new("aggregation") else {
            e2e::skip("aggregation over both families", "run as root on a machine with namespaces and ip");
            return None;
        };
        for (_, address) in ADDRESSES {
            let more: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            space.run("ip", &[&["addr", "add", address, "dev", "lo"], more].concat(), "").expect("an address");
        }
        space.enter().expect("the namespace can be entered");
        let server = Server::start(&[]);
        let kubectl = server.kubectls().pop()?;
        let files = server.folder().join("other");
        fs::create_dir(&files).expect("a folder");
        let now = SystemTime::now();
        let authority = Authority::create("other", now).expect("an authority");
        let purpose = Purpose::Serving { names: vec!["api.wardle.svc".into()], addresses: vec![] };
        let serving = authority.issue(&purpose, now).expect("a certificate");
        fs::write(files.join("tls.crt"), serving.chain_pem()).expect("a file");
        fs::write(files.join("tls.key"), serving.key_pem().expose()).expect("a file");
        let bundle = STANDARD.encode(authority.certificate_pem());
        Some((space, Self { server, kubectl, files, bundle }))
    }

    fn file(&self, name: &str) -> String {
        self.files.join(name).display().to_string()
    }

    fn apply(&self, object: &Value) {
        self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
    }

    /// The Service without a selector, its endpoint of one family, and who answers for the group.
    fn register(&self, kind: &Kind) {
        let Kind { group, version, .. } = kind;
        self.apply(&serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "api", "namespace": "wardle"},
            "spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 443, "targetPort": PORT}]},
        }));
        self.apply(&serde_json::json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": {"name": "api", "namespace": "wardle"}, "caBundle": self.bundle,
            },
        }));
    }

    fn point(&self, family: &str, address: &str) {
        let slices = ["-n", "wardle", "delete", "endpointslices", "-l", "kubernetes.io/service-name=api"];
        self.kubectl.ok(&slices);
        self.apply(&serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("api-{}", family.to_lowercase()), "namespace": "wardle",
                "labels": {"kubernetes.io/service-name": "api"},
            },
            "addressType": family, "ports": [{"port": PORT, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        }));
    }

    fn wait_available(&self, kind: &Kind, status: &str, other: &Process) {
        let name = format!("{}.{}", kind.version, kind.group);
        let path = "jsonpath={.status.conditions[0].status}";
        let says = || self.kubectl.ok(&["get", "apiservice", &name, "-o", path]);
        let found = wait_for(PATIENCE, || (says() == status).then_some(()));
        let whole = || self.kubectl.ok(&["get", "apiservice", &name, "-o", "yaml"]);
        assert!(found.is_some(), "{}\n{}\n{}", whole(), other.output(), self.server.log());
    }
}

fn object(kind: &Kind, name: &str) -> String {
    serde_json::json!({
        "apiVersion": format!("{}/{}", kind.group, kind.version), "kind": kind.kind,
        "metadata": {"name": name, "labels": {"sample-label": "true"}},
    })
    .to_string()
}

/// The other server comes and goes at each address, and this one too.
fn is_served(scene: &mut Scene, kind: &Kind, start: impl Fn(&Scene, &str) -> Process) {
    let plural = format!("{}.{}", kind.plural, kind.group);
    scene.register(kind);
    for (family, address) in ADDRESSES {
        scene.point(family, address);
        let mut other = start(scene, address);
        scene.wait_available(kind, "True", &other);
        let kubectl = scene.kubectl.clone();
        // One that was just started may not be ready to write.
        let name = format!("over-{}", family.to_lowercase());
        let written =
            wait_for(PATIENCE, || kubectl.run_with(&["create", "-f", "-"], &object(kind, &name)).success.then_some(()));
        assert!(written.is_some(), "{}{}", kubectl.fails(&["create", "-f", "-"], &object(kind, &name)), other.output());
        assert!(kubectl.ok(&["api-resources", "-o", "name"]).contains(&plural));
        assert!(kubectl.ok(&["explain", &plural]).contains(kind.kind));
        let documents = kubectl.ok(&["get", "--raw", "/openapi/v3"]);
        assert!(documents.contains(&format!("apis/{}/{}", kind.group, kind.version)), "{documents}");
        let watching = kubectl.background(&["get", &plural, "--watch", "-o", "name"]);
        let seen = |name: &str| wait_for(PATIENCE, || watching.output().contains(name).then_some(()));
        assert!(seen(&name).is_some(), "{}", watching.output());
        let later = format!("{name}-later");
        kubectl.ok_with(&["create", "-f", "-"], &object(kind, &later));
        assert!(seen(&later).is_some(), "{}", watching.output());
        kubectl.ok(&["label", &plural, &name, "a=b"]);
        kubectl.ok(&["patch", &plural, &name, "--type=json", r#"-p=[{"op":"remove","path":"/metadata/labels/a"}]"#]);
        kubectl.ok(&["delete", &plural, &later]);
        let stranger = kubectl.fails(&["get", &plural, "--as=jane"], "");
        assert!(stranger.contains(r#"User "jane" cannot list resource"#), "{stranger}");

        other.kill();
        // A look at its Service now rather than in half a minute.
        kubectl.ok(&["-n", "wardle", "label", "service", "api", "--overwrite", &format!("killed={family}")]);
        scene.wait_available(kind, "False", &other);
        let path = format!("/apis/{}/{}/{}", kind.group, kind.version, kind.plural);
        let away = kubectl.fails(&["get", "--raw", &path], "");
        assert!(away.contains("unable to handle the request"), "{away}");
        assert!(kubectl.ok(&["get", "namespaces", "-o", "name"]).contains("namespace/wardle"), "the rest is served");

        let other = start(scene, address);
        kubectl.ok(&["-n", "wardle", "label", "service", "api", "--overwrite", &format!("killed=not-{family}")]);
        scene.wait_available(kind, "True", &other);
        scene.server.crash_and_restart();
        scene.kubectl = scene.server.kubectls().pop().expect("a kubectl");
        scene.wait_available(kind, "True", &other);
        let found = wait_for(PATIENCE, || {
            scene.kubectl.run(&["get", &plural, "-o", "name"]).stdout.contains(&name).then_some(())
        });
        assert!(found.is_some(), "{}", other.output());
    }
    scene.kubectl.ok(&["delete", "apiservice", &format!("{}.{}", kind.version, kind.group)]);
    let gone = format!("/apis/{}/{}", kind.group, kind.version);
    assert!(scene.kubectl.fails(&["get", "--raw", &gone], "").contains("could not find the requested resource"));
}

const DEFINITION: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "carts.shop.example.com"},
    "spec": {
        "group": "shop.example.com", "scope": "Namespaced", "names": {"plural": "carts", "singular": "cart", "kind": "Cart"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}]
    }
}"#;

/// A second Twinstack, which believes the first one's front proxy.
fn second(scene: &Scene, address: &str) -> Process {
    let words = [
        "apiserver".to_owned(),
        format!("--data-dir={}", scene.file("data")),
        format!("--bind-address={address}"),
        format!("--secure-port={PORT}"),
        format!("--tls-cert-file={}", scene.file("tls.crt")),
        format!("--tls-private-key-file={}", scene.file("tls.key")),
        format!("--requestheader-client-ca-file={}", front_proxy(scene.server.folder()).display()),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let _ = fs::remove_file(scene.file("data/admin.kubeconfig"));
    let process = Process::start(twinstack(), &words, &scene.files.join("second.log"));
    let ready = wait_for(PATIENCE, || process.output().contains("API server is ready").then_some(()));
    assert!(ready.is_some(), "{}", process.output());
    let own = Kubectl::all(&scene.files.join("data/admin.kubeconfig"), &scene.files).pop().expect("a kubectl");
    // Its certificate is for the name by which it is a Service.
    let applied = own
        .run_with(&["--tls-server-name=api.wardle.svc", "--insecure-skip-tls-verify", "apply", "-f", "-"], DEFINITION);
    assert!(applied.success, "{}{}", applied.stderr, process.output());
    process
}

/// Who signs the certificate that the first one shows.
fn front_proxy(folder: &Path) -> PathBuf {
    folder.join("data/pki/front-proxy/ca.crt")
}

#[test]
fn a_second_twinstack_answers_for_a_group_of_the_first_over_each_family() {
    let Some((_space, mut scene)) = Scene::new() else { return };
    scene.kubectl.ok(&["create", "namespace", "wardle"]);
    let kind = Kind { group: "shop.example.com", version: "v1", plural: "carts", kind: "Cart" };
    is_served(&mut scene, &kind, second);
}

#[test]
fn kubernetes_sample_apiserver_is_served_over_each_family() {
    let Some(program) = std::env::var_os("SAMPLE_APISERVER") else { return };
    let Some((_space, mut scene)) = Scene::new() else { return };
    let Some(etcd) = Etcd::start() else { return };
    let kubectl = &scene.kubectl;
    kubectl.ok(&["create", "namespace", "wardle"]);
    kubectl.ok(&["create", "serviceaccount", "apiserver", "-n", "wardle"]);
    let account = "--serviceaccount=wardle:apiserver";
    kubectl.ok(&["create", "clusterrolebinding", "wardle:delegator", "--clusterrole=system:auth-delegator", account]);
    let reader = "--role=extension-apiserver-authentication-reader";
    kubectl.ok(&["create", "rolebinding", "wardle:reader", "-n", "kube-system", reader, account]);
    kubectl.ok_with(
        &["create", "-f", "-"],
        r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "wardle"}, "rules": [
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch"]}
        ]}"#,
    );
    kubectl.ok(&["create", "clusterrolebinding", "wardle", "--clusterrole=wardle", account]);
    let start = |scene: &Scene, address: &str| {
        let kubeconfig = scene.file("account.kubeconfig");
        // The server may have another port since it was killed.
        fs::write(&kubeconfig, account_kubeconfig(scene)).expect("a file");
        let words = [
            format!("--etcd-servers={}", etcd.url()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--secure-port={PORT}"),
            format!("--bind-address={address}"),
            format!("--tls-cert-file={}", scene.file("tls.crt")),
            format!("--tls-private-key-file={}", scene.file("tls.key")),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Process::start(&program, &words, &scene.files.join("sample.log"))
    };
    let kind = Kind { group: "wardle.example.com", version: "v1alpha1", plural: "flunders", kind: "Flunder" };
    is_served(&mut scene, &kind, start);
}

/// How the other server asks this one about tokens and rights.
fn account_kubeconfig(scene: &Scene) -> String {
    let path = "/api/v1/namespaces/wardle/serviceaccounts/apiserver/token";
    let issued = scene.kubectl.ok_with(&["create", "--raw", path, "-f", "-"], r#"{"spec": {}}"#);
    let issued: Value = serde_json::from_str(&issued).expect("a token");
    let token = issued["status"]["token"].as_str().expect("a token").to_owned();
    let view = scene.kubectl.ok(&["config", "view", "--raw", "--minify", "-o", "json"]);
    let view: Value = serde_json::from_str(&view).expect("a kubeconfig");
    let cluster = &view["clusters"][0]["cluster"];
    let authority = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap_or_default());
    let server = cluster["server"].as_str().expect("a server").trim_start_matches("https://");
    let (host, port) = server.rsplit_once(':').expect("a port");
    Kubeconfig {
        user: "apiserver".into(),
        servers: vec![("this".into(), Url::named(host, port.parse().expect("a port")))],
        authority_pem: String::from_utf8(authority.expect("base64")).expect("PEM"),
        credential: Credential::Token(Secret::new(token)),
    }
    .render()
}
