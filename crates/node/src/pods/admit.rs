//! Which Pods this node does not take, as upstream's kubelet decides it when a Pod comes. Pure.

use super::status::Ended;
use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// What every Pod may set: it is bound to the Pod's own namespaces and harms nobody. Upstream's list.
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Why a Pod is not taken; `allowed` are further sysctls, those that end with `*` by their beginning (`--allowed-unsafe-sysctls`).
pub(super) fn refusal(pod: &Pod, allowed: &[String]) -> Option<Ended> {
    let spec = pod.spec.as_ref()?;
    let refused = |reason: &str, problem: &str| Ended {
        reason: reason.to_owned(),
        message: format!("Pod was rejected: {problem}"),
    };
    if spec.os.as_ref().is_some_and(|os| os.name != "linux") {
        return Some(refused("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    sysctl(spec, allowed).map(|problem| refused("SysctlForbidden", &problem))
}

/// What is wrong with the first sysctl of a Pod that it may not set.
fn sysctl(spec: &PodSpec, allowed: &[String]) -> Option<String> {
    let sysctls = spec.security_context.as_ref()?.sysctls.as_ref()?;
    sysctls.iter().find_map(|sysctl| {
        // Both spellings mean the same.
        let name = sysctl.name.replace('/', ".");
        let may = SAFE.contains(&name.as_str()) || allowed.iter().any(|pattern| matches(pattern, &name));
        if !may {
            return Some(format!("forbidden sysctl: {name:?} not allowlisted"));
        }
        if spec.host_network == Some(true) && name.starts_with("net.") {
            return Some(format!("forbidden sysctl: {name:?} not allowed with host net enabled"));
        }
        let of_ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."].iter().any(|one| name.starts_with(one));
        (spec.host_ipc == Some(true) && of_ipc)
            .then(|| format!("forbidden sysctl: {name:?} not allowed with host ipc enabled"))
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.replace('/', ".");
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(names: &[&str], host: bool, allowed: &[&str]) -> Option<String> {
        let sysctls: Vec<_> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        let spec = json!({"hostNetwork": host, "containers": [], "securityContext": {"sysctls": sysctls}});
        let pod: Pod = objects::from_value(&json!({"metadata": {}, "spec": spec})).unwrap();
        let allowed: Vec<String> = allowed.iter().map(|one| (*one).to_owned()).collect();
        refusal(&pod, &allowed).map(|ended| ended.message)
    }

    #[test]
    fn a_pod_of_another_system_is_not_taken() {
        for (os, reason) in [("linux", None), ("windows", Some("PodOSNotSupported".to_owned()))] {
            let pod: Pod =
                objects::from_value(&json!({"metadata": {}, "spec": {"os": {"name": os}, "containers": []}})).unwrap();
            assert_eq!(refusal(&pod, &[]).map(|ended| ended.reason), reason);
        }
    }

    #[test]
    fn only_what_harms_nobody_or_is_allowed_may_be_set() {
        assert_eq!(told(&["net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced"], false, &[]), None);
        assert_eq!(
            told(&["kernel.msgmax"], false, &[]).as_deref(),
            Some("Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted")
        );
        assert_eq!(told(&["kernel.msgmax", "net.core.somaxconn"], false, &["kernel.msg*", "net.core.somaxconn"]), None);
        assert_eq!(
            told(&["net.ipv4.tcp_syncookies"], true, &[]).as_deref(),
            Some("Pod was rejected: forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host net enabled")
        );
    }
}
