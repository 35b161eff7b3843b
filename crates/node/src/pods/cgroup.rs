//! The cgroup of each Pod: made before its sandbox, removed after it, with the Pod's limits in between. Version 2, and version 1 where a machine has only that.
//!
//! The runtime makes the cgroups of containers below it.

use super::resources::{Limits, Qos};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const MOUNT: &str = "/sys/fs/cgroup";
/// Upstream's name for the cgroup of all Pods.
const PODS: &str = "kubepods";
const PERIOD: i64 = 100_000;

/// How this machine has its cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// One tree for all controllers.
    Unified(PathBuf),
    /// A tree for each of these.
    Split(Vec<PathBuf>),
}

/// The path of a Pod's cgroup below every tree.
#[must_use]
pub fn of_pod(root: &str, qos: Qos, uid: &str) -> String {
    let base = format!("{}/{PODS}", root.trim_end_matches('/'));
    match qos.folder() {
        Some(folder) => format!("{base}/{folder}/pod{uid}"),
        None => format!("{base}/pod{uid}"),
    }
}

impl Hierarchy {
    /// What is mounted here.
    #[must_use]
    pub fn find() -> Self {
        let mount = Path::new(MOUNT);
        if mount.join("cgroup.controllers").exists() {
            return Self::Unified(mount.to_owned());
        }
        let trees = fs::read_dir(mount).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut trees: Vec<_> = trees.filter(|path| path.join("cgroup.procs").exists() && !path.is_symlink()).collect();
        trees.sort();
        Self::Split(trees)
    }

    /// Makes a cgroup with these limits, and everything above it.
    pub fn make(&self, path: &str, limits: Limits) -> io::Result<()> {
        let relative = path.trim_start_matches('/');
        match self {
            Self::Unified(mount) => {
                let mut folder = mount.clone();
                for part in Path::new(relative) {
                    enable(&folder);
                    folder.push(part);
                    make_folder(&folder)?;
                }
                set_unified(&folder, limits)
            }
            Self::Split(trees) => {
                for tree in trees {
                    let folder = tree.join(relative);
                    fs::create_dir_all(&folder)?;
                    inherit_cpuset(tree, &folder);
                    match tree.file_name().and_then(|name| name.to_str()) {
                        Some("cpu" | "cpu,cpuacct") => set_cpu(&folder, limits)?,
                        Some("memory") => write(&folder, "memory.limit_in_bytes", limits.memory.unwrap_or(-1))?,
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }

    /// Removes a cgroup and everything below it. That it is gone already is fine; processes in it are an error.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let relative = path.trim_start_matches('/');
        self.trees().iter().try_for_each(|tree| remove(&tree.join(relative)))
    }

    /// The uids of Pods that have a cgroup below this root, and its path.
    #[must_use]
    pub fn pods(&self, root: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let parent = of_pod(root, qos, "");
            let parent = parent.trim_end_matches("pod");
            for tree in self.trees() {
                let entries = fs::read_dir(tree.join(parent.trim_start_matches('/'))).into_iter().flatten().flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                found.extend(names.filter_map(|name| {
                    let uid = name.strip_prefix("pod")?;
                    Some((uid.to_owned(), format!("{parent}{name}")))
                }));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    fn trees(&self) -> &[PathBuf] {
        match self {
            Self::Unified(mount) => std::slice::from_ref(mount),
            Self::Split(trees) => trees,
        }
    }
}

/// Lets the children of a cgroup have controllers; what this machine lacks is left out.
fn enable(folder: &Path) {
    for controller in ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"] {
        // A controller that is not there cannot be had, and one that is enabled stays so.
        let _ = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn set_unified(folder: &Path, limits: Limits) -> io::Result<()> {
    // As runc converts shares of version 1 into a weight.
    let weight = 1 + ((limits.shares - 2) * 9999) / 262_142;
    let most = limits.quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
    for (file, value) in [
        ("cpu.weight", weight.to_string()),
        ("cpu.max", format!("{most} {PERIOD}")),
        ("memory.max", limits.memory.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string())),
    ] {
        if folder.join(file).exists() {
            fs::write(folder.join(file), value)?;
        }
    }
    Ok(())
}

fn set_cpu(folder: &Path, limits: Limits) -> io::Result<()> {
    write(folder, "cpu.shares", limits.shares)?;
    write(folder, "cpu.cfs_period_us", PERIOD)?;
    write(folder, "cpu.cfs_quota_us", limits.quota.unwrap_or(-1))
}

fn write(folder: &Path, file: &str, value: i64) -> io::Result<()> {
    let file = folder.join(file);
    // A kernel without quotas has no such file.
    if file.exists() { fs::write(file, value.to_string()) } else { Ok(()) }
}

/// A cgroup of version 1 has no processors until it is told which.
fn inherit_cpuset(tree: &Path, folder: &Path) {
    if tree.file_name().is_none_or(|name| name != "cpuset") {
        return;
    }
    let mut parents: Vec<_> = folder.ancestors().take_while(|one| *one != tree).collect();
    parents.reverse();
    for one in parents {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = fs::read_to_string(one.join(file)).unwrap_or_default();
            if own.trim().is_empty()
                && let Some(above) = one.parent().and_then(|parent| fs::read_to_string(parent.join(file)).ok())
            {
                // Without them no process can be put here, and that is said then.
                let _ = fs::write(one.join(file), above);
            }
        }
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_below_their_class() {
        assert_eq!(of_pod("/", Qos::Guaranteed, "u"), "/kubepods/podu");
        assert_eq!(of_pod("/n1", Qos::Burstable, "u"), "/n1/kubepods/burstable/podu");
        assert_eq!(of_pod("", Qos::BestEffort, "u"), "/kubepods/besteffort/podu");
    }

    #[test]
    fn what_was_made_is_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let trees = ["cpu", "memory"].map(|name| folder.path().join(name)).to_vec();
        let hierarchy = Hierarchy::Split(trees.clone());
        let path = of_pod("/n1", Qos::Burstable, "u");
        hierarchy.make(&path, Limits::default()).unwrap();
        fs::create_dir(trees[0].join("n1/kubepods/burstable/podu/child")).unwrap();
        assert_eq!(hierarchy.pods("/n1"), [("u".to_owned(), path.clone())]);
        hierarchy.remove(&path).unwrap();
        assert_eq!(hierarchy.pods("/n1"), []);
        hierarchy.remove(&path).unwrap();
    }
}
