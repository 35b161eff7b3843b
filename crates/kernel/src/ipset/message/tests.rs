//! The bytes of every message, in the order of a little-endian machine, and reading what the kernel answers.

use super::*;

fn set(kind: Kind, family: Family) -> Set {
    Set { name: "s".to_owned(), kind, family }
}

#[test]
fn a_set_is_made_with_these_bytes() {
    assert_eq!(version().golden(), "020000000500010006000000");
    for (kind, family, bytes) in [
        (
            Kind::IpPort,
            Family::V4,
            "02000000\
             0500010006000000\
             0600020073000000\
             11000300686173683a69702c706f727400000000\
             0500040001000000\
             0500050002000000\
             0c000780\
             0800134000100000",
        ),
        (
            Kind::Ip,
            Family::V6,
            "0a000000\
             0500010006000000\
             0600020073000000\
             0c000300686173683a697000\
             0500040000000000\
             050005000a000000\
             0c000780\
             0800134000100000",
        ),
    ] {
        assert_eq!(create(&set(kind, family)).golden(), bytes);
    }
}

#[test]
fn entries_of_each_kind_and_family_are_these_bytes() {
    let port = |at: &str| at.parse().unwrap();
    for (kind, entry, bytes) in [
        (Kind::Ip, Entry::Ip("10.0.0.1".parse().unwrap()), "100007800c000180080001400a000001"),
        (
            Kind::IpPort,
            Entry::IpPort(Protocol::Udp, port("[fd00::1]:53")),
            "2c000780\
             1800018014000240fd000000000000000000000000000001\
             0600044000350000\
             0500070011000000",
        ),
        (
            Kind::IpPortIp,
            Entry::IpPortIp(Protocol::Tcp, port("10.1.0.2:8080"), "10.1.0.2".parse().unwrap()),
            "2c000780\
             0c000180080001400a010002\
             060004401f900000\
             0500070006000000\
             0c001480080001400a010002",
        ),
        (
            Kind::IpPortNet,
            Entry::IpPortNet(Protocol::Tcp, port("10.0.0.4:80"), "203.0.113.0/24".parse().unwrap()),
            "34000780\
             0c000180080001400a000004\
             0600044000500000\
             0500070006000000\
             0c00148008000140cb007100\
             0500150018000000",
        ),
    ] {
        let family = if matches!(entry, Entry::IpPort(..)) { Family::V6 } else { Family::V4 };
        let start = if family == Family::V4 { "02000000" } else { "0a000000" };
        let message = super::entry(Command::Add, &set(kind, family), &entry);
        assert_eq!(message.golden(), format!("{start}05000100060000000600020073000000{bytes}"), "{entry}");
    }
}

#[test]
fn a_list_reads_back_and_cut_off_answers_are_shorter() {
    let address = |at: &str| at.parse().unwrap();
    for (kind, entries) in [
        (Kind::Ip, vec![Entry::Ip("10.0.0.1".parse().unwrap()), Entry::Ip("fd00::1".parse().unwrap())]),
        (Kind::IpPort, vec![Entry::IpPort(Protocol::Sctp, address("[fd00::1]:53"))]),
        (Kind::IpPortIp, vec![Entry::IpPortIp(Protocol::Tcp, address("[fd00::1]:53"), "fd00::1".parse().unwrap())]),
        (
            Kind::IpPortNet,
            vec![
                Entry::IpPortNet(Protocol::Udp, address("10.0.0.1:53"), "10.0.0.0/8".parse().unwrap()),
                Entry::IpPortNet(Protocol::Udp, address("10.0.0.1:53"), "192.0.2.1/32".parse().unwrap()),
            ],
        ),
    ] {
        // An answer holds the same data as the messages that made it, one after the other.
        let list = attributes_of(|list| {
            for entry in &entries {
                let message = super::entry(Command::Add, &set(kind, Family::V4), entry).golden();
                let bytes: Vec<u8> = (48..message.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&message[at..at + 2], 16).unwrap())
                    .collect();
                list.nested(DATA, &bytes);
            }
            Some(())
        });
        let answer = attributes_of(|answer| {
            answer.nested(ENTRIES, &list.unwrap());
            Some(())
        });
        let answer = answer.unwrap();
        assert_eq!(read(kind, &answer), entries);
        for cut in 0..answer.len() {
            assert!(read(kind, &answer[..cut]).len() < entries.len(), "{cut}");
        }
    }
}
