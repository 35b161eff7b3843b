//! Security contexts of pods and containers: ids, profiles, sysctls, and what does not fit the operating system.

use super::paths;
use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Largest user and group id.
const ID_MAX: i64 = i32::MAX as i64;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// Kernel settings that each IPC namespace has its own of, besides those below `fs.mqueue`.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];
const WINDOWS: &str = "a Windows pod cannot have it";

/// Mistakes in `securityContext` of a pod spec; `path` is that of the context.
pub(super) fn pod(errors: &mut Errors, path: &Path, spec: &Value) {
    let context = spec.at("securityContext");
    ids(errors, path, context, &["fsGroup", "runAsUser", "runAsGroup"]);
    for (i, id) in context.list_at("supplementalGroups").iter().enumerate() {
        let at = path.child("supplementalGroups").index(i);
        check::in_range(errors, &at, id.as_i64().unwrap_or_default(), 0, ID_MAX);
    }
    sysctls(errors, &path.child("sysctls"), spec);
    for (field, accepted) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
        ("seLinuxChangePolicy", ["MountOption", "Recursive"]),
    ] {
        if let Some(policy) = context.at(field).as_str() {
            check::one_of(errors, &path.child(field), policy, &accepted);
        }
    }
    profiles(errors, path, context);
}

/// Mistakes in `securityContext` of a container.
pub(super) fn container(errors: &mut Errors, path: &Path, spec: &Value, context: &Value) {
    if context.is_null() {
        return;
    }
    ids(errors, path, context, &["runAsUser", "runAsGroup"]);
    if let Some(kind) = context.at("procMount").as_str() {
        let at = path.child("procMount");
        check::one_of(errors, &at, kind, &["Default", "Unmasked"]);
        if kind == "Unmasked" && spec.at("hostUsers") != false {
            errors.push(FieldError::invalid(&at, kind, "needs hostUsers: false"));
        }
    }
    profiles(errors, path, context);
    if context.at("allowPrivilegeEscalation") == false {
        if context.is_true("privileged") {
            let text = "privileged cannot be true while allowPrivilegeEscalation is false";
            errors.push(FieldError::invalid(path, context.clone(), text));
        }
        for _ in check::texts(context, "capabilities.add").iter().filter(|name| **name == "CAP_SYS_ADMIN") {
            let text = "CAP_SYS_ADMIN cannot be added while allowPrivilegeEscalation is false";
            errors.push(FieldError::invalid(path, context.clone(), text));
        }
    }
}

fn ids(errors: &mut Errors, path: &Path, context: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(id) = context.int_at(field) {
            check::in_range(errors, &path.child(field), id, 0, ID_MAX);
        }
    }
}

fn profiles(errors: &mut Errors, path: &Path, context: &Value) {
    let (seccomp, app_armor) = (context.at("seccompProfile"), context.at("appArmorProfile"));
    if seccomp.is_object() {
        let at = path.child("seccompProfile");
        let (kind, local) = (seccomp.str_at("type"), seccomp.at("localhostProfile").as_str());
        check::required_one_of(errors, &at.child("type"), kind, &PROFILES);
        let at = at.child("localhostProfile");
        match (kind, local) {
            ("Localhost", None) => errors.push(FieldError::required(&at, "because type is Localhost")),
            ("Localhost", Some(local)) => paths::below(errors, &at, local),
            (_, Some(local)) => errors.push(FieldError::invalid(&at, local, "only with type Localhost")),
            (_, None) => {}
        }
    }
    if app_armor.is_object() {
        let at = path.child("appArmorProfile");
        let (kind, local) = (app_armor.str_at("type"), app_armor.at("localhostProfile").as_str());
        check::required_one_of(errors, &at.child("type"), kind, &PROFILES);
        let at = at.child("localhostProfile");
        match (kind, local) {
            ("Localhost", None | Some("")) => errors.push(FieldError::required(&at, "because type is Localhost")),
            ("Localhost", Some(local)) => {
                if local.trim() != local {
                    errors.push(FieldError::invalid(&at, local, "no space is accepted first or last"));
                }
                if local.len() > 4095 {
                    errors.push(FieldError::too_long(&at, 4095));
                }
            }
            ("RuntimeDefault" | "Unconfined", Some(local)) => {
                errors.push(FieldError::invalid(&at, local, "only with type Localhost"));
            }
            _ => {}
        }
    }
}

