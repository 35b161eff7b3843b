//! What this machine is: processors, memory, disk, names of kernel and system.

use crate::environment::Allocatable;
use k8s_openapi::api::core::v1::NodeSystemInfo;
use rustix::fs::statvfs;
use std::{fs, path::Path, thread};

/// What of the machine Pods can have, and what its parts are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub cpus: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of the file system of `--root-dir`.
    pub disk: i64,
    pub kernel: String,
    pub os_image: String,
    pub machine_id: String,
    pub boot_id: String,
    pub system_uuid: String,
}

impl Machine {
    /// Reads it from the kernel. What cannot be read is empty.
    #[must_use]
    pub fn look(root: &Path) -> Self {
        let line = |file: &str| fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
        let machine_id = line("/etc/machine-id");
        let system_uuid = Some(line("/sys/class/dmi/id/product_uuid")).filter(|id| !id.is_empty());
        let disk = statvfs(root).map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize)).unwrap_or(0);
        Self {
            cpus: thread::available_parallelism().map_or(1, |count| i64::try_from(count.get()).unwrap_or(1)),
            memory: meminfo(&line("/proc/meminfo"), "MemTotal").unwrap_or(0),
            disk: i64::try_from(disk).unwrap_or(i64::MAX),
            kernel: line("/proc/sys/kernel/osrelease"),
            os_image: pretty_name(&line("/etc/os-release")),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            system_uuid: system_uuid.unwrap_or_else(|| machine_id.clone()),
            machine_id,
        }
    }

    /// What Pods can have: everything but what is held back for the system, and what eviction keeps free.
    #[must_use]
    pub fn allocatable(&self, reserved: &Reserved) -> Allocatable {
        Allocatable {
            cpu_millis: (self.cpus * 1000 - reserved.cpu_millis).max(0),
            memory: (self.memory - reserved.memory).max(0),
            ephemeral_storage: (self.disk - reserved.ephemeral_storage).max(0),
        }
    }

    pub(super) fn info(&self, runtime: &str) -> NodeSystemInfo {
        NodeSystemInfo {
            architecture: arch().to_owned(),
            boot_id: self.boot_id.clone(),
            container_runtime_version: runtime.to_owned(),
            kernel_version: self.kernel.clone(),
            kubelet_version: format!("v1.37.0+twinstack.{}", runtime::version::BUILD.version),
            kube_proxy_version: String::new(),
            machine_id: self.machine_id.clone(),
            operating_system: "linux".to_owned(),
            os_image: self.os_image.clone(),
            system_uuid: self.system_uuid.clone(),
            ..NodeSystemInfo::default()
        }
    }
}

/// What is not for Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    pub cpu_millis: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
}

/// A line of `/proc/meminfo` in bytes.
pub(super) fn meminfo(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn pretty_name(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// Kubernetes' word for this machine's kind of processor.
pub(super) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(meminfo("MemTotal:       16 kB\nMemFree: 1 kB", "MemTotal"), Some(16384));
        assert_eq!(meminfo("MemTotal: x", "MemTotal"), None);
        assert_eq!(pretty_name("NAME=a\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cpus > 0 && machine.memory > 0 && machine.disk > 0);
    }
}
