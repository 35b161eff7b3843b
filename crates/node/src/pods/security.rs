//! Security contexts of a Pod and its containers as the runtime is told them. Pure.

use super::containers::{Member, Role};
use crate::cri::proto::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    ProfileType, SELinuxOption, SecurityProfile, SupplementalGroupsPolicy,
};
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Pod, PodSecurityContext, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext,
};
use std::path::Path;

/// What of /proc and /sys no container sees unless it asks to, and what it may only read; upstream's lists.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Settings of the node that count where a Pod says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Defaults<'a> {
    /// Whether the runtime's own profile is used where none is named (`seccompDefault`).
    pub seccomp: bool,
    /// Where profiles of this node are.
    pub profiles: &'a Path,
}

/// As whom an image runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUser {
    pub uid: Option<i64>,
    pub name: String,
}

pub(super) fn of_sandbox(pod: &Pod) -> LinuxSandboxSecurityContext {
    let spec = pod.spec.clone().unwrap_or_default();
    let none = PodSecurityContext::default();
    let context = spec.security_context.as_ref().unwrap_or(&none);
    let privileged = |one: &SecurityContext| one.privileged == Some(true);
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(&spec, None)),
        selinux_options: context.se_linux_options.as_ref().map(selinux),
        run_as_user: context.run_as_user.map(|value| Int64Value { value }),
        run_as_group: context.run_as_group.filter(|_| context.run_as_user.is_some()).map(|value| Int64Value { value }),
        supplemental_groups: groups(context),
        supplemental_groups_policy: policy(context),
        privileged: all.filter_map(|one| one.security_context.as_ref()).any(privileged),
        // The process of the sandbox does nothing that needs more.
        seccomp: Some(SecurityProfile {
            profile_type: ProfileType::RuntimeDefault.into(),
            ..SecurityProfile::default()
        }),
        ..LinuxSandboxSecurityContext::default()
    }
}

/// `target` is the container whose processes an ephemeral one sees.
fn namespaces(spec: &PodSpec, target: Option<&str>) -> NamespaceOption {
    let node = |host: Option<bool>, other: NamespaceMode| {
        if host == Some(true) { NamespaceMode::Node.into() } else { i32::from(other) }
    };
    let shared = if spec.share_process_namespace == Some(true) { NamespaceMode::Pod } else { NamespaceMode::Container };
    let mut options = NamespaceOption {
        network: node(spec.host_network, NamespaceMode::Pod),
        pid: node(spec.host_pid, shared),
        ipc: node(spec.host_ipc, NamespaceMode::Pod),
        ..NamespaceOption::default()
    };
    if let Some(target) = target {
        options.pid = NamespaceMode::Target.into();
        target.clone_into(&mut options.target_id);
    }
    options
}

/// Of one container; the error is for its status. `target` is the id of the container whose processes it sees.
pub(super) fn of_container(
    pod: &Pod,
    member: &Member<'_>,
    user: &ImageUser,
    target: Option<&str>,
    defaults: Defaults<'_>,
) -> Result<LinuxContainerSecurityContext, String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let (no_pod, no_own) = (PodSecurityContext::default(), SecurityContext::default());
    let whole = spec.security_context.as_ref().unwrap_or(&no_pod);
    let own = member.container.security_context.as_ref().unwrap_or(&no_own);
    let uid = own.run_as_user.or(whole.run_as_user);
    if own.run_as_non_root.or(whole.run_as_non_root) == Some(true) {
        check_non_root(uid, user, &member.container.name)?;
    }
    let privileged = own.privileged == Some(true);
    let unmasked = privileged || own.proc_mount.as_deref() == Some("Unmasked");
    let list = |paths: &[&str]| if unmasked { Vec::new() } else { paths.iter().map(ToString::to_string).collect() };
    let profile = own.seccomp_profile.as_ref().or(whole.seccomp_profile.as_ref());
    let target = target.filter(|_| member.role == Role::Ephemeral);
    Ok(LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|capabilities| Capability {
            add_capabilities: capabilities.add.clone().unwrap_or_default(),
            drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
            ..Capability::default()
        }),
        privileged,
        namespace_options: Some(namespaces(&spec, target)),
        selinux_options: own.se_linux_options.as_ref().or(whole.se_linux_options.as_ref()).map(selinux),
        run_as_user: uid.or(user.uid).map(|value| Int64Value { value }),
        run_as_group: own.run_as_group.or(whole.run_as_group).map(|value| Int64Value { value }),
        run_as_username: if uid.is_none() && user.uid.is_none() { user.name.clone() } else { String::new() },
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(whole),
        supplemental_groups_policy: policy(whole),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: list(&MASKED),
        readonly_paths: list(&READ_ONLY),
        seccomp: Some(seccomp(profile, privileged, defaults)?),
        apparmor: own.app_armor_profile.as_ref().or(whole.app_armor_profile.as_ref()).map(apparmor),
    })
}

