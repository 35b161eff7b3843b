//! Replays every input that is checked in: seeds, what fuzzing found worth keeping, and what it once found wrong.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_keeps_its_promise() {
    let mut broken = Vec::new();
    for target in fuzz::targets() {
        let paths = inputs(&corpus().join(target.name));
        assert!(!paths.is_empty(), "{} has no inputs in {}", target.name, corpus().display());
        for path in paths {
            let input = fs::read(&path).expect("an input can be read");
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "the reasons are above; inputs: {broken:#?}");
}

#[test]
fn every_folder_of_inputs_has_a_target() {
    for folder in inputs(&corpus()) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(fuzz::find(name).is_some(), "{}: no target has this name", folder.display());
    }
}
