//! What Pods leave on a machine: looked for by tests, and swept up after each.

use kernel::{netns::Namespace, process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Everything that a node without Pods has none of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    pub tasks: Vec<String>,
    pub mounts: Vec<String>,
    pub cgroups: Vec<String>,
    pub folders: Vec<String>,
    /// Interfaces of Pods, and addresses that are taken.
    pub network: Vec<String>,
}

pub(super) fn look(folder: &Path, cgroup: &str, space: &Namespace, tasks: Vec<String>) -> Remains {
    let list = |path: PathBuf| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect()
    };
    let mut folders = list(folder.join("kubelet/pods"));
    folders.extend(list(folder.join("logs")));
    let links = space.run("ip", &["-o", "link"], "").map(|printed| printed.stdout).unwrap_or_default();
    let veths = links.lines().filter(|line| line.contains(" veth")).map(str::to_owned);
    let taken = list(folder.join("kubelet/cni/twinstack"));
    let taken = taken.into_iter().filter(|path| !path.contains("last_reserved") && !path.ends_with("lock"));
    Remains {
        tasks,
        mounts: mounts(folder)
            .into_iter()
            .filter(|mount| !mount.ends_with("/shm") || mount.contains("sandboxes"))
            .collect(),
        cgroups: cgroups(cgroup)
            .into_iter()
            .map(|path| path.display().to_string())
            .filter(|path| path.contains("/pod"))
            .filter(|path| path.contains("kubepods/"))
            .filter(|path| path.rsplit('/').next().is_some_and(|last| last != "burstable" && last != "besteffort"))
            .collect(),
        folders,
        network: veths.chain(taken).collect(),
    }
}

/// Mount points below a folder, innermost last.
fn mounts(folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(1));
    points.filter(|point| point.starts_with(&prefix)).map(str::to_owned).collect()
}

/// Every cgroup of this name and below it, in all trees, innermost first.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let trees = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let trees = trees.chain([root.to_owned()]).map(|tree| tree.join(name.trim_start_matches('/')));
    let mut found = Vec::new();
    for tree in trees.filter(|tree| tree.is_dir()) {
        walk(&tree, &mut found);
    }
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        }
    }
    found.push(folder.to_owned());
}

/// Ends every process in the node's cgroups, and the shims that look after them.
pub(super) fn end(folder: &Path, cgroup: &str, socket: &Path) {
    let shims = shims(socket);
    let gone = crate::wait_for(Duration::from_secs(20), || {
        let mut alive =
            shims.iter().copied().filter(|id| Path::new(&format!("/proc/{id}")).exists()).collect::<BTreeSet<u32>>();
        for group in cgroups(cgroup) {
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            alive.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        alive.retain(|id| fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z ")));
        for id in &alive {
            // It may be gone by now.
            let _ = process::run("kill", &["-KILL", &id.to_string()], "");
        }
        alive.is_empty().then_some(())
    });
    if gone.is_none() {
        eprintln!("processes of {} are still there", folder.display());
    }
}

/// The shims of the containerd at this socket.
pub(super) fn shims(socket: &Path) -> Vec<u32> {
    let socket = socket.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains("containerd-shim") && line.contains(&socket)
    })
    .collect()
}

pub(super) fn unmount(folder: &Path) {
    for point in mounts(folder).into_iter().rev() {
        // Lazily: whoever still has it open loses it when they end.
        let _ = process::run("umount", &["-l", &point], "");
    }
}

/// Makes a cgroup of this name in all trees, with the processors of its parent.
pub(super) fn make_cgroups(name: &str) {
    let root = Path::new("/sys/fs/cgroup");
    let unified = root.join("cgroup.controllers").exists();
    let trees = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let trees: Vec<PathBuf> =
        if unified { vec![root.to_owned()] } else { trees.filter(|tree| tree.is_dir()).collect() };
    for tree in trees {
        let group = tree.join(name.trim_start_matches('/'));
        fs::create_dir_all(&group).expect("a cgroup");
        for file in ["cpuset.cpus", "cpuset.mems"].into_iter().filter(|_| !unified && tree.ends_with("cpuset")) {
            let above = fs::read(tree.join(file)).expect("a file of the kernel");
            fs::write(group.join(file), above).expect("a file of the kernel");
        }
    }
}

pub(super) fn remove_cgroups(name: &str) {
    // A group empties a moment after its last process ended.
    let gone = crate::wait_for(Duration::from_secs(10), || {
        let left = cgroups(name).into_iter().filter(|path| fs::remove_dir(path).is_err() && path.exists()).count();
        (left == 0).then_some(())
    });
    if gone.is_none() {
        eprintln!("cgroups {name} are still there");
    }
}
