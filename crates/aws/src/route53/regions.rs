//! The hosted zones of load balancers' host names, as AWS publishes them, for load balancers that cannot be asked for.

use super::names::plain;

/// Region, zone of classic load balancers, zone of network load balancers.
const ZONES: &[(&str, &str, &str)] = &[
    ("af-south-1", "Z268VQBMOI5EKX", "Z203XCE67M25HM"),
    ("ap-east-1", "Z3DQVH9N71FHZ0", "Z12Y7K3UBGUAD1"),
    ("ap-northeast-1", "Z14GRHDCWA56QT", "Z31USIVHYNEOWT"),
    ("ap-northeast-2", "ZWKZPGTI48KDX", "ZIBE1TIR4HY56"),
    ("ap-northeast-3", "Z5LXEXXYW11ES", "Z1GWIQ4HH19I5X"),
    ("ap-south-1", "ZP97RAFLXTNZK", "ZVDDRBQ08TROA"),
    ("ap-southeast-1", "Z1LMS91P8CMLE5", "ZKVM4W9LS7TM"),
    ("ap-southeast-2", "Z1GM3OXH4ZPM65", "ZCT6FZBF4DROD"),
    ("ca-central-1", "ZQSVJUPU6J1EY", "Z2EPGBW3API2WT"),
    ("cn-north-1", "Z1GDH35T77C1KE", "Z3QFB96KMJ7ED6"),
    ("cn-northwest-1", "ZM7IZAIOVVDZF", "ZQEIKTCZ8352D"),
    ("eu-central-1", "Z215JYRZR1TBD5", "Z3F0SRJ5LGBH90"),
    ("eu-central-2", "Z06391101F2ZOEP8P5EB3", "Z02239872DOALSIDCX66S"),
    ("eu-north-1", "Z23TAZ6LKFMNIO", "Z1UDT6IFJ4EJM"),
    ("eu-south-1", "Z3ULH7SSC9OV64", "Z23146JA1KNAFP"),
    ("eu-south-2", "Z0956581394HF5D5LXGAP", "Z1011216NVTVYADP1SSV"),
    ("eu-west-1", "Z32O12XQLNTSW2", "Z2IFOLAFXWLO4F"),
    ("eu-west-2", "ZHURV8PSTC4K8", "ZD4D7Y8KGAS4G"),
    ("eu-west-3", "Z3Q77PNBQS71R4", "Z1CMS0P5QUZ6D5"),
    ("me-central-1", "Z08230872XQRWHG2XF6I", "Z00282643NTTLPANJJG2P"),
    ("me-south-1", "ZS929ML54UICD", "Z3QSRYVP46NYYV"),
    ("sa-east-1", "Z2P70J7HTTTPLU", "ZTK26PT1VY4CU"),
    ("us-east-1", "Z35SXDOTRQ7X7K", "Z26RNL4JYFTOTI"),
    ("us-east-2", "Z3AADJGX6KTTL2", "ZLMOA37VPKANP"),
    ("us-west-1", "Z368ELLRRE2KJ0", "Z24FKFUX50B4VW"),
    ("us-west-2", "Z1H1FL5HABSF5", "Z18D5FSROUN65G"),
];

/// The zone of a host name: `NAME.elb.REGION.amazonaws.com` is a network load balancer's, `NAME.REGION.elb.amazonaws.com` a classic one's.
pub(super) fn zone_of(host: &str) -> Option<&'static str> {
    let host = plain(host);
    let front = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let of = |region: &str| ZONES.iter().find(|(known, _, _)| *known == region);
    if let Some(front) = front.strip_suffix(".elb") {
        return of(front.rsplit('.').next()?).map(|(_, classic, _)| *classic);
    }
    let (front, region) = front.rsplit_once('.')?;
    front.ends_with(".elb").then(|| of(region).map(|(_, _, network)| *network))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_tells_its_zone() {
        for (host, zone) in [
            ("a1-1234.elb.us-east-1.amazonaws.com", Some("Z26RNL4JYFTOTI")),
            ("a1-1234.us-east-1.elb.amazonaws.com.", Some("Z35SXDOTRQ7X7K")),
            ("internal-a1-1234.eu-north-1.elb.amazonaws.com", Some("Z23TAZ6LKFMNIO")),
            ("a1-1234.elb.cn-north-1.amazonaws.com.cn", Some("Z3QFB96KMJ7ED6")),
            ("a1-1234.elb.nowhere-1.amazonaws.com", None),
            ("www.example.com", None),
            ("amazonaws.com", None),
            ("s3.us-east-1.amazonaws.com", None),
        ] {
            assert_eq!(zone_of(host), zone, "{host}");
        }
    }
}
