//! Takes a lab away: processes, mounts, cgroups, namespaces, the interface. Whatever of it is there, and nothing else: called at the end, and
//! at the beginning for what a killed process left.

use crate::Home;
use kernel::{child, mount, netns, process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long containers have to end by themselves, then everything to be gone.
const GRACE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// What is left of a lab, in words; nothing after a sweep that worked.
#[must_use]
pub fn remains(home: &Home) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    found.extend(processes(home).into_iter().map(|id| format!("process {id}")));
    found.extend(mounts(home).into_iter().map(|path| format!("mount {}", path.display())));
    found.extend(cgroups(home).into_iter().map(|path| format!("cgroup {}", path.display())));
    found.extend(netns::beginning(&home.prefix()).into_iter().map(|name| format!("network namespace {name}")));
    if Path::new("/sys/class/net").join(home.interface()).exists() {
        found.push(format!("interface {}", home.interface()));
    }
    if home.run.exists() {
        found.push(format!("folder {}", home.run.display()));
    }
    found
}

/// Takes everything away; what could not be is returned.
pub fn sweep(home: &Home) -> Vec<String> {
    // Those who would start containers again go first, then containers are asked, and then nobody is asked any more.
    for id in in_namespaces(home).into_iter().filter(|id| is_kubelet(*id)) {
        child::kill(id);
    }
    let containers = in_cgroups(home);
    containers.iter().for_each(|id| child::terminate(*id));
    until(GRACE, || !containers.iter().any(|id| child::is_alive(*id)));
    for id in in_namespaces(home).into_iter().filter(|id| is_containerd(*id)) {
        child::terminate(id);
    }
    until(GRACE, || !in_namespaces(home).into_iter().any(is_containerd));
    until(PATIENCE, || {
        let alive = processes(home);
        alive.iter().for_each(|id| child::kill(*id));
        alive.is_empty()
    });
    for path in mounts(home) {
        // What is left is told below.
        let _ = mount::detach(&path);
    }
    // A group empties a moment after its last process ended.
    until(PATIENCE, || {
        let left = cgroups(home).into_iter().filter(|path| fs::remove_dir(path).is_err() && path.exists());
        left.count() == 0
    });
    // Its peer is in a namespace that may go on for a moment.
    let _ = process::run("ip", &["link", "delete", &home.interface()], "");
    for name in netns::beginning(&home.prefix()) {
        let _ = netns::delete(&name);
    }
    let _ = fs::remove_dir_all(&home.run);
    forget_addresses(home);
    remains(home)
}

/// Pods are gone, and so nobody has an address of theirs.
fn forget_addresses(home: &Home) {
    for node in fs::read_dir(&home.data).into_iter().flatten().flatten() {
        let _ = fs::remove_dir_all(node.path().join("kubelet/cni"));
    }
}

#[allow(clippy::disallowed_methods, reason = "nothing else runs in this thread: everything has ended or has not begun")]
fn until(within: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < within {
        thread::sleep(PAUSE);
    }
}

fn is_kubelet(id: u32) -> bool {
    child::command_line(id).is_some_and(|line| line.split(' ').nth(1) == Some("kubelet"))
}

fn is_containerd(id: u32) -> bool {
    child::command_line(id).is_some_and(|line| line.split(' ').next().is_some_and(|word| word.ends_with("/containerd")))
}

fn processes(home: &Home) -> BTreeSet<u32> {
    let mut all = in_namespaces(home);
    all.extend(in_cgroups(home));
    all
}

/// Runtimes, kubelets, proxies, shims, and whatever somebody started there by hand.
fn in_namespaces(home: &Home) -> BTreeSet<u32> {
    let names = netns::beginning(&home.prefix());
    names.iter().flat_map(|name| netns::processes(name)).filter(|id| child::is_alive(*id)).collect()
}

/// What runs in containers, which have namespaces of their own.
fn in_cgroups(home: &Home) -> BTreeSet<u32> {
    let lists =
        cgroups(home).into_iter().map(|group| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default());
    let ids = lists.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>());
    ids.filter(|id| child::is_alive(*id)).collect()
}

/// Mounts of containers and volumes, the deepest first.
fn mounts(home: &Home) -> Vec<PathBuf> {
    [&home.run, &home.data].into_iter().flat_map(|folder| mount::below(folder).unwrap_or_default()).collect()
}

/// The cgroups of all nodes in all trees, the innermost first.
fn cgroups(home: &Home) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let prefix = home.prefix();
    let trees = folders(root).into_iter().chain([root.to_owned()]);
    let mut found = Vec::new();
    for group in trees.flat_map(|tree| folders(&tree)) {
        if group.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)) {
            walk(&group, &mut found);
        }
    }
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for below in folders(folder) {
        walk(&below, found);
    }
    found.push(folder.to_owned());
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
