//! What the labels of a name under the cluster's zone mean.

use crate::wire::Name;

/// The labels of a name, from the left, without the zone.
#[derive(Debug)]
pub(super) struct Labels<'a> {
    labels: [&'a [u8]; 6],
    count: usize,
    above: &'a [u8],
    reverse: bool,
    zonal: bool,
}

/// A name of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// The zone itself, `svc`, `pod`: there is such a name, and nothing to it.
    Empty,
    /// `ns.svc`.
    Namespace(&'a [u8]),
    /// `ns.pod`.
    PodNamespace(&'a [u8]),
    /// `svc.ns.svc` with what stands before it.
    Service { key: &'a [u8], namespace: &'a [u8], part: Part<'a> },
    /// `1-2-3-4.ns.pod`.
    Pod { address: &'a [u8], namespace: &'a [u8] },
    /// There can be no such name.
    None,
}

/// What stands before a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Whole,
    Endpoint(&'a [u8]),
    /// Without underscores; an empty one fits all.
    Port {
        name: &'a [u8],
        protocol: &'a [u8],
    },
    /// `ZONE.pin._zone` or `ZONE.prefer._zone`: endpoints of a zone of the topology, in wire form.
    Zone {
        zone: &'a [u8],
        fallback: Fallback,
    },
}

/// What a zone without endpoints has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// `pin`.
    Nothing,
    /// `prefer`: those of all zones.
    Everything,
}

impl<'a> Labels<'a> {
    /// `above` is wire form without an end, in lower case, and `zone` what it stands before.
    pub(super) fn new(above: &'a [u8], zone: &Name) -> Self {
        let mut labels: [&[u8]; 6] = [&[]; 6];
        let (mut count, mut rest) = (0, above);
        while let Some((length, tail)) = rest.split_first() {
            let Some((label, after)) = tail.split_at_checked(usize::from(*length)) else { break };
            if let Some(slot) = labels.get_mut(count) {
                *slot = label;
            }
            (count, rest) = (count + 1, after);
        }
        let ends = [&b"\x07in-addr\x04arpa\0"[..], b"\x03ip6\x04arpa\0"];
        let reverse = ends.iter().any(|end| zone.wire().ends_with(end));
        Self { labels, count, above, reverse, zonal: false }
    }

    /// Whether names of zones of the topology have a meaning.
    pub(super) fn with_zones(self, zonal: bool) -> Self {
        Self { zonal, ..self }
    }

    /// The only label.
    pub(super) fn only(&self) -> Option<&'a [u8]> {
        (self.count == 1).then(|| self.labels[0])
    }

    pub(super) fn is(&self, labels: &[&[u8]]) -> bool {
        self.count == labels.len() && self.labels[..self.count] == *labels
    }

    pub(super) fn meaning(&self) -> Meaning<'a> {
        if self.count > 5 {
            return self.in_zone().filter(|_| self.zonal && !self.reverse).unwrap_or(Meaning::None);
        }
        let labels = &self.labels[..self.count];
        match labels {
            [] | [b"svc" | b"pod"] => Meaning::Empty,
            // Addresses are the only names there.
            _ if self.reverse => Meaning::None,
            [namespace, b"svc"] => Meaning::Namespace(namespace),
            [namespace, b"pod"] => Meaning::PodNamespace(namespace),
            [address, namespace, b"pod"] => Meaning::Pod { address, namespace },
            [before @ .., service, namespace, b"svc"] => {
                let skipped: usize = before.iter().map(|label| 1 + label.len()).sum();
                let key = &self.above[skipped..skipped + 2 + service.len() + namespace.len()];
                let part = match before {
                    [] => Part::Whole,
                    [endpoint] => Part::Endpoint(endpoint),
                    [port, protocol, ..] => Part::Port { name: bare(port), protocol: bare(protocol) },
                };
                Meaning::Service { key, namespace, part }
            }
            _ => Meaning::None,
        }
    }
}

