//! `rewrite edns0`: options that upstreams get with a question.
//!
//! A client's own options are between it and this server and never go further, so that the only ones to replace are those
//! of earlier rules and the wish for the server's name. What upstreams send back stays here as well.

use crate::{
    corefile::{Problem, Token},
    query::{Query, Transport},
    text,
    wire::code::{option, rtype},
};
use net::Cidr;
use std::net::IpAddr;

/// Client subnet, RFC 7871.
const SUBNET: u16 = 8;
/// What upstreams may send to a client that did not say.
const SIZE: u16 = 1232;

#[derive(Debug)]
pub(super) struct Rule {
    code: u16,
    action: Action,
    data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Whatever there is.
    Set,
    /// If there is none.
    Append,
    /// If there is one.
    Replace,
    /// None any more.
    Unset,
}

/// What the option holds.
#[derive(Debug)]
enum Data {
    Fixed(Vec<u8>),
    Name,
    Type,
    ClientAddress,
    ClientPort,
    Protocol,
    /// The client's network, by these lengths.
    Subnet {
        v4: u8,
        v6: u8,
    },
}

/// Reads what follows `edns0`.
pub(super) fn rule(field: &Token, words: &[&Token]) -> Result<Rule, Problem> {
    let accepted = "accepted: local ACTION CODE DATA, nsid ACTION, subnet ACTION V4BITS V6BITS, each perhaps with revert; \
                    ACTION is set, append, replace or unset, which takes no data";
    let refused = || Problem::at(field, accepted);
    let [kind, action, rest @ ..] = words else { return Err(refused()) };
    let action = match action.text.to_lowercase().as_str() {
        "set" => Action::Set,
        "append" => Action::Append,
        "replace" => Action::Replace,
        "unset" => Action::Unset,
        _ => return Err(Problem::at(action, "accepted: set, append, replace, unset")),
    };
    // What upstreams answer with an option is never passed on: there is nothing to turn back.
    let rest = match rest.split_last() {
        Some((last, rest)) if last.text == "revert" && action != Action::Unset => rest,
        _ => rest,
    };
    let none = Data::Fixed(Vec::new());
    let (code, data) = match (kind.text.to_lowercase().as_str(), rest, action) {
        ("nsid", [], _) => (option::NSID, none),
        ("subnet", [], Action::Unset) => (SUBNET, none),
        ("subnet", [v4, v6], Action::Set | Action::Append | Action::Replace) => {
            let v4 = text::number(v4, 0..=32, "a length from 0 to 32")?;
            (SUBNET, Data::Subnet { v4, v6: text::number(v6, 0..=128, "a length from 0 to 128")? })
        }
        ("local", [code], Action::Unset) => (number(code)?, none),
        ("local", [code, data], Action::Set | Action::Append | Action::Replace) => (number(code)?, local(data)?),
        _ => return Err(refused()),
    };
    Ok(Rule { code, action, data })
}

fn number(code: &Token) -> Result<u16, Problem> {
    let text = code.text.as_str();
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok());
    parsed.ok_or_else(|| Problem::at(code, "is no code of an option; accepted: 0 to 65535, or 0x0 to 0xffff"))
}