/// Upstream's words, which people search for.
fn check_non_root(uid: Option<i64>, user: &ImageUser, container: &str) -> Result<(), String> {
    match (uid, user.uid) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy (container: {container})")),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => {
            Err(format!("container has runAsNonRoot and image will run as root (container: {container})"))
        }
        (None, None) if !user.name.is_empty() => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root (container: {container})",
            user.name
        )),
        // An image that says nothing runs as root.
        (None, None) => Err(format!("container has runAsNonRoot and image will run as root (container: {container})")),
        (None, Some(_)) => Ok(()),
    }
}

fn groups(context: &PodSecurityContext) -> Vec<i64> {
    context.fs_group.into_iter().chain(context.supplemental_groups.iter().flatten().copied()).collect()
}

fn policy(context: &PodSecurityContext) -> i32 {
    match context.supplemental_groups_policy.as_deref() {
        Some("Strict") => SupplementalGroupsPolicy::Strict.into(),
        _ => SupplementalGroupsPolicy::Merge.into(),
    }
}

fn selinux(options: &SELinuxOptions) -> SELinuxOption {
    SELinuxOption {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        r#type: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

fn seccomp(
    profile: Option<&SeccompProfile>,
    privileged: bool,
    defaults: Defaults<'_>,
) -> Result<SecurityProfile, String> {
    let plain = |kind: ProfileType| SecurityProfile { profile_type: kind.into(), ..SecurityProfile::default() };
    let Some(profile) = profile else {
        let fallback = defaults.seccomp && !privileged;
        return Ok(plain(if fallback { ProfileType::RuntimeDefault } else { ProfileType::Unconfined }));
    };
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("RuntimeDefault", _) => Ok(plain(ProfileType::RuntimeDefault)),
        ("Localhost", Some(file)) if !file.is_empty() => Ok(SecurityProfile {
            profile_type: ProfileType::Localhost.into(),
            localhost_ref: defaults.profiles.join(file).display().to_string(),
        }),
        ("Localhost", _) => Err("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()),
        _ => Ok(plain(ProfileType::Unconfined)),
    }
}

fn apparmor(profile: &AppArmorProfile) -> SecurityProfile {
    let (kind, reference) = match profile.type_.as_str() {
        "RuntimeDefault" => (ProfileType::RuntimeDefault, ""),
        "Localhost" => (ProfileType::Localhost, profile.localhost_profile.as_deref().unwrap_or_default()),
        _ => (ProfileType::Unconfined, ""),
    };
    SecurityProfile { profile_type: kind.into(), localhost_ref: reference.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::containers::member;
    use serde_json::{Value, json};

    fn context(pod: Value, own: Value, user: &ImageUser) -> Result<LinuxContainerSecurityContext, String> {
        let pod: Pod = objects::from_value(&json!({"metadata": {"name": "p"}, "spec": {
            "securityContext": pod, "containers": [{"name": "c", "securityContext": own}]}}))
        .unwrap();
        let defaults = Defaults { seccomp: false, profiles: Path::new("/var/lib/kubelet/seccomp") };
        of_container(&pod, &member(&pod, "c").unwrap(), user, None, defaults)
    }

    #[test]
    fn a_container_says_more_than_its_pod() {
        let pod = json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]});
        let made = context(pod, json!({"runAsUser": 2000}), &ImageUser::default()).unwrap();
        assert_eq!(
            (made.run_as_user, made.run_as_group),
            (Some(Int64Value { value: 2000 }), Some(Int64Value { value: 3000 }))
        );
        assert_eq!(made.supplemental_groups, [2000, 4000]);
        assert_eq!(made.masked_paths.len(), MASKED.len());
    }

    #[test]
    fn root_is_refused_where_it_must_not_be() {
        let must = || json!({"runAsNonRoot": true});
        let image = |uid, name: &str| ImageUser { uid, name: name.to_owned() };
        assert!(context(must(), json!({}), &image(Some(0), "")).is_err());
        assert!(context(must(), json!({}), &image(None, "")).is_err());
        assert!(context(must(), json!({"runAsUser": 0}), &image(Some(7), "")).is_err());
        assert!(context(must(), json!({}), &image(Some(7), "")).is_ok());
        assert!(context(must(), json!({}), &image(None, "nobody")).unwrap_err().contains("non-numeric user (nobody)"));
    }

    #[test]
    fn profiles_of_the_node_are_found_in_its_folder() {
        let own = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}});
        let made = context(json!({}), own, &ImageUser::default()).unwrap().seccomp.unwrap();
        assert_eq!(made.localhost_ref, "/var/lib/kubelet/seccomp/a/b.json");
        let made = context(json!({}), json!({"privileged": true}), &ImageUser::default()).unwrap();
        assert_eq!((made.masked_paths.len(), made.privileged), (0, true));
    }
}
