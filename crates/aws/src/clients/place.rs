//! Where AWS has an API when nobody says otherwise, and over which family it can be reached.

use net::Family;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Where an API is that the SDK does not look up. GovCloud's EC2 and STS are certified where they are, and have no other names for it.
pub(super) fn usual_url(name: &str, region: &str, dual_stack: bool, fips: bool) -> String {
    let (suffix, dual_suffix) = match region {
        _ if region.starts_with("cn-") => ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        _ if region.starts_with("eusc-") => ("amazonaws.eu", "api.amazonwebservices.eu"),
        _ if region.starts_with("us-iso-") => ("c2s.ic.gov", "api.aws.ic.gov"),
        _ if region.starts_with("us-isob-") => ("sc2s.sgov.gov", "api.aws.scloud"),
        _ if region.starts_with("eu-isoe-") => ("cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
        _ if region.starts_with("us-isof-") => ("csp.hci.ic.gov", "api.aws.hci.ic.gov"),
        _ => ("amazonaws.com", "api.aws"),
    };
    let suffix = if dual_stack { dual_suffix } else { suffix };
    let fips = if fips && (dual_stack || !region.starts_with("us-gov-")) { "-fips" } else { "" };
    format!("https://{name}{fips}.{region}.{suffix}/")
}

/// Whether this machine has a way out over IPv6 and none over IPv4: then only dual-stack endpoints can be reached.
pub(super) fn only_ipv6() -> bool {
    has_way(Family::V6) && !has_way(Family::V4)
}

fn has_way(family: Family) -> bool {
    // Addresses for documentation: connecting a UDP socket looks up the route and sends nothing.
    let (here, there): (SocketAddr, SocketAddr) = match family {
        Family::V4 => ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 443).into()),
        Family::V6 => {
            let there = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            ((Ipv6Addr::UNSPECIFIED, 0).into(), (there, 443).into())
        }
    };
    UdpSocket::bind(here).is_ok_and(|socket| socket.connect(there).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_where_the_partition_has_it() {
        for (region, dual_stack, fips, host) in [
            ("us-east-1", false, false, ".us-east-1.amazonaws.com"),
            ("us-east-1", true, false, ".us-east-1.api.aws"),
            ("us-east-1", false, true, "-fips.us-east-1.amazonaws.com"),
            ("us-east-1", true, true, "-fips.us-east-1.api.aws"),
            ("us-gov-west-1", false, false, ".us-gov-west-1.amazonaws.com"),
            ("us-gov-west-1", true, false, ".us-gov-west-1.api.aws"),
            ("us-gov-west-1", false, true, ".us-gov-west-1.amazonaws.com"),
            ("us-gov-east-1", true, true, "-fips.us-gov-east-1.api.aws"),
            ("cn-north-1", false, false, ".cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", true, false, ".cn-north-1.api.amazonwebservices.com.cn"),
            ("eusc-de-east-1", false, false, ".eusc-de-east-1.amazonaws.eu"),
            ("us-iso-east-1", false, false, ".us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", true, false, ".us-isob-east-1.api.aws.scloud"),
        ] {
            for name in ["ec2", "sts"] {
                assert_eq!(usual_url(name, region, dual_stack, fips), format!("https://{name}{host}/"));
            }
        }
    }
}
