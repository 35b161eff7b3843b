//! What there is to see of a default certificate: whether it has to be made anew, and whether clients of today take it.

use x509_parser::pem::parse_x509_pem;

/// Whether less than a third of its life is left at this time, in seconds since 1970. One that cannot be read has to be made anew.
pub fn wants_renewal(chain: &[u8], now: i64) -> bool {
    let Ok((_, pem)) = parse_x509_pem(chain) else { return true };
    let Ok(certificate) = pem.parse_x509() else { return true };
    let validity = certificate.validity();
    let (begin, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    end - now < (end - begin) / 3
}

/// Whether it names its hosts only in a way that clients have ceased to look at.
pub fn has_only_a_common_name(chain: &[u8]) -> bool {
    let Ok((_, pem)) = parse_x509_pem(chain) else { return false };
    let Ok(certificate) = pem.parse_x509() else { return false };
    matches!(certificate.subject_alternative_name(), Ok(None))
        && certificate.subject().iter_common_name().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pki::{Authority, Purpose};
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_certificate_is_made_anew_when_a_third_of_its_life_is_left() {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let purpose = Purpose::Serving { names: vec!["*.apps.example.test".to_owned()], addresses: Vec::new() };
        let identity = Authority::create("test", begin).unwrap().issue(&purpose, begin).unwrap();
        let chain = identity.chain_pem().as_bytes();
        let (_, pem) = parse_x509_pem(chain).unwrap();
        let validity = pem.parse_x509().unwrap().validity().clone();
        let (begin, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let two_thirds = end - (end - begin) / 3;
        for (what, now, expected) in [
            ("new", begin, false),
            ("two thirds", two_thirds, false),
            ("past two thirds", two_thirds + 1, true),
            ("ended", end + 1, true),
        ] {
            assert_eq!(wants_renewal(chain, now), expected, "{what}");
        }
        assert!(wants_renewal(b"no certificate", begin));
        assert!(!has_only_a_common_name(chain));
        assert!(!has_only_a_common_name(b"no certificate"));
    }

    /// For `CN=old.example.test` without further names.
    const OLD: &str = include_str!("common_name.pem");

    #[test]
    fn a_common_name_alone_is_not_enough_for_clients() {
        assert!(has_only_a_common_name(OLD.as_bytes()));
    }
}
