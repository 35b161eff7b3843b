//! Directories on a disk: whole or not at all, and read back.

use super::cluster;
use crate::{Overwrite, WriteError, objects, secret_paths, settings, write};
use runtime::pki::{Authority, Bundle, Identity};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

const INPUT: &str = include_str!("../../../../testdata/init/kubeadm-v4v6/input.yaml");

fn write_to(target: &Path, overwrite: Overwrite) -> Result<(), WriteError> {
    write(&cluster(INPUT), "1.2.3", target, overwrite, SystemTime::now())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn everything_is_there_and_secrets_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/lab");
    write_to(&target, Overwrite::No).unwrap();
    assert_eq!(
        names(&target),
        [
            "admin.conf",
            "components",
            "controller-manager.conf",
            "crds",
            "kubelet.conf",
            "manifests",
            "objects",
            "pki",
            "proxy.conf",
            "super-admin.conf",
            "twinstack-init.json"
        ]
    );
    assert_eq!(names(&folder.path().join("deep")), ["lab"]);
    for path in secret_paths(&cluster(INPUT)) {
        let mode = fs::metadata(target.join(&path)).unwrap().permissions().mode() & 0o777;
        let expected = if path.ends_with(".crt") { 0o644 } else { 0o600 };
        assert_eq!(mode, expected, "{path}");
    }
    assert_eq!(fs::metadata(target.join("pki")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_servers_certificate_names_both_families() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("lab");
    write_to(&target, Overwrite::No).unwrap();
    let pki = target.join("pki");
    Identity::load_pair(&pki.join("apiserver.crt"), &pki.join("apiserver.key")).unwrap();
    Bundle::load(&pki.join("ca.crt")).unwrap();
    let config = fs::read_to_string(target.join("admin.conf")).unwrap();
    assert!(config.contains("https://api.lab.example.test:6443"), "the endpoint that stands for all servers");
    let config = fs::read_to_string(target.join("controller-manager.conf")).unwrap();
    assert!(config.contains("https://10.90.0.2:8443"), "the server beside it");
}

#[test]
fn what_is_there_is_left_alone_unless_it_is_ours_and_force_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("lab");
    fs::create_dir(&target).unwrap();
    write_to(&target, Overwrite::No).unwrap();
    assert!(matches!(write_to(&target, Overwrite::No), Err(WriteError::NotEmpty { .. })));

    let ca = fs::read(target.join("pki/ca.crt")).unwrap();
    let serving = fs::read(target.join("pki/apiserver.crt")).unwrap();
    fs::write(target.join("objects/99-extra.yaml"), "x").unwrap();
    write_to(&target, Overwrite::Ours).unwrap();
    assert_eq!(fs::read(target.join("pki/ca.crt")).unwrap(), ca, "the authority stays");
    assert_ne!(fs::read(target.join("pki/apiserver.crt")).unwrap(), serving, "what it signs is new");
    assert!(!target.join("objects/99-extra.yaml").exists());
    Authority::load_or_create(&target.join("pki"), "other", SystemTime::now()).unwrap();

    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("precious"), "x").unwrap();
    assert!(matches!(write_to(&foreign, Overwrite::Ours), Err(WriteError::NotOurs { .. })));
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(write_to(&file, Overwrite::Ours), Err(WriteError::Machine { .. })));
    assert_eq!(names(folder.path()), ["file", "foreign", "lab"], "nothing half-written is left");
}

#[test]
fn a_directory_is_read_back_with_paths_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("lab");
    write_to(&target, Overwrite::No).unwrap();
    let settings = settings(&target).unwrap();
    let get = |name: &str| settings.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone());
    assert_eq!(get("cert-dir").map(PathBuf::from), Some(target.join("pki")));
    assert_eq!(get("tls-cert-file").map(PathBuf::from), Some(target.join("pki/apiserver.crt")));
    assert_eq!(get("service-cluster-ip-range").as_deref(), Some("10.96.0.0/16,fd00:10:96::/112"));
    assert_eq!(get("etcd-certfile").as_deref(), Some("/etc/etcd/client.crt"), "what lies elsewhere stays there");
    assert_eq!(get("data-dir"), None);

    let kinds: Vec<String> =
        objects(&target).unwrap().iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
    let (definitions, others) = kinds.split_at(api::config::definitions().len());
    assert!(definitions.iter().all(|kind| kind == "CustomResourceDefinition"), "{definitions:?}");
    assert_eq!(
        others,
        [
            "Namespace",
            "Namespace",
            "Infrastructure",
            "Network",
            "DNS",
            "Ingress",
            "FeatureGate",
            "IngressController",
            "ClusterRoleBinding",
            "ClusterRoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding"
        ]
    );
}

#[test]
fn a_directory_that_is_not_ours_or_damaged_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let problem = objects(folder.path()).unwrap_err().to_string();
    assert!(problem.contains("was not written by `twinstack init`"), "{problem}");
    let target = folder.path().join("lab");
    write_to(&target, Overwrite::No).unwrap();
    for (content, expected) in [("a: [", "99-bad.yaml"), ("a: b", "apiVersion or kind is missing")] {
        fs::write(target.join("objects/99-bad.yaml"), content).unwrap();
        let problem = objects(&target).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
    fs::write(target.join("components/apiserver.yaml"), "a: [b]").unwrap();
    assert!(settings(&target).unwrap_err().to_string().contains("a: is not a text"));
}
