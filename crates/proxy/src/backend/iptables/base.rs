//! The rules that all Services share, and where the kernel's own chains lead to them.
//!
//! A new connection passes the table nat (where to?), then filter (what still has a Service's address leads nowhere), then
//! nat again (under which address?).

use super::{
    Fixed, IptablesOptions,
    lines::{NEW, SharedChain},
    names::{CANARY, EXTERNAL, FIREWALL, FORWARD, MARK, NODE_PORTS, OWNER, POSTROUTING, SERVICES},
};
use crate::plan::NodePortMatch;
use kernel::iptables::Table;
use net::{Cidr, Family, HasFamily};

/// Everything that the rules depend on besides Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) family: Family,
    pub(super) fixed: Fixed,
    pub(super) options: IptablesOptions,
}

impl Base {
    /// Whether node ports are open at 127.0.0.1. The kernel routes no packet away from ::1.
    pub(super) fn opens_loopback(&self) -> bool {
        let asked = match &self.fixed.node_ports {
            NodePortMatch::All => true,
            NodePortMatch::In(cidrs) => cidrs.iter().any(|cidr| cidr.contains(Family::V4.loopback())),
        };
        asked && self.family == Family::V4 && self.options.localhost_node_ports
    }

    /// Rules in the kernel's chains, in the words of `iptables-save`; in order, before those of others.
    pub(super) fn jumps(&self, table: Table) -> Vec<(&'static str, String)> {
        match table {
            Table::Mangle => Vec::new(),
            Table::Filter => {
                let mut jumps = Vec::new();
                if self.opens_loopback() {
                    jumps.push(("INPUT", format!("-j {OWNER}")));
                }
                for hook in ["INPUT", "FORWARD", "OUTPUT"] {
                    jumps.push((hook, format!("{NEW} -j {FIREWALL}")));
                    jumps.push((hook, format!("{NEW} -j {EXTERNAL}")));
                }
                jumps.extend(self.own_addresses().into_iter().map(|at| ("INPUT", format!("{at}-j {NODE_PORTS}"))));
                for hook in ["FORWARD", "OUTPUT"] {
                    jumps.push((hook, format!("{NEW} -j {SERVICES}")));
                }
                jumps.push(("FORWARD", format!("-j {FORWARD}")));
                jumps
            }
            Table::Nat => vec![
                ("PREROUTING", format!("-j {SERVICES}")),
                ("OUTPUT", format!("-j {SERVICES}")),
                ("POSTROUTING", format!("-j {POSTROUTING}")),
            ],
        }
    }

    /// Matches packets for each block of addresses at which node ports are open.
    fn own_addresses(&self) -> Vec<String> {
        // iptables-save does not mention a block that is everything.
        let at = |cidr: &Cidr| if cidr.prefix() == 0 { String::new() } else { format!("-d {cidr} ") };
        match &self.fixed.node_ports {
            NodePortMatch::All => vec![String::new()],
            NodePortMatch::In(cidrs) => cidrs.iter().filter(|cidr| cidr.family() == self.family).map(at).collect(),
        }
    }

    /// Chains without lines of Services.
    pub(super) fn chains(&self, table: Table) -> Vec<(&'static str, Vec<String>)> {
        let mark = self.fixed.masquerade_mark;
        let mut chains = vec![(CANARY, Vec::new())];
        match table {
            Table::Mangle => chains.push((OWNER, Vec::new())),
            Table::Filter => {
                let mut forward = Vec::new();
                // The kernel would answer them with a reset that ends the connection they belong to.
                if self.options.drop_invalid {
                    forward.push("-m conntrack --ctstate INVALID -j DROP".to_owned());
                }
                forward.push(format!("-m mark --mark {mark:#x}/{mark:#x} -j ACCEPT"));
                forward.push("-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT".to_owned());
                chains.push((FORWARD, forward));
                chains.push((OWNER, self.loopback_guard()));
            }
            Table::Nat => {
                chains.push((OWNER, Vec::new()));
                chains.push((MARK, vec![format!("-j MARK --set-xmark {mark:#x}/{mark:#x}")]));
                let masquerade = vec![
                    format!("-m mark ! --mark {mark:#x}/{mark:#x} -j RETURN"),
                    format!("-j MARK --set-xmark {mark:#x}/0x0"),
                    "-j MASQUERADE --random-fully".to_owned(),
                ];
                chains.push((POSTROUTING, masquerade));
            }
        }
        chains
    }

    /// With loopback addresses routed, programs that trust them must still not hear neighbours.
    fn loopback_guard(&self) -> Vec<String> {
        if !self.opens_loopback() {
            return Vec::new();
        }
        let strangers = "! -s 127.0.0.0/8 -d 127.0.0.0/8 ! -i lo";
        vec![format!("{strangers} -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP")]
    }

    /// What comes before the lines of Services.
    pub(super) fn head(&self, shared: SharedChain) -> Vec<String> {
        let loopback = match self.family {
            Family::V4 => "127.0.0.0/8",
            Family::V6 => "::1/128",
        };
        match shared {
            SharedChain::NodePorts | SharedChain::OwnPorts if !self.opens_loopback() => {
                vec![format!("-d {loopback} -j RETURN")]
            }
            _ => Vec::new(),
        }
    }

    /// What comes after them.
    pub(super) fn tail(&self, shared: SharedChain) -> Vec<String> {
        match shared {
            SharedChain::Services => {
                let to = |at| format!("{at}-m addrtype --dst-type LOCAL -j {NODE_PORTS}");
                self.own_addresses().into_iter().map(to).collect()
            }
            _ => Vec::new(),
        }
    }
}
