//! The containers of a Pod with their roles, in the order in which they start, and which of them start again.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, EphemeralContainer, Pod, PodSpec};
use std::{borrow::Cow, collections::BTreeMap};

/// What a container is to its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next begins.
    Init,
    /// Begins in its turn and stays until the others have ended.
    Sidecar,
    /// What the Pod is for.
    App,
    /// Added to a running Pod to look into it.
    Ephemeral,
}

/// A container and its role.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub role: Role,
    pub container: Cow<'a, Container>,
    /// Whose processes an ephemeral container sees.
    pub target: Option<&'a str>,
}

/// Every container of a Pod: initial ones in their order, then the others.
#[must_use]
pub fn members(pod: &Pod) -> Vec<Member<'_>> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let member = |role, container| Member { role, container: Cow::Borrowed(container), target: None };
    let init = spec.init_containers.iter().flatten().map(|one| member(init_role(one), one));
    let app = spec.containers.iter().map(|one| member(Role::App, one));
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|one| Member {
        role: Role::Ephemeral,
        container: Cow::Owned(as_container(one)),
        target: one.target_container_name.as_deref(),
    });
    init.chain(app).chain(ephemeral).collect()
}

/// The one of this name.
#[must_use]
pub fn member<'a>(pod: &'a Pod, name: &str) -> Option<Member<'a>> {
    members(pod).into_iter().find(|member| member.container.name == name)
}

fn init_role(container: &Container) -> Role {
    if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init }
}

/// An ephemeral container has what others have, but for what the API forbids it.
#[must_use]
pub fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let one = ephemeral.clone();
    Container {
        args: one.args,
        command: one.command,
        env: one.env,
        env_from: one.env_from,
        image: one.image,
        image_pull_policy: one.image_pull_policy,
        lifecycle: one.lifecycle,
        liveness_probe: one.liveness_probe,
        name: one.name,
        ports: one.ports,
        readiness_probe: one.readiness_probe,
        resize_policy: one.resize_policy,
        resources: one.resources,
        restart_policy: None,
        restart_policy_rules: None,
        security_context: one.security_context,
        startup_probe: one.startup_probe,
        stdin: one.stdin,
        stdin_once: one.stdin_once,
        termination_message_path: one.termination_message_path,
        termination_message_policy: one.termination_message_policy,
        tty: one.tty,
        volume_devices: one.volume_devices,
        volume_mounts: one.volume_mounts,
        working_dir: one.working_dir,
    }
}

/// Whether a container that ended with this code starts again.
#[must_use]
pub fn starts_again(spec: &PodSpec, role: Role, container: &Container, code: i32) -> bool {
    if role == Role::Ephemeral {
        return false;
    }
    let rules = container.restart_policy_rules.iter().flatten();
    if let Some(rule) = rules.into_iter().find(|rule| applies(rule, code)) {
        return matches!(rule.action.as_str(), "Restart" | "RestartAllContainers");
    }
    let policy = container.restart_policy.as_deref().or(spec.restart_policy.as_deref()).unwrap_or("Always");
    match (policy, role) {
        ("Always", Role::Init) => code != 0,
        ("Always", _) => true,
        ("OnFailure", _) => code != 0,
        _ => false,
    }
}

fn applies(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let named = codes.values.iter().flatten().any(|value| *value == code);
    (codes.operator == "In") == named
}

/// The value of a label or annotation that may not be there.
pub(crate) fn text<'a>(map: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    map.get(name).map_or("", String::as_str)
}
