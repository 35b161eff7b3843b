//! The user of a TLS client certificate: CN is the name, every O a group. Called by `Authenticator` with the leaf of a chain
//! that rustls has already verified against the client CA.

use super::user::{CREDENTIAL_ID, User};
use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::{der_parser::oid, prelude::*};

/// Why a verified certificate names no user. Not retryable: the client needs another certificate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not DER, or not X.509.
    #[error("client certificate cannot be read: {0}")]
    Unreadable(String),
    /// CN, O or the uid attribute is not text.
    #[error("client certificate: subject attribute {0} is not text")]
    NotText(&'static str),
    /// More than one uid.
    #[error("client certificate: {0} uid attributes in the subject, at most one is accepted")]
    ManyUids(usize),
}

/// The user a leaf certificate names; none when its CN is empty.
pub(super) fn user(der: &[u8]) -> Result<Option<User>, CertificateError> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| CertificateError::Unreadable(error.to_string()))?;
    let subject = certificate.subject();
    // As Go reads a subject: the last CN counts.
    let Some(name) = texts(subject.iter_common_name(), "CN")?.pop().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let groups = texts(subject.iter_organization(), "O")?;
    // The attribute that Kubernetes registered for the uid of a user.
    let uid_attribute = oid!(1.3.6.1.4.1.57683.2);
    let mut uids = texts(subject.iter_by_oid(&uid_attribute), "uid")?;
    if uids.len() > 1 {
        return Err(CertificateError::ManyUids(uids.len()));
    }
    let print = digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let extra = [(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={print}")])].into();
    Ok(Some(User { name, uid: uids.pop().unwrap_or_default(), groups, extra }))
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
    what: &'static str,
) -> Result<Vec<String>, CertificateError> {
    attributes.map(|a| a.as_str().map(str::to_owned).map_err(|_| CertificateError::NotText(what))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn cn_is_the_user_and_o_the_group() {
        let der = certificate(&[
            (DnType::CommonName, "system:node:n1"),
            (DnType::OrganizationName, "system:nodes"),
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u-1"),
        ]);
        let user = user(&der).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:node:n1", "u-1"));
        assert_eq!(user.groups, ["system:nodes"]);
        assert_eq!(user.node(), Some("n1"));
        let id = &user.extra[CREDENTIAL_ID][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == "X509SHA256=".len() + 64, "{id}");
    }

    #[test]
    fn a_certificate_without_cn_names_nobody() {
        assert_eq!(user(&certificate(&[(DnType::OrganizationName, "system:masters")])), Ok(None));
        assert_eq!(user(&certificate(&[(DnType::CommonName, "")])), Ok(None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!matches!(user(&bytes), Ok(Some(_))));
        }
    }
}
