//! What lies on the disk or in etcd: readable by the owner alone, and encrypted where `--encryption-provider-config` says so.

use e2e::{Etcd, KubeApiserver, Kubectl, Process, Server, free_port, twinstack, wait_for};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

const OLD: (&str, &str) = ("old", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
const NEW: (&str, &str) = ("new", "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=");
const IDENTITY: &str = "{identity: {}}";
/// As it is given, and as a Secret holds it.
const PLAINTEXT: [&str; 2] = ["correct-horse-battery", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"];

fn provider(kind: &str, keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    format!("{{{kind}: {{keys: [{}]}}}}", keys.join(", "))
}

/// Writes the file for these resources, and gives the flag.
fn configure(file: &Path, resources: &str, providers: &[&str]) -> String {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [{resources}]\n  providers: [{}]\n",
        providers.join(", ")
    );
    std::fs::write(file, text).expect("the file can be written");
    format!("--encryption-provider-config={}", file.display())
}

fn create_secret(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&["create", "secret", "generic", name, &format!("--from-literal=password={}", PLAINTEXT[0])]);
}

fn password(kubectl: &Kubectl, name: &str) -> String {
    kubectl.ok(&["get", "secret", name, "-o", "jsonpath={.data.password}"])
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Writes every Secret as it is, as the documentation of Kubernetes tells to do after a rotation.
fn rewrite(kubectl: &Kubectl) {
    let all = kubectl.ok(&["get", "secrets", "-A", "-o", "json"]);
    kubectl.ok_with(&["replace", "-f", "-"], &all);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o7777
}

#[test]
fn only_the_owner_reads_what_is_on_the_disk_whoever_made_it() {
    let mut server = Server::start(&[]);
    let data = server.folder().join("data");
    let folders = [data.clone(), data.join("pki")];
    let files = ["state.redb", "admin.kubeconfig", "pki/ca.key", "pki/sa.key", "pki/apiserver.pem", "pki/admin.pem"];
    let files: Vec<PathBuf> = files.iter().map(|name| data.join(name)).collect();
    let look = |when: &str| {
        for folder in &folders {
            assert_eq!(mode(folder), 0o700, "{} {when}", folder.display());
        }
        for file in &files {
            assert_eq!(mode(file), 0o600, "{} {when}", file.display());
        }
    };
    look("as made");
    server.process().kill();
    let open = |path: &PathBuf, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode can be set");
    };
    folders.iter().for_each(|folder| open(folder, 0o755));
    files.iter().for_each(|file| open(file, 0o644));
    server.crash_and_restart();
    look("after a start on what others could read");
}

#[test]
fn a_data_folder_that_everyone_shares_is_refused() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder can be made");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).expect("a mode can be set");
    let port = format!("--secure-port={}", free_port());
    let words = ["apiserver", "--bind-address=127.0.0.1", &port, &format!("--data-dir={}", shared.display())];
    let mut process = Process::start(twinstack(), &words, &folder.path().join("log"));
    assert!(process.ended(Duration::from_secs(60)).is_some_and(|status| !status.success()), "{}", process.output());
    assert!(
        process.output().contains("--data-dir") && process.output().contains("shared by everyone"),
        "{}",
        process.output()
    );
    assert_eq!(mode(&shared), 0o1777, "and left as it is");
}

