//! What a certificate is for, and reading that back from one. Called by `authority`.

use std::net::IpAddr;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
};

/// Who will show the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server, reached by these names and addresses of either family.
    Serving {
        /// DNS names; `*.example.test` is one.
        names: Vec<String>,
        /// Addresses that clients type, e.g. the first of each Service range.
        addresses: Vec<IpAddr>,
    },
    /// A client, known to the API server by this name.
    Client {
        /// The user, e.g. `system:node:a`.
        user: String,
        /// The groups, e.g. `system:masters`.
        groups: Vec<String>,
    },
}

/// What an existing certificate is for; `None` if it is neither of ours.
pub(super) fn of(certificate: &X509Certificate<'_>) -> Option<Purpose> {
    let usage = certificate.extended_key_usage().ok()??.value;
    if usage.client_auth && !usage.server_auth {
        let text = |entry: &x509_parser::x509::AttributeTypeAndValue<'_>| entry.as_str().ok().map(str::to_owned);
        let user = certificate.subject().iter_common_name().next().and_then(text)?;
        let groups = certificate.subject().iter_organization().map(text).collect::<Option<_>>()?;
        return Some(Purpose::Client { user, groups });
    }
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for name in &certificate.subject_alternative_name().ok()??.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => addresses.push(address(bytes)?),
            _ => return None,
        }
    }
    Some(Purpose::Serving { names, addresses })
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The identifier of the certificate's own key.
pub(super) fn subject_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0),
        _ => None,
    })
}

/// The identifier of the key that signed the certificate.
pub(super) fn authority_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(identifier) => identifier.key_identifier.as_ref().map(|key| key.0),
        _ => None,
    })
}
