//! Tables of the mask-size rules, for every shape of cluster.

use super::*;

fn clusters(text: &str) -> DualStack<Cidr> {
    DualStack::try_from(text.split(',').map(|cidr| cidr.parse().unwrap()).collect::<Vec<_>>()).unwrap()
}

fn flags(plain: u8, ipv4: u8, ipv6: u8) -> NodeMaskFlags {
    NodeMaskFlags { plain: Some(plain), ipv4: Some(ipv4), ipv6: Some(ipv6) }
}

#[test]
fn each_family_has_its_mask_in_the_order_of_the_cluster_cidrs() {
    for (cidrs, flags, cut) in [
        ("10.244.0.0/16", NodeMaskFlags::default(), "10.244.0.0/16 by /24"),
        ("fd00::/48", NodeMaskFlags::default(), "fd00::/48 by /64"),
        ("10.244.0.0/16,fd00::/48", NodeMaskFlags::default(), "10.244.0.0/16 by /24,fd00::/48 by /64"),
        ("fd00::/48,10.244.0.0/16", NodeMaskFlags::default(), "fd00::/48 by /64,10.244.0.0/16 by /24"),
        ("10.244.0.0/16", flags(26, 0, 0), "10.244.0.0/16 by /26"),
        ("fd00::/56", flags(72, 0, 0), "fd00::/56 by /72"),
        ("10.244.0.0/16", flags(0, 26, 0), "10.244.0.0/16 by /26"),
        ("fd00::/56", flags(0, 0, 72), "fd00::/56 by /72"),
        ("fd00::/56,10.244.0.0/16", flags(0, 26, 72), "fd00::/56 by /72,10.244.0.0/16 by /26"),
        ("10.0.0.0/8", flags(0, 32, 0), "10.0.0.0/8 by /32"),
        ("10.244.0.0/24", flags(0, 0, 0), "10.244.0.0/24 by /24"),
    ] {
        assert_eq!(node_blocks(&clusters(cidrs), flags).unwrap().to_string(), cut);
    }
}

#[test]
fn every_mistake_is_reported() {
    let plain_with_dual = "--node-cidr-mask-size=24 cannot be used with two cluster CIDRs (10.244.0.0/16,fd00::/48); \
                           use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6";
    for (cidrs, flags, message) in [
        ("10.244.0.0/16,fd00::/48", flags(24, 0, 0), plain_with_dual.to_owned()),
        (
            "10.244.0.0/16,fd00::/48",
            flags(24, 25, 44),
            format!(
                "{plain_with_dual}\n\
                 --node-cidr-mask-size=24 and --node-cidr-mask-size-ipv4=25 cannot be used together; keep one\n\
                 --node-cidr-mask-size=24 and --node-cidr-mask-size-ipv6=44 cannot be used together; keep one\n\
                 cluster CIDR fd00::/48 is smaller than one node CIDR of /44; choose a mask size of 48 or more"
            ),
        ),
        (
            "10.244.0.0/16",
            flags(0, 0, 64),
            "--node-cidr-mask-size-ipv6=64 needs an IPv6 cluster CIDR; there is only 10.244.0.0/16".into(),
        ),
        (
            "fd00::/48",
            flags(0, 24, 0),
            "--node-cidr-mask-size-ipv4=24 needs an IPv4 cluster CIDR; there is only fd00::/48".into(),
        ),
        ("10.244.0.0/16", flags(33, 0, 0), "node mask size 33 is over 32, the longest IPv4 prefix".into()),
        ("fd00::/48", flags(129, 0, 0), "node mask size 129 is over 128, the longest IPv6 prefix".into()),
        (
            "10.244.0.0/25",
            NodeMaskFlags::default(),
            "cluster CIDR 10.244.0.0/25 is smaller than one node CIDR of /24; choose a mask size of 25 or more".into(),
        ),
        (
            "fd00::/47",
            NodeMaskFlags::default(),
            "cluster CIDR fd00::/47 holds 2^17 node CIDRs of /64, more than 2^16; \
             choose a mask size of 63 or less, or a smaller cluster CIDR"
                .into(),
        ),
        (
            "::/64",
            flags(0, 0, 80),
            "cluster CIDR ::/64 contains IPv4-mapped IPv6 addresses; choose one outside ::ffff:0:0/96".into(),
        ),
    ] {
        assert_eq!(node_blocks(&clusters(cidrs), flags).unwrap_err().to_string(), message);
    }
}
