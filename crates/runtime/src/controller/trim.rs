//! What a store does not keep: parts of objects that no controller reads, and that are most of their bytes.

use k8s_openapi::api::core::v1::{Container, Pod};
use std::any::Any;

/// Drops them. A Pod is never written back whole, only by patches, so that nothing is lost in the API by this.
pub(super) fn trim(object: &mut dyn Any) {
    let Some(pod) = object.downcast_mut::<Pod>() else { return };
    let Some(spec) = &mut pod.spec else { return };
    // Claims decide where a pod can run; what else it mounts is the kubelet's business.
    let claims = spec.volumes.take().into_iter().flatten();
    let claims: Vec<_> =
        claims.filter(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()).collect();
    spec.volumes = Some(claims).filter(|claims| !claims.is_empty());
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(trim_container);
}

/// What a container runs and how it is looked after is the kubelet's business.
fn trim_container(container: &mut Container) {
    container.args = None;
    container.command = None;
    container.env = None;
    container.env_from = None;
    container.lifecycle = None;
    container.liveness_probe = None;
    container.readiness_probe = None;
    container.security_context = None;
    container.startup_probe = None;
    container.volume_devices = None;
    container.volume_mounts = None;
}
