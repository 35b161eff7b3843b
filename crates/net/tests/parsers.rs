//! Every parser with arbitrary text: it never panics, explains itself, and reads back what it prints.

use net::{Cidr, Families, Family, PortRange, ServiceRange, flags, is_canonical, legacy, parse_ip};
use proptest::prelude::*;
use std::{
    fmt::{Debug, Display},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Text that is nearly right more often than arbitrary text is.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[0-9]{1,3}",
        "0[0-9]{0,2}",
        "[0-9a-fA-F]{1,5}",
        Just("::".to_owned()),
        Just("::ffff:".to_owned()),
        "[.:/,+%\\[\\] -]",
        Just("IPv4".to_owned()),
        Just("IPv6".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_string()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).to_string()),
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped().to_string()),
        any::<[u16; 4]>().prop_map(|o| format!("{:03}.{}.{:02}.{}", o[0] % 300, o[1] % 256, o[2] % 256, o[3] % 256)),
    ];
    let dressed =
        (address, prop_oneof![Just(String::new()), "/[0-9]{1,3}", "%[a-z]{1,4}", " ", "(,|:)[0-9a-f.:/]{0,12}"])
            .prop_map(|(address, dress)| address + &dress);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat()),
        dressed,
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

/// Reads; if that works, printing and reading again must give the same, else the message must say something.
fn sound<T: Display + Debug + PartialEq, E: Display>(
    text: &str,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, TestCaseError> {
    match read(text) {
        Ok(value) => {
            let again = read(&value.to_string()).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(&again, &value);
            Ok(Some(value))
        }
        Err(error) => {
            let message = error.to_string();
            prop_assert!(!message.is_empty() && !message.ends_with('.'), "{}", message);
            prop_assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{:?}", message);
            Ok(None)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn addresses(text in text()) {
        let strict = sound(&text, parse_ip)?;
        if let Some(ip) = strict {
            prop_assert_eq!(text.parse::<IpAddr>(), Ok(ip), "strict never reads what std refuses");
            prop_assert_eq!(ip.to_canonical(), ip);
            prop_assert_eq!(legacy::parse_stored_ip(&text), Ok(ip), "stored values may be spelled well, too");
            prop_assert_eq!(legacy::ip_spelling(&text).is_none(), is_canonical(&text));
        }
        if let Some(ip) = sound(&text, legacy::parse_stored_ip)? {
            prop_assert!(is_canonical(&ip.to_string()));
        }
        if let Err(error) = parse_ip(&text) {
            if let Some(suggestion) = error.suggestion {
                prop_assert_eq!(parse_ip(&suggestion.to_string()), Ok(suggestion));
            }
            prop_assert!(!is_canonical(&text));
        }
    }

    #[test]
    fn cidrs(text in text()) {
        if let Some(cidr) = sound(&text, Cidr::from_str)? {
            let (address, prefix) = text.split_once('/').unwrap();
            prop_assert_eq!(address.parse::<IpAddr>(), Ok(cidr.network()));
            prop_assert_eq!(prefix.parse::<u8>(), Ok(cidr.prefix()));
            prop_assert_eq!(legacy::parse_stored_cidr(&text), Ok(cidr));
        }
        sound(&text, legacy::parse_stored_cidr)?;
        legacy::cidr_spelling(&text);
        if let Err(error) = text.parse::<Cidr>() && let Some(suggestion) = error.suggestion {
            prop_assert_eq!(suggestion.to_string().parse(), Ok(suggestion));
        }
        sound(&text, ServiceRange::from_str)?;
    }

    #[test]
    fn families_and_ports(text in text()) {
        sound(&text, Family::from_str)?;
        sound(&text, Families::from_str)?;
        sound(&text, PortRange::from_str)?;
    }

    #[test]
    fn flag_lists(text in text()) {
        sound(&text, |t| flags::one_or_pair::<IpAddr>("bind-address", t))?;
        sound(&text, |t| flags::one_or_pair::<Cidr>("cluster-cidr", t))?;
        sound(&text, flags::service_ranges)?;
        sound(&text, |t| flags::advertise_address(t, Family::V6))?;
        let _ = flags::node_ip(&text);
        let _ = flags::node_port_range(&text);
    }

    #[test]
    fn every_block_reads_back_and_contains_its_address(bits: u128, v6: bool, prefix in 0u8..=128) {
        let ip: IpAddr = if v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() };
        let Some(cidr) = Cidr::containing(ip, prefix) else {
            prop_assert!(prefix > 32 && !v6 || ip.to_canonical() != ip);
            return Ok(());
        };
        prop_assert_eq!(cidr.to_string().parse(), Ok(cidr));
        prop_assert_eq!(Cidr::new(cidr.network(), prefix), Ok(cidr));
        prop_assert_eq!(cidr.offset(ip).and_then(|n| cidr.nth(n)), Some(ip));
        prop_assert!(cidr.contains(cidr.first()) && cidr.contains(cidr.last()));
        prop_assert_eq!(cidr.offset(cidr.last()).map(|n| n.saturating_add(1)), Some(cidr.size()));
        prop_assert_eq!(Cidr::new(ip, prefix).is_ok(), ip == cidr.network());
    }
}
