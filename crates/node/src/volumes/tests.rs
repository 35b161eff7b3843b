//! Volumes in a folder of the test: files that change at once, owners, what is used, and how it all goes away.

use super::{
    file::{Files, file, inside},
    payload::{Given, files},
    set_up::{Group, Medium, SetUp, tear_down},
    *,
};
use crate::environment::Sources;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

const ALLOCATABLE: Allocatable = Allocatable { cpu_millis: 2000, memory: 4 << 30, ephemeral_storage: 10 << 30 };

struct Known;

impl Sources for Known {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        let map = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "/w=="}});
        (namespace == "shop" && name == "m").then(|| Arc::new(objects::from_value(&map).unwrap()))
    }
    fn secret(&self, _: &str, name: &str) -> Option<Arc<Secret>> {
        (name == "s").then(|| Arc::new(objects::from_value(&json!({"data": {"key": "c2VjcmV0"}})).unwrap()))
    }
    fn services(&self, _: &str) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

fn pod(spec: Value) -> Pod {
    let mut whole = json!({"containers": []});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let metadata = json!({"name": "p", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"}});
    objects::from_value(&json!({"metadata": metadata, "spec": whole})).unwrap()
}

fn volume(source: Value) -> Volume {
    let mut whole = json!({"name": "v"});
    for (key, value) in source.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    pod(json!({"volumes": [whole]})).spec.unwrap().volumes.unwrap().remove(0)
}

fn rendered(source: Value, asked: &BTreeMap<usize, Files>) -> Result<Vec<String>, String> {
    let pod = pod(json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}]}));
    let given = Given { pod: &pod, allocatable: &ALLOCATABLE, sources: &Known, asked };
    let files = files(&volume(source), &given).expect("a volume of files")?;
    let shown =
        |(path, file): (&String, &File)| format!("{path} {:o} {}", file.mode, String::from_utf8_lossy(&file.data));
    Ok(files.iter().map(shown).collect())
}

#[test]
fn objects_become_files() {
    let asked = BTreeMap::from([(2, Files::from([("token".to_owned(), file("t", 0o600))]))]);
    for (source, want) in [
        (json!({"configMap": {"name": "m"}}), vec!["a 644 1", "b 644 2", "c 644 \u{fffd}"]),
        (
            json!({"configMap": {"name": "m", "defaultMode": 0o400, "items": [{"key": "b", "path": "x/y"}, {"key": "a", "path": "z", "mode": 0o440}]}}),
            vec!["x/y 400 2", "z 440 1"],
        ),
        (json!({"configMap": {"name": "gone", "optional": true}}), vec![]),
        (json!({"configMap": {"name": "m", "optional": true, "items": [{"key": "none", "path": "x"}]}}), vec![]),
        (json!({"secret": {"secretName": "s"}}), vec!["key 644 secret"]),
        (
            json!({"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "memory", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}}]}}),
            vec!["labels 644 app=\"web\"", "memory 644 64"],
        ),
        (
            json!({"projected": {"sources": [
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "same"}]}},
                {"secret": {"name": "s", "items": [{"key": "key", "path": "same"}]}},
                {"serviceAccountToken": {"path": "token"}}]}}),
            vec!["same 644 secret", "token 600 t"],
        ),
    ] {
        assert_eq!(rendered(source.clone(), &asked).unwrap(), want, "{source}");
    }
    for (source, want) in [
        (json!({"configMap": {"name": "gone"}}), "configmap \"gone\" not found"),
        (json!({"secret": {"secretName": "gone"}}), "secret \"gone\" not found"),
        (
            json!({"configMap": {"name": "m", "items": [{"key": "none", "path": "x"}]}}),
            "references non-existent config key: none",
        ),
        (
            json!({"secret": {"secretName": "s", "items": [{"key": "key", "path": "../x"}]}}),
            "path \"../x\" must not contain or begin with \"..\"",
        ),
    ] {
        assert_eq!(rendered(source, &asked).unwrap_err(), want);
    }
    assert_eq!(inside("/x"), Err("path \"/x\" must be relative".to_owned()));
    assert_eq!(inside("a/b..c"), Ok(()));
}

fn write(folder: &Path, texts: &[(&str, &str)]) -> bool {
    let files: Files = texts.iter().map(|(path, text)| ((*path).to_owned(), file(*text, 0o640))).collect();
    atomic::write(folder, &files, "2026_01_02_03_04_05", |_| Ok(())).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn files_change_all_at_once_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(write(at, &[("a", "1"), ("sub/b", "2")]));
    assert_eq!(names(at), ["..2026_01_02_03_04_05.000000000", "..data", "a", "sub"]);
    assert_eq!(fs::read_link(at.join("sub")).unwrap(), Path::new("..data/sub"));
    assert_eq!(fs::read_to_string(at.join("sub/b")).unwrap(), "2");
    assert_eq!(fs::metadata(at.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!write(at, &[("a", "1"), ("sub/b", "2")]));
    // Somebody was cut off before the last step.
    fs::create_dir(at.join("..2026_01_01_00_00_00.000000000")).unwrap();
    std::os::unix::fs::symlink("nowhere", at.join("..data_tmp")).unwrap();
    assert!(write(at, &[("a", "3")]));
    assert_eq!(names(at), ["..2026_01_02_03_04_05.000000001", "..data", "a"]);
    assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "3");
    // An object without keys is an empty folder, not an old one.
    assert!(write(at, &[]));
    assert_eq!(names(at), ["..2026_01_02_03_04_05.000000000", "..data"]);
}

