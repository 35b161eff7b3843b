//! How often each address of a name is to come first, as a file says it.

use crate::wire::{Name, Record};
use std::{collections::HashMap, io, net::IpAddr, path::Path};

/// Names are in lower case.
#[derive(Debug, Default)]
pub(super) struct Weights(HashMap<Name, Vec<(IpAddr, u8)>>);

/// Of an address that the file does not name.
const USUAL: u8 = 1;

impl Weights {
    /// The file as it is; what is wrong in it is told line by line.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&std::fs::read_to_string(path)?)
            .map_err(|mistakes| io::Error::new(io::ErrorKind::InvalidData, mistakes.join("; ")))
    }

    fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut found = Self::default();
        let mut mistakes = Vec::new();
        let mut current = None;
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = match words.as_slice() {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [name] if name.parse::<IpAddr>().is_ok() => format!("{name:?} is an address without a weight"),
                [name] => match Name::parse(name) {
                    Ok(name) => {
                        current = Some(name.lower());
                        continue;
                    }
                    Err(error) => format!("{name:?} is no name: {error}"),
                },
                [address, weight] => {
                    match (address.parse::<IpAddr>(), weight.parse().ok().filter(|weight| *weight > 0)) {
                        (Ok(address), Some(weight)) => match &current {
                            Some(name) => {
                                found.0.entry(*name).or_default().push((address.to_canonical(), weight));
                                continue;
                            }
                            None => format!("{address} stands before any name"),
                        },
                        (Err(_), _) => format!("{address:?} is no IP address"),
                        (Ok(_), None) => format!("{weight:?} is no weight; accepted: a number from 1 to 255"),
                    }
                }
                _ => format!("{line:?} is neither a name nor an address with a weight"),
            };
            mistakes.push(format!("line {}: {wrong}", number + 1));
        }
        if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
    }

    fn of(&self, record: &Record) -> u8 {
        let listed = self.0.get(&record.name.lower()).into_iter().flatten();
        let mut own = listed.filter(|(address, _)| record.ip() == Some(*address));
        own.next().map_or(USUAL, |(_, weight)| *weight)
    }

    /// The place of the address that comes first; `pick` gives a number below the one that it gets.
    pub(super) fn first(&self, addresses: &[Record], pick: impl FnOnce(usize) -> usize) -> usize {
        let weights: Vec<usize> = addresses.iter().map(|record| usize::from(self.of(record))).collect();
        let picked = pick(weights.iter().sum());
        let mut sum = 0;
        let over = |weight: &usize| {
            sum += weight;
            picked < sum
        };
        weights.iter().position(over).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_sum_has_its_address() {
        let weights = Weights::parse(
            "# of a name in both families\nWWW.test\n192.0.2.1 3\n::ffff:192.0.2.2 1\n\nwww.test.\n2001:db8::1 2\nother.test\n192.0.2.3 200\n",
        )
        .unwrap();
        let www = Name::parse("www.Test").unwrap();
        let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.3"];
        let records = addresses.map(|address| Record::address(www, 5, address.parse().unwrap()));
        let first = |number| {
            weights.first(&records, |sum| {
                assert_eq!(sum, 7);
                number
            })
        };
        assert_eq!((0..7).map(first).collect::<Vec<_>>(), [0, 0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let mistakes =
            Weights::parse("192.0.2.1 1\n192.0.2.1\na..b\nwww.test\n192.0.2.1 0\n192.0.2 5\n1 2 3\n").unwrap_err();
        let starts = [
            "line 1: 192.0.2.1 stands before any name",
            "line 2: \"192.0.2.1\" is an address without a weight",
            "line 3: \"a..b\" is no name",
            "line 5: \"0\" is no weight; accepted: a number from 1 to 255",
            "line 6: \"192.0.2\" is no IP address",
            "line 7: \"1 2 3\" is neither a name nor an address with a weight",
        ];
        assert_eq!(mistakes.len(), starts.len(), "{mistakes:?}");
        for (mistake, start) in mistakes.iter().zip(starts) {
            assert!(mistake.starts_with(start), "{mistake}");
        }
    }
}
