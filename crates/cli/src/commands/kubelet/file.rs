//! The file of `--config` and those of `--config-dir`: flags as keys, or KubeletConfigurations as upstream's kubelet reads them.

use node::kubelet::configuration::DOCUMENT;
use runtime::config::{Settings, document::Document};
use serde_json::{Map, Value};
use std::{
    io,
    path::{Path, PathBuf},
};

/// A file and what it says.
type File = (PathBuf, Map<String, Value>);

/// Adds what the files say. Those of the folder come after the one file, in the order of their names, and change what they name; a flag
/// wins over all of them.
pub(crate) fn read(mut settings: Settings, file: Option<&Path>, folder: Option<&Path>) -> Settings {
    let mut files: Vec<File> = Vec::new();
    if let Some(path) = file {
        match std::fs::read(path).ok().and_then(|content| Document::parse(&content)) {
            Some(document) => files.push((path.to_owned(), document)),
            None => settings = settings.file(path),
        }
    }
    let mut below = Vec::new();
    if let Some(folder) = folder
        && let Err(error) = walk(folder, &mut below)
    {
        settings = settings.wrong_field(folder, "config-dir", None, &format!("cannot be read: {error}"));
    }
    for path in below {
        match std::fs::read(&path).ok().and_then(|content| Document::parse(&content)) {
            Some(document) => files.push((path, document)),
            None => settings = settings.wrong_field(&path, "kind", None, "is no KubeletConfiguration"),
        }
    }
    add(settings, files)
}

/// Every `*.conf` of a folder and of those in it, in the order of names.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "conf") {
            found.push(path);
        }
    }
    Ok(())
}

fn add(mut settings: Settings, files: Vec<File>) -> Settings {
    let mut merged = Value::Object(Map::new());
    for (path, document) in &files {
        for (field, accepted) in [("kind", DOCUMENT.kind), ("apiVersion", DOCUMENT.version)] {
            let given = document.get(field).and_then(Value::as_str).unwrap_or_default();
            if given != accepted {
                let problem = format!("is not read here; accepted: {accepted}");
                settings = settings.wrong_field(path, field, Some(given.to_owned()), &problem);
            }
        }
        let mut document = document.clone();
        for (field, accepted) in [("kind", DOCUMENT.kind), ("apiVersion", DOCUMENT.version)] {
            document.insert(field.to_owned(), accepted.into());
        }
        // An object is always a patch.
        merged = patch::merge::apply(merged.clone(), Value::Object(document)).unwrap_or(merged);
    }
    let Value::Object(merged) = merged else { return settings };
    if files.is_empty() {
        return settings;
    }
    let read = DOCUMENT.read(&merged);
    let place = |field: &str| {
        let named = files.iter().rev().find(|(_, document)| names(document, field));
        named.or_else(|| files.last()).map(|(path, _)| path.clone()).unwrap_or_default()
    };
    if !read.idle.is_empty() {
        anstream::eprintln!(
            "\x1b[1;33mwarning:\x1b[0m {}: no effect here: {}",
            place(&read.idle[0]).display(),
            read.idle.join(", ")
        );
    }
    for given in read.values {
        let path = place(given.field);
        settings = settings.fields(&path, [(given.flag, given.field, absolute(given.flag, given.text, &path))]);
    }
    for problem in read.problems {
        settings = settings.wrong_field(&place(&problem.field), &problem.field, problem.value, &problem.problem);
    }
    settings
}

/// Whether a file says something about a field.
fn names(document: &Map<String, Value>, field: &str) -> bool {
    let mut words = field.split('.');
    let first = words.next().and_then(|word| document.get(word));
    words.try_fold(first, |value, word| value.map(|value| value.get(word))).flatten().is_some()
}

/// Files are looked for beside the one that names them.
fn absolute(flag: &str, text: String, path: &Path) -> String {
    const PATHS: &[&str] =
        &["pod-manifest-path", "tls-cert-file", "tls-private-key-file", "client-ca-file", "resolv-conf"];
    match path.parent() {
        Some(folder) if PATHS.contains(&flag) => folder.join(text).display().to_string(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(more: &str) -> String {
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{more}")
    }

    #[test]
    fn files_of_a_folder_change_what_they_name_and_a_flag_wins() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "kubelet.yaml",
            &head("maxPods: 10\nport: 1\nevictionHard: {memory.available: 1Mi}\nclusterDNS: [10.0.0.1]\n"),
        );
        std::fs::create_dir_all(folder.path().join("d/sub")).unwrap();
        write("d/20.conf", &head("maxPods: 30\nevictionHard: {nodefs.available: 5%}\n"));
        write(
            "d/10.conf",
            &head("maxPods: 20\nclusterDNS: ['fd00::1']\nauthentication: {x509: {clientCAFile: ca.crt}}\n"),
        );
        write("d/ignored.yaml", "nonsense");
        let flags = [("port".to_owned(), "2".to_owned())];
        let settings = Settings::new("kubelet").flags(flags);
        let settings = read(settings, Some(&folder.path().join("kubelet.yaml")), Some(&folder.path().join("d")));
        let text = |name: &str| settings.text(name).unwrap_or_default();
        assert_eq!((text("max-pods"), text("port"), text("cluster-dns")), ("30".into(), "2".into(), "fd00::1".into()));
        assert_eq!(text("eviction-hard"), "memory.available<1Mi,nodefs.available<5%");
        assert_eq!(text("client-ca-file"), folder.path().join("d/ca.crt").display().to_string());
    }

    #[test]
    fn every_mistake_is_told_with_the_file_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("kubelet.yaml", &head("maxPod: 10\n"));
        std::fs::create_dir(folder.path().join("d")).unwrap();
        write("d/10.conf", &head("port: x\n"));
        write("d/20.conf", "apiVersion: v2\nkind: KubeletConfiguration\n");
        write("d/30.conf", "max-pods: 5\n");
        let settings =
            read(Settings::new("kubelet"), Some(&folder.path().join("kubelet.yaml")), Some(&folder.path().join("d")));
        let mistakes = settings.read(|_| Some(())).unwrap_err().to_string();
        for part in [
            "kubelet.yaml",
            "maxPod",
            "did you mean maxPods?",
            "10.conf",
            "port",
            "a whole number",
            "20.conf",
            "v2",
            "30.conf",
            "is no KubeletConfiguration",
        ] {
            assert!(mistakes.contains(part), "{part}: {mistakes}");
        }
    }
}
