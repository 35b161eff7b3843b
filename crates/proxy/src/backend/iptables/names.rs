//! Names of chains: those of kube-proxy, so that what operators and tools know of them stays true.

use crate::track::{Name, Protocol};
use aws_lc_rs::digest::{SHA256, digest};
use std::net::SocketAddr;

pub(super) const SERVICES: &str = "KUBE-SERVICES";
pub(super) const NODE_PORTS: &str = "KUBE-NODEPORTS";
pub(super) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(super) const MARK: &str = "KUBE-MARK-MASQ";
pub(super) const EXTERNAL: &str = "KUBE-EXTERNAL-SERVICES";
pub(super) const FIREWALL: &str = "KUBE-PROXY-FIREWALL";
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// Is there as long as nobody replaced the table.
pub(super) const CANARY: &str = "KUBE-PROXY-CANARY";
/// Says that the chains are this program's and not kube-proxy's. In the table filter it also guards loopback addresses.
pub(super) const OWNER: &str = "TWINSTACK-PROXY";

const FIXED: [&str; 9] = [SERVICES, NODE_PORTS, POSTROUTING, MARK, EXTERNAL, FIREWALL, FORWARD, CANARY, OWNER];
/// Chains of single Services.
const PREFIXES: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];

/// Whether a chain is one that a proxy in this mode makes. The kubelet's are others.
pub(super) fn is_ours(chain: &str) -> bool {
    FIXED.contains(&chain) || PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// A port of a Service, for names. Upstream takes the port's name, which a plan does not have; the number is as good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortName {
    text: String,
    pub(super) protocol: Protocol,
}

impl PortName {
    /// A port at the Service's addresses.
    pub(super) fn new(service: &Name, protocol: Protocol, port: u16) -> Self {
        Self { text: format!("{service}:{port}"), protocol }
    }

    /// A node port that belongs to no other port.
    pub(super) fn node_port(service: &Name, protocol: Protocol, port: u16) -> Self {
        Self { text: format!("{service}:node-port-{port}"), protocol }
    }

    /// The chain that chooses among the endpoints of the policy Cluster.
    pub(super) fn cluster(&self) -> String {
        self.chain("KUBE-SVC-", "")
    }

    /// The chain that chooses among the endpoints of the policy Local.
    pub(super) fn local(&self) -> String {
        self.chain("KUBE-SVL-", "")
    }

    /// The chain for traffic from outside.
    pub(super) fn external(&self) -> String {
        self.chain("KUBE-EXT-", "")
    }

    /// The chain that asks whether a client may use this address.
    pub(super) fn firewall(&self, at: SocketAddr) -> String {
        self.chain("KUBE-FW-", &at.to_string())
    }

    /// The chain of an endpoint.
    pub(super) fn endpoint(&self, endpoint: SocketAddr) -> String {
        self.chain("KUBE-SEP-", &endpoint.to_string())
    }

    /// The beginning of the hash in base 32, as upstream.
    fn chain(&self, prefix: &str, more: &str) -> String {
        let hash = digest(&SHA256, format!("{}{}{more}", self.text, self.protocol).as_bytes());
        format!("{prefix}{}", base32(hash.as_ref()))
    }
}

/// The first 16 characters (RFC 4648, 5 bits each).
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let number = bytes.iter().take(10).fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    (0..16).rev().map(|at| char::from(LETTERS[(number >> (at * 5) & 31) as usize])).collect()
}

/// A match that only explains. A name that the API should not have let through is left out: it must not end the quotes.
pub(super) fn comment(service: &Name, what: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let good = |text: &str| !text.is_empty() && text.len() <= 63 && text.bytes().all(plain);
    match good(&service.namespace) && good(&service.name) {
        true => format!(" -m comment --comment \"{service} {what}\""),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_as_upstream_makes_them() {
        // printf 'a/web:80tcp' | openssl dgst -sha256 -binary | base32 | cut -c-16
        let port = PortName::new(&Name::new("a", "web"), Protocol::Tcp, 80);
        assert_eq!(port.cluster(), "KUBE-SVC-R43KTKA56HDH5HIN");
        assert_eq!(port.local(), "KUBE-SVL-R43KTKA56HDH5HIN");
        assert_eq!(port.external(), "KUBE-EXT-R43KTKA56HDH5HIN");
        assert_eq!(port.endpoint("10.1.0.2:8080".parse().unwrap()), "KUBE-SEP-MYZHFOGEKJHRH6VL");
        assert_eq!(port.endpoint("[fd01::2]:8080".parse().unwrap()), "KUBE-SEP-7BQJ36XUHHTISJ5Q");
        for chain in [&*port.cluster(), SERVICES, MARK, OWNER] {
            assert!(is_ours(chain) && chain.len() <= 28, "{chain}: iptables takes 28 characters");
        }
        for chain in ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "INPUT", "KUBE-NODE-PORT", "DOCKER"] {
            assert!(!is_ours(chain), "{chain}");
        }
    }

    #[test]
    fn a_comment_never_carries_what_is_not_a_name() {
        assert_eq!(comment(&Name::new("a", "web"), "cluster IP"), " -m comment --comment \"a/web cluster IP\"");
        for bad in ["\" -j ACCEPT", "x\n-F", "x\\", "", "x y", &"x".repeat(64)] {
            assert_eq!(comment(&Name::new("a", bad), "cluster IP"), "");
            assert_eq!(comment(&Name::new(bad, "web"), "cluster IP"), "");
        }
    }
}