#[test]
fn the_embedded_file_holds_no_plaintext_and_keys_are_rotated() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("encryption.yaml");
    let flag = configure(&file, "secrets", &[&provider("secretbox", &[OLD]), IDENTITY]);
    let mut server = Server::start(&[&flag]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    create_secret(&kubectl, "a");
    kubectl.ok(&["patch", "secret", "a", "-p", r#"{"metadata":{"labels":{"changed":"once"}}}"#]);
    kubectl.ok(&["create", "configmap", "c", "--from-literal=a=no-secret-at-all"]);
    kubectl.ok(&["create", "secret", "generic", "gone", &format!("--from-literal=password={}", PLAINTEXT[0])]);
    kubectl.ok(&["delete", "secret", "gone"]);
    let state = server.folder().join("data/state.redb");
    let look = |expected: &[&str], absent: &[&str]| {
        let bytes = std::fs::read(&state).expect("the file can be read");
        expected.iter().for_each(|text| assert!(holds(&bytes, text), "{text} is not there"));
        absent.iter().for_each(|text| assert!(!holds(&bytes, text), "{text} is there"));
    };
    look(&["k8s:enc:secretbox:v1:old:", "no-secret-at-all"], &PLAINTEXT);

    configure(&file, "secrets", &[&provider("aesgcm", &[NEW]), &provider("secretbox", &[OLD])]);
    server.crash_and_restart();
    let Some(kubectl) = server.kubectls().pop() else { return };
    assert_eq!(password(&kubectl, "a"), PLAINTEXT[1], "the old key still reads");
    rewrite(&kubectl);
    look(&["k8s:enc:aesgcm:v1:new:"], &PLAINTEXT);

    configure(&file, "secrets", &[&provider("aesgcm", &[NEW])]);
    server.crash_and_restart();
    let Some(kubectl) = server.kubectls().pop() else { return };
    assert_eq!(password(&kubectl, "a"), PLAINTEXT[1], "every value has the new key now");

    configure(&file, "secrets", &[&provider("aescbc", &[NEW]), IDENTITY]);
    let message = server.crash_and_fail();
    for part in ["secrets/default/a", "aesgcm", "new"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains(NEW.1) && !message.contains(PLAINTEXT[0]), "{message}");
}

#[test]
fn values_in_etcd_have_upstreams_form_and_keys_are_rotated() {
    let Some(etcd) = Etcd::start() else { return };
    let stored = |name: &str| etcd.get_bytes(&format!("/registry/secrets/default/{name}"));
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("encryption.yaml");
    let etcd_flag = format!("--etcd-servers={}", etcd.url());
    let flag = configure(&file, "'*.*'", &[IDENTITY]);
    let mut server = Server::start(&[&flag, &etcd_flag]);
    let Some(mut kubectl) = server.kubectls().pop() else { return };
    create_secret(&kubectl, "plain");
    assert!(holds(&stored("plain"), PLAINTEXT[1]));

    let mut keys = [provider("aescbc", &[OLD]), provider("secretbox", &[NEW]), provider("aesgcm", &[NEW, OLD])];
    for (kind, key) in [("aescbc", "old"), ("secretbox", "new"), ("aesgcm", "new")] {
        let first = keys.iter().position(|provider| provider.contains(kind)).expect("it is one of them");
        keys.swap(0, first);
        configure(&file, "secrets, configmaps", &[&keys[0], &keys[1], &keys[2], IDENTITY]);
        server.crash_and_restart();
        kubectl = server.kubectls().pop().expect("there was one before");
        assert_eq!(password(&kubectl, "plain"), PLAINTEXT[1], "what was there is read, identity last");
        create_secret(&kubectl, kind);
        let prefix = format!("k8s:enc:{kind}:v1:{key}:");
        let bytes = stored(kind);
        assert!(bytes.starts_with(prefix.as_bytes()), "{}", String::from_utf8_lossy(&bytes));
        assert!(PLAINTEXT.iter().all(|text| !holds(&bytes, text)));
        assert_eq!(password(&kubectl, kind), PLAINTEXT[1]);
        rewrite(&kubectl);
        assert!(stored("plain").starts_with(prefix.as_bytes()), "written again it has the first key");
        kubectl.ok(&["create", "service", "clusterip", kind, "--tcp=80"]);
        assert!(
            etcd.get(&format!("/registry/services/specs/default/{kind}")).contains("clusterIPs"),
            "not listed, not encrypted"
        );
    }

    // Somebody else writes what this server cannot read: an error, not an empty list.
    let other = folder.path().join("other.yaml");
    let other_flag =
        configure(&other, "secrets", &[&provider("aescbc", &[("theirs", NEW.1), OLD]), &keys[0], &keys[1], &keys[2]]);
    let second = Server::start(&[&other_flag, &etcd_flag]);
    let Some(theirs) = second.kubectls().pop() else { return };
    create_secret(&theirs, "foreign");
    let refused = wait_for(Duration::from_secs(30), || {
        let listed = kubectl.run(&["get", "secrets"]);
        (!listed.success).then_some(listed.stderr)
    });
    let refused = refused.expect("the list is refused");
    for part in ["secrets/default/foreign", "aescbc", "theirs", "--encryption-provider-config"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(
        !kubectl.run(&["get", "secret", "foreign"]).success && !kubectl.run(&["get", "secrets", "-l", "a=b"]).success
    );
    assert_eq!(password(&kubectl, "plain"), PLAINTEXT[1], "others are still read");
    kubectl.ok(&["get", "configmaps"]);
    let message = server.crash_and_fail();
    assert!(message.contains("secrets/default/foreign") && message.contains("theirs"), "{message}");
}

#[test]
fn mistakes_in_the_file_stop_the_start_with_their_field() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("encryption.yaml");
    let flag = configure(
        &file,
        "secrets",
        &["{kms: {name: x, endpoint: 'unix:///x'}}", &provider("aescbc", &[("a", "c2hvcnQ=")])],
    );
    let data = format!("--data-dir={}", folder.path().join("data").display());
    let words = ["apiserver", "--bind-address=127.0.0.1", "--secure-port=0", &data, &flag];
    let mut process = Process::start(twinstack(), &words, &folder.path().join("log"));
    assert!(process.ended(Duration::from_secs(60)).is_some_and(|status| !status.success()), "{}", process.output());
    let message = process.output();
    for part in [
        "--encryption-provider-config",
        "resources[0].providers[0].kms",
        "resources[0].providers[1].aescbc.keys[0].secret",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("c2hvcnQ="), "{message}");
}

/// A comparison, not a test that CI needs: runs where `KUBE_APISERVER` names one.
#[test]
fn kube_apiserver_with_the_same_file_reads_and_writes_the_same_values() {
    if KubeApiserver::program().is_none() {
        return;
    }
    let Some(etcd) = Etcd::start() else { return };
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("encryption.yaml");
    let ranges = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
    let etcd_flag = format!("--etcd-servers={}", etcd.url());
    for kind in ["aescbc", "aesgcm", "secretbox"] {
        let others = ["aescbc", "aesgcm", "secretbox"].map(|kind| provider(kind, &[OLD]));
        let flag = configure(
            &file,
            "secrets",
            &[
                &provider(kind, &[NEW]),
                &others[0],
                &others[1],
                &others[2],
                &provider("aescbc", &[NEW]),
                &provider("aesgcm", &[NEW]),
                &provider("secretbox", &[NEW]),
                IDENTITY,
            ],
        );
        let server = Server::start(&[&etcd_flag, ranges, &flag]);
        let Some(ours) = server.kubectls().pop() else { return };
        let (here, there) = (format!("ours-{kind}"), format!("theirs-{kind}"));
        create_secret(&ours, &here);
        let Some(peer) = KubeApiserver::start_with(&server, &etcd, "127.0.0.1", ranges, &[&flag]) else { return };
        create_secret(&peer.kubectl, &there);
        for name in [&here, &there] {
            let stored = etcd.get_bytes(&format!("/registry/secrets/default/{name}"));
            assert!(stored.starts_with(format!("k8s:enc:{kind}:v1:new:").as_bytes()), "{name}");
            assert_eq!(
                (password(&ours, name), password(&peer.kubectl, name)),
                (PLAINTEXT[1].into(), PLAINTEXT[1].into())
            );
        }
    }
}
