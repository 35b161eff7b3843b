//! The machine's own addresses, from `/proc`: for `bind` with an interface, and for the name servers of a cluster's zone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address with the number of its interface, which link-local addresses need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Local {
    pub(crate) address: IpAddr,
    scope: u32,
}

impl Local {
    /// To bind to.
    pub(crate) fn at(self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, self.scope).into(),
            address => SocketAddr::new(address, port),
        }
    }
}

/// All addresses of both families.
pub(crate) fn all() -> Vec<Local> {
    let v4 = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let v6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut found: Vec<Local> = local_v4(&v4).map(|address| Local { address, scope: 0 }).collect();
    found.extend(local_v6(&v6).map(|(address, scope, _)| Local { address, scope }));
    found.sort_unstable();
    found.dedup();
    found
}

/// Addresses of both families that others can use.
pub(crate) fn local() -> Vec<IpAddr> {
    all().into_iter().map(|local| local.address).collect()
}

/// The addresses of an interface.
pub(crate) fn of_interface(name: &str) -> Vec<IpAddr> {
    let v6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut found: Vec<IpAddr> = local_v6(&v6).filter(|(_, _, own)| own == name).map(|(address, ..)| address).collect();
    // An IPv4 address belongs to the interface that routes to its network.
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let trie = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    for address in local_v4(&trie) {
        if v4_interface(address, &routes).is_some_and(|own| own == name) {
            found.push(address);
        }
    }
    found
}

pub(crate) fn interface_number(name: &str) -> Option<u32> {
    let plain = !name.is_empty() && !name.contains(['/', '.']);
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok().filter(|_| plain)?;
    text.trim().parse().ok()
}

/// In the trie a local address is a leaf whose next line says `/32 host LOCAL`.
fn local_v4(trie: &str) -> impl Iterator<Item = IpAddr> {
    let mut leaf = None;
    trie.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        }
        (line == "/32 host LOCAL").then_some(leaf).flatten().map(IpAddr::V4)
    })
}

/// Address, interface number and name; addresses that are not sure yet (tentative) are left out.
fn local_v6(table: &str) -> impl Iterator<Item = (IpAddr, u32, String)> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (digits, number) = (words.next()?, words.next()?);
        let flags = u32::from_str_radix(words.nth(2)?, 16).ok()?;
        let address = Ipv6Addr::from_bits(u128::from_str_radix(digits, 16).ok()?);
        let scope = u32::from_str_radix(number, 16).ok()?;
        (flags & 0x40 == 0).then(|| (address.into(), scope, words.next().unwrap_or_default().to_owned()))
    })
}

fn v4_interface(address: IpAddr, routes: &str) -> Option<&str> {
    let IpAddr::V4(address) = address else { return None };
    if address.is_loopback() {
        return Some("lo");
    }
    let number = |text: &str| u32::from_str_radix(text, 16).map(u32::swap_bytes).ok();
    routes.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (network, mask) = (number(words.get(1)?)?, number(words.get(7)?)?);
        (mask != 0 && address.to_bits() & mask == network).then(|| words[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n     |-- 192.0.2.2\n        /32 host LOCAL\n";
        let v4: Vec<String> = local_v4(trie).map(|address| address.to_string()).collect();
        assert_eq!(v4, ["127.0.0.1", "192.0.2.2"]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfe8000000000000000fc00fffe000001 02 40 20 80     eth0\nfd000000000000000000000000000002 02 40 00 c0     eth0\n";
        let v6: Vec<_> = local_v6(table).map(|(address, scope, name)| format!("{address}%{scope} {name}")).collect();
        assert_eq!(v6, ["::1%1 lo", "fe80::fc:ff:fe00:1%2 eth0"]);
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                      eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\neth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";
        assert_eq!(v4_interface("192.0.2.2".parse().unwrap(), routes), Some("eth0"));
        assert_eq!(v4_interface("198.51.100.1".parse().unwrap(), routes), None);
    }

    #[test]
    fn link_local_addresses_carry_their_interface() {
        let local = Local { address: "fe80::1".parse().unwrap(), scope: 3 };
        assert_eq!(local.at(53).to_string(), "[fe80::1%3]:53");
        assert_eq!(Local { address: "::1".parse().unwrap(), scope: 1 }.at(53).to_string(), "[::1]:53");
    }

    #[test]
    fn this_machine_has_a_loopback() {
        assert!(local().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(of_interface("lo").contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(of_interface("none").is_empty());
    }
}
