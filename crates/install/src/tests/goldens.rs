//! Whole directories, kept in `testdata/init` beside the files they come of. With `TWINSTACK_BLESS=1` they are written anew.

use super::good;
use crate::plan;
use std::{collections::BTreeMap, fs, path::PathBuf};

#[test]
fn directories_are_what_they_were() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/init"));
    for case in ["kubeadm-v4v6", "kubeadm-v6v4", "kubeadm-v6", "install-config-dual"] {
        let folder = root.join(case);
        let text = fs::read_to_string(folder.join("input.yaml")).unwrap();
        let files = plan(&good(&text).cluster, "0.0.0");
        // Definitions are the same for everybody and are in `api`.
        let made: BTreeMap<String, String> = files
            .into_iter()
            .filter(|file| !file.path.starts_with("crds/"))
            .map(|file| (file.path, file.text))
            .collect();
        let expected = folder.join("expected");
        if std::env::var_os("TWINSTACK_BLESS").is_some() {
            let _ = fs::remove_dir_all(&expected);
            for (path, text) in &made {
                let path = expected.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        let kept = kept(&expected, &expected);
        assert_eq!(made.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>(), "{case}");
        for (path, text) in &made {
            assert_eq!(text, &kept[path], "{case}/{path}");
        }
    }
}

fn kept(root: &PathBuf, folder: &PathBuf) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(kept(root, &path));
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    files
}
