//! Cuts a lab's network and joins it again, for guides and for those who want to see what happens then.

use crate::{
    Home,
    network::{BRIDGE, MACHINE, UPLINK, batch},
};
use kernel::{netns, process::ProcessError};
use net::Family;
use std::{fmt, str::FromStr};

/// The table of nft that drops a family; its name says whose it is.
const TABLE: &str = "twinstack-lab";

/// What can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// One family, between all nodes and the machine.
    Family(Family),
    /// A node from all others.
    Node(String),
    /// The machine, and with it the API, from all nodes.
    Uplink,
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ipv4" => Ok(Self::Family(Family::V4)),
            "ipv6" => Ok(Self::Family(Family::V6)),
            "uplink" => Ok(Self::Uplink),
            "" => Err("is nothing".to_owned()),
            node => Ok(Self::Node(node.to_owned())),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Family(family) => write!(f, "{family} between nodes and the machine"),
            Self::Node(name) => write!(f, "{name}"),
            Self::Uplink => f.write_str("the machine, with the API, from all nodes"),
        }
    }
}

impl Cut {
    /// Cuts, in a lab with these nodes. What is cut already stays so.
    pub fn make(&self, home: &Home, nodes: &[String]) -> Result<(), ProcessError> {
        match self {
            Self::Family(family) => nodes.iter().try_for_each(|node| {
                let text = rules(*family);
                netns::run(&home.namespace(node), "nft", &["-f", "-"], &text).map(drop)
            }),
            Self::Node(name) => port(home, name, "down"),
            Self::Uplink => port(home, MACHINE, "down"),
        }
    }

    /// Joins what was cut. What was not cut stays as it is.
    pub fn mend(&self, home: &Home, nodes: &[String]) -> Result<(), ProcessError> {
        match self {
            Self::Family(family) => nodes.iter().try_for_each(|node| {
                let name = table(*family);
                let text = format!("add table inet {name}\ndelete table inet {name}\n");
                netns::run(&home.namespace(node), "nft", &["-f", "-"], &text).map(drop)
            }),
            Self::Node(name) => port(home, name, "up"),
            Self::Uplink => port(home, MACHINE, "up"),
        }
    }
}

fn port(home: &Home, name: &str, state: &str) -> Result<(), ProcessError> {
    batch(Some(&home.namespace(BRIDGE)), &[format!("link set {name} {state}")])
}

fn table(family: Family) -> String {
    format!("{TABLE}-{}", if family == Family::V4 { "ipv4" } else { "ipv6" })
}

/// Packets of a family that would come or go by the node's only interface; what a node's own Pods tell each other goes on.
fn rules(family: Family) -> String {
    let (name, protocol) = (table(family), if family == Family::V4 { "ipv4" } else { "ipv6" });
    format!(
        "add table inet {name}\n\
         delete table inet {name}\n\
         table inet {name} {{\n\
         \tchain in {{ type filter hook prerouting priority raw; iifname {UPLINK} meta nfproto {protocol} drop; }}\n\
         \tchain out {{ type filter hook postrouting priority raw; oifname {UPLINK} meta nfproto {protocol} drop; }}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_named_in_a_word() {
        for (text, expected) in [
            ("ipv4", Ok(Cut::Family(Family::V4))),
            ("ipv6", Ok(Cut::Family(Family::V6))),
            ("uplink", Ok(Cut::Uplink)),
            ("node-2", Ok(Cut::Node("node-2".to_owned()))),
            ("", Err("is nothing".to_owned())),
        ] {
            assert_eq!(text.parse::<Cut>(), expected, "{text}");
        }
    }

    #[test]
    fn a_family_is_dropped_where_a_node_meets_others() {
        assert_eq!(
            rules(Family::V6),
            "add table inet twinstack-lab-ipv6\n\
             delete table inet twinstack-lab-ipv6\n\
             table inet twinstack-lab-ipv6 {\n\
             \tchain in { type filter hook prerouting priority raw; iifname eth0 meta nfproto ipv6 drop; }\n\
             \tchain out { type filter hook postrouting priority raw; oifname eth0 meta nfproto ipv6 drop; }\n\
             }\n"
        );
    }
}
