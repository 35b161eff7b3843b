//! `resourceFieldRef`: what a container may use, in the unit that is asked for.

use super::EnvironmentError;
use api::kinds::quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity,
};
use std::collections::BTreeMap;

/// What Pods may use of a node: stands for a limit that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocatable {
    pub cpu_millis: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
}

/// The amount that is asked for, rounded up to whole divisors. `own` is the container that asks, if a container does.
pub fn amount(
    asked: &ResourceFieldSelector,
    pod: &Pod,
    own: Option<&Container>,
    allocatable: &Allocatable,
) -> Result<String, EnvironmentError> {
    let name = asked.container_name.as_deref().unwrap_or_default();
    let container = match (name, own) {
        ("", Some(own)) => own,
        (name, _) => of_container(pod, name).ok_or_else(|| EnvironmentError::Container(name.to_owned()))?,
    };
    let unknown = || EnvironmentError::Resource(asked.resource.clone());
    let (kind, resource) = asked.resource.split_once('.').ok_or_else(unknown)?;
    let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !known {
        return Err(unknown());
    }
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let value = match kind {
        "limits" => nanos(limits, resource).or_else(|| of_node(resource, allocatable)),
        // What is limited and asks for nothing asks for its limit, which the API has filled in.
        "requests" => nanos(requests, resource),
        _ => return Err(unknown()),
    };
    let divisor = asked.divisor.as_ref().and_then(|divisor| quantity::nanos(&divisor.0)).filter(|divisor| *divisor > 0);
    let divisor = divisor.unwrap_or(ONE);
    let value = value.unwrap_or_default();
    Ok((value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)).to_string())
}

/// A billion billionths.
const ONE: i128 = 1_000_000_000;

fn nanos(amounts: Option<&BTreeMap<String, Quantity>>, resource: &str) -> Option<i128> {
    // Nothing is no limit.
    quantity::nanos(&amounts?.get(resource)?.0).filter(|nanos| *nanos != 0)
}

fn of_node(resource: &str, allocatable: &Allocatable) -> Option<i128> {
    Some(match resource {
        "cpu" => i128::from(allocatable.cpu_millis) * ONE / 1000,
        "memory" => i128::from(allocatable.memory) * ONE,
        "ephemeral-storage" => i128::from(allocatable.ephemeral_storage) * ONE,
        _ => return None,
    })
}

/// A container of a Pod by its name, init containers too.
#[must_use]
pub fn of_container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten();
    spec.containers.iter().chain(init).find(|container| container.name == name)
}