fn sysctls(errors: &mut Errors, path: &Path, spec: &Value) {
    let mut taken = BTreeSet::new();
    for (i, sysctl) in spec.list_at("securityContext.sysctls").iter().enumerate() {
        let (at, name) = (path.index(i).child("name"), sysctl.str_at("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_sysctl_part) {
            let text =
                "accepted are lower case letters, digits, '-' and '_' with '.' or '/' between, such as 'net.ipv6.conf'";
            errors.push(FieldError::invalid(&at, name, text));
        } else if taken.contains(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
        let dotted = name.replace('/', ".");
        let of_ipc = dotted.starts_with("fs.mqueue.") || IPC_SYSCTLS.contains(&dotted.as_str());
        if spec.is_true("hostNetwork") && dotted.starts_with("net.") {
            errors.push(FieldError::invalid(&at, name, "belongs to the node, because hostNetwork is true"));
        } else if spec.is_true("hostIPC") && of_ipc {
            errors.push(FieldError::invalid(&at, name, "belongs to the node, because hostIPC is true"));
        }
        taken.insert(name);
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|b| plain(b) || matches!(b, b'-' | b'_'))
}

/// What the other settings of a pod with its own users exclude.
pub(super) fn host_users(errors: &mut Errors, path: &Path, spec: &Value) {
    const TEXT: &str = "not while hostUsers is false";
    if spec.at("hostUsers") != false {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.is_true(field) {
            errors.push(FieldError::forbidden(&path.child(shown), TEXT));
        }
    }
    every_container(path, spec, |at, container| {
        if !container.list_at("volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(&at.child("volumeDevices"), TEXT));
        }
    });
}

/// The operating system that the pod says it is for, and what that system does not know.
pub(super) fn operating_system(errors: &mut Errors, path: &Path, spec: &Value) {
    let Some(os) = spec.at("os").as_object() else { return };
    let at = path.child("os");
    match os.get("name").and_then(Value::as_str).unwrap_or_default() {
        "" => errors.push(FieldError::required(&at.child("name"), "linux or windows")),
        "linux" => {
            const TEXT: &str = "a Linux pod cannot have it";
            if !spec.at("securityContext.windowsOptions").is_null() {
                errors.push(FieldError::forbidden(&path.child("securityContext").child("windowsOptions"), TEXT));
            }
            every_container(path, spec, |at, container| {
                if !container.at("securityContext.windowsOptions").is_null() {
                    errors.push(FieldError::forbidden(&at.child("securityContext").child("windowsOptions"), TEXT));
                }
            });
        }
        "windows" => windows(errors, path, spec),
        other => errors.push(FieldError::not_supported(&at, other, &["linux", "windows"])),
    }
}

fn windows(errors: &mut Errors, path: &Path, spec: &Value) {
    let of_pod = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    for field in of_pod.iter().filter(|field| !spec.at("securityContext").at(field).is_null()) {
        errors.push(FieldError::forbidden(&path.child("securityContext").child(field), WINDOWS));
    }
    for field in ["hostUsers", "shareProcessNamespace"] {
        if !spec.at(field).is_null() {
            errors.push(FieldError::forbidden(&path.child(field), WINDOWS));
        }
    }
    for field in ["hostPID", "hostIPC"] {
        if spec.is_true(field) {
            errors.push(FieldError::forbidden(&path.child(field), WINDOWS));
        }
    }
    every_container(path, spec, |at, container| {
        for field in of_container.iter().filter(|field| !container.at("securityContext").at(field).is_null()) {
            errors.push(FieldError::forbidden(&at.child("securityContext").child(field), WINDOWS));
        }
    });
}

fn every_container(path: &Path, spec: &Value, mut visit: impl FnMut(Path, &Value)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in spec.list_at(list).iter().enumerate() {
            visit(path.child(list).index(i), container);
        }
    }
}