fn local(data: &Token) -> Result<Data, Problem> {
    let text = data.text.as_str();
    Ok(match text {
        "{qname}" => Data::Name,
        "{qtype}" => Data::Type,
        "{client_ip}" => Data::ClientAddress,
        "{client_port}" => Data::ClientPort,
        "{protocol}" => Data::Protocol,
        text if text.starts_with('{') && text.ends_with('}') => {
            return Err(Problem::at(data, "accepted: {qname}, {qtype}, {client_ip}, {client_port}, {protocol}"));
        }
        text => match text.strip_prefix("0x") {
            None => Data::Fixed(text.as_bytes().to_vec()),
            Some(hex) => {
                Data::Fixed(bytes(hex).ok_or_else(|| Problem::at(data, "needs pairs of hex digits after 0x"))?)
            }
        },
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        hex.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

impl Rule {
    /// Changes the options of a query; whether it was for it.
    pub(super) fn apply(&self, query: &mut Query) -> bool {
        let place = query.options.iter().position(|(code, _)| *code == self.code);
        let wished = self.code == option::NSID && query.request.edns.is_some_and(|edns| edns.nsid);
        let there = place.is_some() || wished;
        match (self.action, there) {
            (Action::Append, true) | (Action::Replace, false) => return false,
            (Action::Unset, _) => query.options.retain(|(code, _)| *code != self.code),
            _ => {
                let option = (self.code, self.data.of(query));
                match place {
                    Some(place) => query.options[place] = option,
                    None => query.options.push(option),
                }
            }
        }
        true
    }
}

impl Data {
    fn of(&self, query: &Query) -> Vec<u8> {
        let client = query.source.ip().to_canonical();
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        match self {
            Self::Fixed(bytes) => bytes.clone(),
            Self::Name => query.request.name.to_string().into_bytes(),
            Self::Type => query.request.rtype.to_be_bytes().to_vec(),
            Self::ClientAddress => octets(client),
            Self::ClientPort => query.source.port().to_be_bytes().to_vec(),
            Self::Protocol => if query.transport == Transport::Tcp { b"tcp" } else { b"udp" }.to_vec(),
            Self::Subnet { v4, v6 } => {
                let (family, length) = if client.is_ipv4() { (1, *v4) } else { (2, *v6) };
                let network = Cidr::containing(client, length).map_or(client, |network| network.network());
                // RFC 7871, section 6: only as many bytes as the length needs.
                let address = octets(network).into_iter().take(usize::from(length).div_ceil(8));
                [0, family, length, 0].into_iter().chain(address).collect()
            }
        }
    }
}

/// Adds options to a packet that asks something; `has_opt` says that it ends with an OPT record without any.
pub(crate) fn write(packet: &mut Vec<u8>, has_opt: bool, options: &[(u16, Vec<u8>)]) {
    if options.is_empty() {
        return;
    }
    if !has_opt {
        packet.extend([0, 0, rtype::OPT as u8]);
        packet.extend(SIZE.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0, 0]);
        packet[11] += 1;
    }
    let start = packet.len();
    for (code, data) in options {
        packet.extend(code.to_be_bytes());
        packet.extend((data.len() as u16).to_be_bytes());
        packet.extend_from_slice(data);
    }
    let length = (packet.len() - start) as u16;
    packet[start - 2..start].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use crate::{
        testing::{Asked, query_from, refused},
        wire::code::rtype,
    };
    use std::net::UdpSocket;

    /// The options that an upstream gets for a question of this client, in hex as `code:data`.
    fn sent(rules: &str, client: &str, wants_name: bool, edns: bool) -> String {
        let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
        let conf = format!(". {{\n {rules}\n forward . {}\n}}", upstream.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (length, from) = upstream.recv_from(&mut buffer).unwrap();
            let packet = buffer[..length].to_vec();
            buffer[2] |= 0x80;
            upstream.send_to(&buffer[..length], from).unwrap();
            packet
        });
        let mut query = query_from(client, "a.test.", rtype::AAAA);
        query.request.edns = query.request.edns.filter(|_| edns).map(|mut edns| {
            edns.nsid = wants_name;
            edns
        });
        assert_eq!(Asked::new(&conf).answer(query).rcode, 0);
        let packet = answering.join().unwrap();
        // Header, question, and an OPT record up to its length.
        let Some(mut rest) = packet.get(12 + 8 + 4 + 11..) else { return "no OPT".to_owned() };
        let mut shown = Vec::new();
        while let [a, b, c, d, more @ ..] = rest {
            let (data, after) = more.split_at(usize::from(u16::from_be_bytes([*c, *d])));
            let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            shown.push(format!("{:04x}:{hex}", u16::from_be_bytes([*a, *b])));
            rest = after;
        }
        shown.join(" ")
    }

    #[test]
    fn upstreams_get_what_the_rules_say() {
        for (rules, expected) in [
            ("rewrite edns0 local set 0xffee 0xabcd", "ffee:abcd"),
            ("rewrite edns0 local set 65518 ab", "ffee:6162"),
            ("rewrite edns0 local append 0xffee {qname} revert", "ffee:612e746573742e"),
            ("rewrite edns0 local set 0xffee {qtype}", "ffee:001c"),
            ("rewrite edns0 local set 0xffee {client_ip}", "ffee:c0000207"),
            ("rewrite edns0 local set 0xffee {client_port}", "ffee:0fa0"),
            ("rewrite edns0 local set 0xffee {protocol}", "ffee:756470"),
            ("rewrite edns0 nsid set", "0003:"),
            ("rewrite edns0 subnet set 24 56", "0008:00011800c00002"),
            ("rewrite edns0 subnet set 0 0", "0008:00010000"),
            // There is nothing to replace.
            ("rewrite edns0 local replace 0xffee 0xabcd", ""),
            ("rewrite edns0 nsid replace", ""),
            (
                "rewrite continue edns0 local set 0xffee 0x01\n rewrite continue edns0 local replace 0xffee 0x02\n rewrite edns0 local append 0xffee 0x03",
                "ffee:02",
            ),
            ("rewrite continue edns0 local set 0xffee 0x01\n rewrite edns0 local unset 0xffee", ""),
            // The first rule that fits ends the search.
            ("rewrite edns0 local set 0xffee 0x01\n rewrite edns0 nsid set", "ffee:01"),
            ("rewrite continue edns0 local set 0xffee 0x01\n rewrite edns0 nsid set", "ffee:01 0003:"),
        ] {
            assert_eq!(sent(rules, "192.0.2.7:4000", false, true), expected, "{rules}");
        }
        let subnet = "rewrite edns0 subnet set 24 56";
        assert_eq!(sent(subnet, "[2001:db8:1:2ff::7]:4000", false, true), "0008:0002380020010db8000102");
        let address = "rewrite edns0 local set 0xffee {client_ip}";
        assert_eq!(sent(address, "[2001:db8::7]:4000", false, true), "ffee:20010db8000000000000000000000007");
        assert_eq!(sent("rewrite edns0 nsid replace", "192.0.2.7:4000", true, true), "0003:");
        // A client without EDNS gets along as well.
        assert_eq!(sent(subnet, "192.0.2.7:4000", false, false), "0008:00011800c00002");
        assert_eq!(sent("rewrite edns0 nsid replace", "192.0.2.7:4000", false, false), "no OPT");
    }

    #[test]
    fn mistakes_in_rules_are_named() {
        for (rule, expected) in [
            ("edns0", "\"edns0\": plugin rewrite: accepted: local ACTION CODE DATA, nsid ACTION"),
            ("edns0 local", "\"edns0\": plugin rewrite: accepted: local ACTION"),
            ("edns0 local turn 1 2", "\"turn\": plugin rewrite: accepted: set, append, replace, unset"),
            ("edns0 local set 0xfffff x", "\"0xfffff\": plugin rewrite: is no code of an option"),
            ("edns0 local set 1 0xabc", "\"0xabc\": plugin rewrite: needs pairs of hex digits after 0x"),
            ("edns0 local set 1 {server_ip}", "\"{server_ip}\": plugin rewrite: accepted: {qname}, {qtype}"),
            ("edns0 local unset 1 2", "\"edns0\": plugin rewrite: accepted: local ACTION"),
            ("edns0 nsid set 1", "\"edns0\": plugin rewrite: accepted: local ACTION"),
            ("edns0 subnet set 33 56", "\"33\": plugin rewrite: accepted: a length from 0 to 32"),
            ("edns0 subnet set 24 129", "\"129\": plugin rewrite: accepted: a length from 0 to 128"),
            ("edns0 cookie set", "\"edns0\": plugin rewrite: accepted: local ACTION"),
        ] {
            let problem = refused(&format!(". {{\n rewrite {rule}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
