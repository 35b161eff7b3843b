//! Client certificates that name several groups, and subjects that a request asks for. Called by `authority` and `request`.
//!
//! Kubernetes reads the user from a certificate's CN and the groups from its O entries. rcgen keeps one value per kind
//! of entry, so a certificate is made without groups, its subject is replaced in the encoding (DER, X.690), and the
//! result is signed again.

use super::error::PkiError;
use rcgen::{KeyPair, SigningKey};
use rustls::pki_types::CertificateDer;

const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// 2.5.4.3 and 2.5.4.10, encoded.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// Where the subject stands in the signed part: after version, serial number, algorithm, issuer and validity (RFC 5280,
/// section 4.1).
const SUBJECT: usize = 5;

/// `certificate` with the subject `O=<group>..., CN=<user>`, signed by `authority`, which must have signed it before.
pub(super) fn with_groups(
    certificate: &CertificateDer<'_>,
    user: &str,
    groups: &[String],
    authority: &KeyPair,
) -> Result<CertificateDer<'static>, PkiError> {
    replaced(certificate, &subject(user, groups), authority)
}

/// `certificate` with another subject, given as DER, signed again.
pub(super) fn replaced(
    certificate: &CertificateDer<'_>,
    subject: &[u8],
    authority: &KeyPair,
) -> Result<CertificateDer<'static>, PkiError> {
    let unreadable = || PkiError::Key("a certificate just made cannot be read".to_owned());
    let parts = elements(certificate).ok_or_else(unreadable)?;
    let [signed, algorithm, _signature] = parts[..] else { return Err(unreadable()) };
    let mut fields = elements(signed).ok_or_else(unreadable)?;
    *fields.get_mut(SUBJECT).ok_or_else(unreadable)? = subject;
    let signed = encode(SEQUENCE, &fields.concat());
    let signature = authority.sign(&signed)?;
    // A bit string's first byte says how many bits of the last one are unused.
    let bits = encode(BIT_STRING, &[&[0], signature.as_slice()].concat());
    Ok(CertificateDer::from(encode(SEQUENCE, &[&signed, algorithm, &bits].concat())))
}

fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let entry = |kind: &[u8], value: &str| {
        let pair = [encode(OBJECT_IDENTIFIER, kind), encode(UTF8_STRING, value.as_bytes())].concat();
        encode(SET, &encode(SEQUENCE, &pair))
    };
    let mut entries: Vec<u8> = groups.iter().flat_map(|group| entry(&ORGANIZATION, group)).collect();
    entries.extend(entry(&COMMON_NAME, user));
    encode(SEQUENCE, &entries)
}

/// Tag, length, content.
fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => encoded.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            encoded.push(0x80 | digits.len() as u8);
            encoded.extend_from_slice(digits);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

/// The elements inside an encoded sequence, each with its tag and length.
fn elements(sequence: &[u8]) -> Option<Vec<&[u8]>> {
    let head = sequence.len() - content_of_first(sequence)?.len();
    let mut rest = &sequence[head..];
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let content = content_of_first(rest)?;
        let length = 2 + length_digits(rest)? + content.len();
        let (element, after) = rest.split_at_checked(length)?;
        elements.push(element);
        rest = after;
    }
    Some(elements)
}

/// The content of the first element.
fn content_of_first(encoded: &[u8]) -> Option<&[u8]> {
    let digits = length_digits(encoded)?;
    let length = match digits {
        0 => usize::from(*encoded.get(1)?),
        _ => encoded.get(2..2 + digits)?.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)),
    };
    encoded.get(2 + digits..)?.get(..length)
}

/// How many bytes after the second one belong to the length. Certificates are far below four of them.
fn length_digits(encoded: &[u8]) -> Option<usize> {
    match encoded.get(1)? {
        0..=0x7f => Some(0),
        0x81..=0x84 => Some(usize::from(encoded[1] & 0x7f)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_found_again(contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..5)) {
            let encoded: Vec<Vec<u8>> = contents.iter().map(|content| encode(UTF8_STRING, content)).collect();
            let sequence = encode(SEQUENCE, &encoded.concat());
            prop_assert_eq!(elements(&sequence).unwrap(), encoded);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            elements(&bytes);
        }
    }
}
