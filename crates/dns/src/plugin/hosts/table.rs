//! Names and addresses, both ways.

use crate::wire::Name;
use std::{collections::HashMap, net::IpAddr};

/// The content of a hosts file. Names are in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    addresses: HashMap<Name, Vec<IpAddr>>,
    names: HashMap<IpAddr, Vec<Name>>,
}

impl Table {
    pub(super) fn add(&mut self, address: IpAddr, name: &Name) {
        let addresses = self.addresses.entry(*name).or_default();
        if !addresses.contains(&address) {
            addresses.push(address);
            self.names.entry(address).or_default().push(*name);
        }
    }

    /// Adds the lines of a file; what is no entry is passed over, as every resolver does.
    pub(super) fn read(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            // A zone such as %lo0 says nothing to others.
            let Some(Ok(address)) = words.next().map(|word| word.split('%').next().unwrap_or_default().parse()) else {
                continue;
            };
            for name in words.filter_map(|word| Name::parse(word).ok()) {
                self.add(address, &name.lower());
            }
        }
    }

    pub(super) fn addresses(&self, name: &Name) -> Option<&[IpAddr]> {
        self.addresses.get(name).map(Vec::as_slice)
    }

    pub(super) fn names(&self, address: IpAddr) -> &[Name] {
        self.names.get(&address).map_or(&[], Vec::as_slice)
    }
}
