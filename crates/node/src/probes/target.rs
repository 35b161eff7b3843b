//! Where a question goes: which address of the Pod, which port of the container. Pure.

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::util::intstr::IntOrString,
};
use net::{Family, HasFamily};
use std::net::IpAddr;

/// The annotation that says which family of addresses probes use.
pub(super) const FAMILY: &str = "twinstack.dev/probe-ip-family";

/// A container that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub container_id: &'a str,
    /// The node's primary family first.
    pub pod_ips: &'a [IpAddr],
}

impl Target<'_> {
    /// The address that probes use: the first, or that of the family that the Pod asks for.
    pub(super) fn address(&self) -> Result<IpAddr, String> {
        let wanted = self.pod.metadata.annotations.as_ref().and_then(|all| all.get(FAMILY));
        let Some(wanted) = wanted else {
            return self.pod_ips.first().copied().ok_or_else(|| "the Pod has no address yet".to_owned());
        };
        let family = match wanted.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            other => return Err(format!("annotation {FAMILY}: {other:?} is not accepted; give IPv4 or IPv6")),
        };
        let found = self.pod_ips.iter().copied().find(|address| address.family() == family);
        found.ok_or_else(|| format!("annotation {FAMILY}: the Pod has no {wanted} address"))
    }

    /// The host that is named, or the Pod's own address as text.
    pub(super) fn host(&self, named: Option<&str>) -> Result<String, String> {
        match named.filter(|host| !host.is_empty()) {
            Some(host) => Ok(host.trim_matches(['[', ']']).to_owned()),
            None => self.address().map(|address| address.to_string()),
        }
    }

    pub(super) fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let ports = self.container.ports.iter().flatten();
                let named =
                    ports.filter(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port).next();
                named.or_else(|| name.parse().ok())
            }
        };
        let shown = match port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        };
        let number = number.ok_or_else(|| format!("couldn't find port: {shown:?} in the container's ports"))?;
        u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| format!("invalid port number: {shown}"))
    }
}

/// `[::1]:80` and `127.0.0.1:80`.
pub(super) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
