//! The checks of the Pod Security Standards: one file each, and the table that says at which level and since when each holds.

mod app_armor_profile;
mod capabilities;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod privilege_escalation;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_profile;
mod sysctls;
mod windows_host_process;

use super::{
    pod::PodView,
    policy::{Level, Standard, Version},
};

/// What a pod does that it may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// The name of the broken rule, in upstream's words; tools look for it.
    pub(super) reason: &'static str,
    /// Who breaks it how.
    pub(super) detail: String,
}

type CheckPod = fn(PodView<'_>) -> Option<Violation>;

/// One rule over time.
struct Check {
    id: &'static str,
    level: Level,
    /// From which minor release on which form of it holds, oldest first.
    since: &'static [(u32, CheckPod)],
    /// The baseline rule that this one makes superfluous.
    instead_of: &'static str,
}

const fn baseline(id: &'static str, since: &'static [(u32, CheckPod)]) -> Check {
    Check { id, level: Level::Baseline, since, instead_of: "" }
}

const fn restricted(id: &'static str, since: &'static [(u32, CheckPod)], instead_of: &'static str) -> Check {
    Check { id, level: Level::Restricted, since, instead_of }
}

/// In the order in which violations are listed: baseline first, each level by name.
const CHECKS: [Check; 19] = [
    baseline("appArmorProfile", &[(0, app_armor_profile::check)]),
    baseline("capabilities_baseline", &[(0, capabilities::baseline)]),
    baseline("hostNamespaces", &[(0, host_namespaces::check)]),
    baseline("hostPathVolumes", &[(0, host_path_volumes::check)]),
    baseline("hostPorts", &[(0, host_ports::check)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host_probes::check)]),
    baseline("privileged", &[(0, privileged::check)]),
    baseline("procMount", &[(0, proc_mount::check), (35, proc_mount::unless_own_users)]),
    baseline("seLinuxOptions", &[(0, se_linux_options::v1_0), (31, se_linux_options::v1_31)]),
    baseline("seccompProfile_baseline", &[(0, seccomp_profile::annotations), (19, seccomp_profile::baseline)]),
    baseline(
        "sysctls",
        &[(0, sysctls::v1_0), (27, sysctls::v1_27), (29, sysctls::v1_29), (32, sysctls::v1_32), (37, sysctls::v1_37)],
    ),
    baseline("windowsHostProcess", &[(0, windows_host_process::check)]),
    restricted(
        "allowPrivilegeEscalation",
        &[(8, privilege_escalation::check), (25, privilege_escalation::unless_windows)],
        "",
    ),
    restricted(
        "capabilities_restricted",
        &[(22, capabilities::restricted), (25, capabilities::restricted_unless_windows)],
        "capabilities_baseline",
    ),
    restricted("procMount_restricted", &[(35, proc_mount::check)], "procMount"),
    restricted("restrictedVolumes", &[(0, restricted_volumes::check)], "hostPathVolumes"),
    restricted("runAsNonRoot", &[(0, run_as_non_root::check), (35, run_as_non_root::unless_own_users)], ""),
    restricted("runAsUser", &[(23, run_as_user::check), (35, run_as_user::unless_own_users)], ""),
    restricted(
        "seccompProfile_restricted",
        &[(19, seccomp_profile::restricted), (25, seccomp_profile::restricted_unless_windows)],
        "seccompProfile_baseline",
    ),
];

impl Check {
    /// The form that held in a release.
    fn at(&self, version: Version) -> Option<CheckPod> {
        let held = |since: u32| version >= Version::Minor(since);
        self.since.iter().rev().find(|(since, _)| held(*since)).map(|(_, check)| *check)
    }
}

/// Everything in which the pod breaks the standard.
pub(super) fn violations(standard: Standard, pod: PodView<'_>) -> Vec<Violation> {
    let Standard { level, version } = standard;
    let held =
        || CHECKS.iter().filter(|check| check.level <= level).filter_map(|check| Some((check, check.at(version)?)));
    if level == Level::Privileged {
        return Vec::new();
    }
    let replaced = |id: &str| held().any(|(check, _)| check.instead_of == id);
    held().filter(|(check, _)| !replaced(check.id)).filter_map(|(_, check)| check(pod)).collect()
}

/// `container "a"`, `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names, "container", "containers"), quoted(names))
}

/// `"a", "b"`.
fn quoted<T: AsRef<str>>(words: &[T]) -> String {
    words.iter().map(|word| format!("\"{}\"", word.as_ref())).collect::<Vec<_>>().join(", ")
}

fn plural<'a, T>(of: &[T], one: &'a str, many: &'a str) -> &'a str {
    if of.len() == 1 { one } else { many }
}

/// `pod`, `container "a"`, or both joined: who sets something.
fn setters(pod_does: bool, bad: &[&str]) -> Vec<String> {
    let pod = pod_does.then(|| "pod".to_owned());
    pod.into_iter().chain((!bad.is_empty()).then(|| containers(bad))).collect()
}

/// The words once each, in order.
fn sorted(mut words: Vec<&str>) -> Vec<&str> {
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_answers_and_of_releases() {
        let order: Vec<_> = CHECKS.iter().map(|check| (check.level, check.id)).collect();
        assert!(order.is_sorted(), "{order:?}");
        for check in &CHECKS {
            assert!(check.since.is_sorted_by_key(|(since, _)| *since), "{}", check.id);
            let known = |id: &str| CHECKS.iter().any(|other| other.id == id && other.level == Level::Baseline);
            assert!(check.instead_of.is_empty() || known(check.instead_of), "{}", check.id);
        }
    }
}
