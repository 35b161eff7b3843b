//! What the kernel would hold, as text for the programs that operators know: `twinstack proxy --dry-run`.

use super::{INTERFACE, Settings, compile::Item, rules, sets::SetName, state::State};
use crate::backend::Fixed;
use kernel::{
    iptables::IptablesError,
    ipvs::{Protocol, ServerKey},
};
use net::Family;
use std::{fmt::Write, net::IpAddr};

/// One part for each program, with a line that names it.
pub(super) fn text(family: Family, settings: &Settings, fixed: &Fixed, state: &State) -> Result<String, IptablesError> {
    let (word, program) = match family {
        Family::V4 => ("inet", "iptables-restore"),
        Family::V6 => ("inet6", "ip6tables-restore"),
    };
    let mut sets = String::new();
    for set in SetName::ALL.map(|name| name.set(family)) {
        // Writing to a string does not fail.
        let _ = writeln!(sets, "create {} {} family {word} maxelem 1048576", set.name, set.kind);
    }
    let (mut addresses, mut servers) = (format!("link add {INTERFACE} type dummy\n"), String::new());
    for item in state.items() {
        let _ = match item {
            Item::Entry(name, entry) => writeln!(sets, "add {} {entry}", name.set(family).name),
            Item::Address(ip @ IpAddr::V4(_)) => {
                writeln!(addresses, "address add {ip}/32 dev {INTERFACE} scope host")
            }
            Item::Address(ip @ IpAddr::V6(_)) => {
                writeln!(addresses, "address add {ip}/128 dev {INTERFACE} nodad preferred_lft 0")
            }
            Item::Server(key, 0) => writeln!(servers, "-A {} -s {}", at(key), settings.scheduler),
            Item::Server(key, seconds) => writeln!(servers, "-A {} -s {} -p {seconds}", at(key), settings.scheduler),
            Item::Destination(key, endpoint) => writeln!(servers, "-a {} -r {endpoint} -m -w 1", at(key)),
            Item::Draining(key, endpoint) => writeln!(servers, "-a {} -r {endpoint} -m -w 0", at(key)),
        };
    }
    let rules = rules::transaction(family, fixed, |_| Ok(Default::default()))?.text()?;
    Ok(format!(
        "# for ipset restore\n{sets}# for ip -batch -\n{addresses}# for ipvsadm --restore\n{servers}# for {program} --noflush\n{rules}"
    ))
}

fn at(key: &ServerKey) -> String {
    let word = match key.protocol {
        Protocol::Tcp => "-t",
        Protocol::Udp => "-u",
        Protocol::Sctp => "--sctp-service",
    };
    format!("{word} {}", key.at)
}