#[test]
fn a_folder_lives_through_a_restart_and_goes_with_the_pod() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("pods/u-1/volumes/kubernetes.io~empty-dir/v");
    let own = SetUp::EmptyDir { at: at.clone(), medium: Medium::Disk };
    // The group of whoever runs the test: anybody may give that away.
    let group = Group { id: Some(fs::metadata(folder.path()).unwrap().gid()), on_root_mismatch: false };
    own.apply(group, "x").unwrap();
    assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o7777, 0o2777);
    fs::write(at.join("kept"), "x").unwrap();
    fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
    own.apply(group, "x").unwrap();
    assert!(at.join("kept").exists());
    assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o7777, 0o700);
    tear_down(&folder.path().join("pods/u-1")).unwrap();
    tear_down(&folder.path().join("pods/u-1")).unwrap();
    assert_eq!(names(&folder.path().join("pods")), Vec::<String>::new());
}

#[test]
fn the_group_may_read_what_is_projected() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("v");
    let files = Files::from([("key".to_owned(), file("x", 0o400))]);
    let set_up = SetUp::Files { at: at.clone(), files, in_memory: false };
    let group = Group { id: Some(fs::metadata(folder.path()).unwrap().gid()), on_root_mismatch: true };
    set_up.apply(group, "s").unwrap();
    assert_eq!(fs::metadata(at.join("key")).unwrap().permissions().mode() & 0o777, 0o440);
    let before = fs::read_link(at.join("..data")).unwrap();
    set_up.apply(group, "t").unwrap();
    assert_eq!(fs::read_link(at.join("..data")).unwrap(), before, "nothing changed");
}

#[test]
fn places_on_the_node_are_what_they_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "").unwrap();
    let shown = |name: &str| path(name).display().to_string();
    for (name, kind, want) in [
        ("none", "", Ok(())),
        ("made", "DirectoryOrCreate", Ok(())),
        ("made", "Directory", Ok(())),
        ("made-file", "FileOrCreate", Ok(())),
        ("file", "File", Ok(())),
        ("file", "Directory", Err(format!("hostPath type check failed: {} is not a directory", shown("file")))),
        ("none", "File", Err(format!("hostPath type check failed: {} is not a file", shown("none")))),
        ("file", "Socket", Err(format!("hostPath type check failed: {} is not a socket file", shown("file")))),
        ("file", "Tape", Err("Tape is an invalid volume type".to_owned())),
    ] {
        assert_eq!(host_path::check(&path(name), kind), want, "{name} {kind}");
    }
    assert!(!path("none").exists());
}

#[test]
fn memory_is_limited_by_the_smallest_of_all_limits() {
    let source = |value: Value| volume(json!({"emptyDir": value})).empty_dir.unwrap();
    let limited = pod(json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}]}));
    let free = pod(json!({"containers": [{"name": "c"}]}));
    for (value, pod, want) in [
        (json!({}), &free, Ok(Medium::Disk)),
        (json!({"medium": "Memory"}), &free, Ok(Medium::Memory(Some(4 << 30)))),
        (json!({"medium": "Memory"}), &limited, Ok(Medium::Memory(Some(64 << 20)))),
        (json!({"medium": "Memory", "sizeLimit": "1Mi"}), &limited, Ok(Medium::Memory(Some(1 << 20)))),
        (json!({"medium": "HugePages-2Mi"}), &free, Ok(Medium::HugePages(2 << 20))),
        (
            json!({"medium": "Tape"}),
            &free,
            Err("emptyDir.medium \"Tape\" is not known; accepted are \"\", \"Memory\" and \"HugePages-<size>\""
                .to_owned()),
        ),
    ] {
        assert_eq!(medium(&source(value.clone()), pod, &ALLOCATABLE), want, "{value}");
    }
}

#[test]
fn only_what_a_container_uses_is_made() {
    let pod = pod(json!({
        "volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
        "containers": [{"name": "c", "volumeDevices": [{"name": "b", "devicePath": "/dev/b"}],
            "env": [{"name": "X", "valueFrom": {"fileKeyRef": {"volumeName": "c", "path": "p", "key": "k"}}}]}],
        "ephemeralContainers": [{"name": "e", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
    }));
    assert_eq!(used(&pod).into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}