impl<'a> Labels<'a> {
    /// `ZONE.pin._zone.svc.ns.svc`; zones have as many labels as they like.
    fn in_zone(&self) -> Option<Meaning<'a>> {
        let mut rest = self.above;
        for _ in 5..self.count {
            rest = rest.get(1 + usize::from(*rest.first()?)..)?;
        }
        let zone = self.above.strip_suffix(rest)?;
        let Labels { labels: [directive, b"_zone", service, namespace, b"svc", _], .. } =
            Labels::new(rest, &Name::ROOT)
        else {
            return None;
        };
        let fallback = match directive {
            b"pin" => Fallback::Nothing,
            b"prefer" => Fallback::Everything,
            _ => return None,
        };
        let skipped = 2 + directive.len() + b"_zone".len();
        let key = rest.get(skipped..skipped + 2 + service.len() + namespace.len())?;
        Some(Meaning::Service { key, namespace, part: Part::Zone { zone, fallback } })
    }
}

pub(super) fn bare(label: &[u8]) -> &[u8] {
    label.strip_prefix(b"_").unwrap_or(label)
}

/// `svc.ns` in lower case, as [`Meaning::Service`] has it.
pub(super) fn key(service: &str, namespace: &str) -> Box<[u8]> {
    let mut key = Vec::with_capacity(2 + service.len() + namespace.len());
    for label in [service, namespace] {
        key.push(label.len() as u8);
        key.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    key.into()
}

/// The text of a zone as its labels stand in a name, in lower case.
pub(super) fn zone_key(zone: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + zone.len());
    for label in zone.split('.') {
        key.push(label.len() as u8);
        key.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    key
}

/// The two labels of a key.
pub(super) fn of_key(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = key.split_first()?;
    let (service, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((service, rest.get(1..)?))
}

/// An address with dashes in the place of dots or colons.
pub(super) fn dashed(address: std::net::IpAddr) -> String {
    let mut text = address.to_string().replace(['.', ':'], "-");
    if text.ends_with('-') {
        text.push('0');
    }
    text
}

/// The address that a label with dashes stands for.
pub(super) fn undashed(label: &[u8]) -> Option<std::net::IpAddr> {
    let text = std::str::from_utf8(label).ok()?;
    let dotted = text.replace('-', ".");
    let v4 = dotted.parse().ok().filter(|_| text.matches('-').count() == 3 && !text.contains("--"));
    v4.or_else(|| text.replace('-', ":").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_mean_what_the_table_says() {
        let key = key("s", "n");
        let key: &[u8] = &key;
        let namespace = &b"n"[..];
        let service = |part| Meaning::Service { key, namespace, part };
        for (text, expected) in [
            ("", Meaning::Empty),
            ("svc", Meaning::Empty),
            ("pod", Meaning::Empty),
            ("n.svc", Meaning::Namespace(namespace)),
            ("n.pod", Meaning::PodNamespace(namespace)),
            ("s.n.svc", service(Part::Whole)),
            ("e.s.n.svc", service(Part::Endpoint(b"e"))),
            ("_p._tcp.s.n.svc", service(Part::Port { name: b"p", protocol: b"tcp" })),
            ("p.tcp.s.n.svc", service(Part::Port { name: b"p", protocol: b"tcp" })),
            ("a.p.tcp.s.n.svc", Meaning::None),
            ("1-2.n.pod", Meaning::Pod { address: b"1-2", namespace }),
            ("x.1-2.n.pod", Meaning::None),
            ("s.n.foo", Meaning::None),
            ("foo", Meaning::None),
            ("a.b.c.d.e.f.g.svc", Meaning::None),
        ] {
            let name = Name::parse(text).unwrap();
            let labels = Labels::new(name.above(&Name::ROOT).unwrap(), &Name::ROOT);
            assert_eq!(labels.meaning(), expected, "{text}");
            let zone = Name::parse("10.in-addr.arpa").unwrap();
            let reverse = Labels::new(name.above(&Name::ROOT).unwrap(), &zone).meaning();
            assert_eq!(reverse, if expected == Meaning::Empty { Meaning::Empty } else { Meaning::None }, "{text}");
        }
    }

    #[test]
    fn addresses_are_written_with_dashes_in_both_families() {
        for (address, label) in
            [("10.1.2.3", "10-1-2-3"), ("fd00:1::2", "fd00-1--2"), ("2001:db8::", "2001-db8--0"), ("::1", "--1")]
        {
            assert_eq!(dashed(address.parse().unwrap()), label);
            assert_eq!(undashed(label.as_bytes()), address.parse().ok(), "{label}");
        }
        for label in ["x", "999-1-1-1", "1-2-3", "", "1-2-3-4-5"] {
            assert_eq!(undashed(label.as_bytes()), None, "{label}");
        }
    }
}
