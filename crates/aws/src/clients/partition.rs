//! Where AWS has an API when nobody says otherwise, and over which family it can be reached.

use net::Family;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Which endpoints are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) dual_stack: bool,
    pub(super) fips: bool,
}

/// Hosts end so, also those of dual-stack endpoints.
fn suffixes(region: &str) -> (&'static str, &'static str) {
    match region {
        _ if region.starts_with("cn-") => ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        _ if region.starts_with("eusc-") => ("amazonaws.eu", "api.amazonwebservices.eu"),
        _ if region.starts_with("us-iso-") => ("c2s.ic.gov", "api.aws.ic.gov"),
        _ if region.starts_with("us-isob-") => ("sc2s.sgov.gov", "api.aws.scloud"),
        _ if region.starts_with("eu-isoe-") => ("cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
        _ if region.starts_with("us-isof-") => ("csp.hci.ic.gov", "api.aws.hci.ic.gov"),
        _ => ("amazonaws.com", "api.aws"),
    }
}

/// Where an API of a region is. GovCloud's are certified where they are, and have no other names for it.
pub(super) fn regional_url(name: &str, region: &str, Variant { dual_stack, fips }: Variant) -> String {
    let (suffix, dual_suffix) = suffixes(region);
    let suffix = if dual_stack { dual_suffix } else { suffix };
    let fips = if fips && (dual_stack || !region.starts_with("us-gov-")) { "-fips" } else { "" };
    format!("https://{name}{fips}.{region}.{suffix}/")
}

/// Where Route53 is, of which a partition has one, and the region that its requests are signed for.
pub(super) fn route53(region: &str, Variant { dual_stack, fips }: Variant) -> (String, &'static str) {
    let (suffix, dual_suffix) = suffixes(region);
    let signed_for = match region {
        _ if region.starts_with("cn-") => "cn-northwest-1",
        _ if region.starts_with("us-gov-") => "us-gov-west-1",
        _ if region.starts_with("eusc-") => "eusc-de-east-1",
        _ if region.starts_with("us-iso-") => "us-iso-east-1",
        _ if region.starts_with("us-isob-") => "us-isob-east-1",
        _ if region.starts_with("eu-isoe-") => "eu-isoe-west-1",
        _ if region.starts_with("us-isof-") => "us-isof-south-1",
        _ => "us-east-1",
    };
    let suffix = if dual_stack { dual_suffix } else { suffix };
    let host = match (signed_for, dual_stack) {
        // Certified where it is, too.
        ("us-gov-west-1", _) => format!("route53.us-gov.{suffix}"),
        ("us-east-1" | "cn-northwest-1", true) if !fips => format!("route53.global.{suffix}"),
        ("us-east-1", true) => format!("route53-fips.global.{suffix}"),
        _ if fips => format!("route53-fips.{suffix}"),
        _ => format!("route53.{suffix}"),
    };
    (format!("https://{host}/"), signed_for)
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
            for name in ["ec2", "sts", "elasticloadbalancing"] {
                assert_eq!(regional_url(name, region, Variant { dual_stack, fips }), format!("https://{name}{host}/"));
            }
        }
    }

    #[test]
    fn route53_is_once_in_a_partition() {
        for (region, dual_stack, fips, host, signed_for) in [
            ("eu-north-1", false, false, "route53.amazonaws.com", "us-east-1"),
            ("eu-north-1", true, false, "route53.global.api.aws", "us-east-1"),
            ("us-east-2", false, true, "route53-fips.amazonaws.com", "us-east-1"),
            ("us-east-2", true, true, "route53-fips.global.api.aws", "us-east-1"),
            ("cn-north-1", false, false, "route53.amazonaws.com.cn", "cn-northwest-1"),
            ("cn-north-1", true, false, "route53.global.api.amazonwebservices.com.cn", "cn-northwest-1"),
            ("cn-north-1", true, true, "route53-fips.api.amazonwebservices.com.cn", "cn-northwest-1"),
            ("us-gov-east-1", false, false, "route53.us-gov.amazonaws.com", "us-gov-west-1"),
            ("us-gov-east-1", true, true, "route53.us-gov.api.aws", "us-gov-west-1"),
            ("eusc-de-east-1", false, false, "route53.amazonaws.eu", "eusc-de-east-1"),
            ("us-iso-east-1", false, false, "route53.c2s.ic.gov", "us-iso-east-1"),
            ("us-isob-east-1", false, false, "route53.sc2s.sgov.gov", "us-isob-east-1"),
            ("eu-isoe-west-1", false, false, "route53.cloud.adc-e.uk", "eu-isoe-west-1"),
            ("us-isof-south-1", false, false, "route53.csp.hci.ic.gov", "us-isof-south-1"),
        ] {
            let expected = (format!("https://{host}/"), signed_for);
            assert_eq!(route53(region, Variant { dual_stack, fips }), expected, "{region} {dual_stack} {fips}");
        }
    }
}
