//! TLS profiles: versions, ciphers and groups by name, and what a custom one gets wrong.

use super::Input;
use api::config::ingress_controller::{TlsProfile, TlsProfileSpec};

/// What routers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Ciphers up to TLS 1.2, as OpenSSL has them.
    pub ciphers: Vec<String>,
    /// Suites of TLS 1.3.
    pub suites: Vec<String>,
    /// `TLSv1.2` and the like.
    pub min_version: &'static str,
    /// Key exchange groups.
    pub groups: Vec<String>,
}

const SUITES: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
const INTERMEDIATE: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
];
const OLD: [&str; 12] = [
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];
/// Those that every OpenSSL knows: HAProxy refuses a whole configuration for one that its library does not have.
const GROUPS: [&str; 3] = ["X25519", "prime256v1", "secp384r1"];

/// The IngressController's own profile, or else the one of the API server.
pub fn profile(input: Input<'_>) -> Option<&TlsProfile> {
    let own = input.controller.spec.tls_security_profile.as_ref().filter(|profile| !profile.kind.is_empty());
    own.or(input.cluster.tls.as_ref())
}

/// A profile spelt out, as the status shows it.
pub fn spelt_out(tls: &Tls) -> TlsProfileSpec {
    let version = match tls.min_version {
        "TLSv1.1" => "VersionTLS11",
        "TLSv1.3" => "VersionTLS13",
        _ => "VersionTLS12",
    };
    TlsProfileSpec {
        ciphers: tls.ciphers.iter().chain(&tls.suites).cloned().collect(),
        min_tls_version: version.to_owned(),
        groups: tls.groups.clone(),
    }
}

/// What a profile comes to; Intermediate when there is none.
pub fn resolve(profile: Option<&TlsProfile>) -> Tls {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let groups = profile.and_then(|profile| profile.custom.as_ref()).map(|custom| custom.groups.clone());
    let groups = groups.filter(|groups| !groups.is_empty()).unwrap_or_else(|| texts(&GROUPS));
    match profile.map_or("", |profile| profile.kind.as_str()) {
        "Old" => Tls {
            ciphers: texts(&INTERMEDIATE).into_iter().chain(texts(&OLD)).collect(),
            suites: texts(&SUITES),
            min_version: "TLSv1.1",
            groups,
        },
        "Modern" => Tls { ciphers: Vec::new(), suites: texts(&SUITES), min_version: "TLSv1.3", groups },
        "Custom" => {
            let custom = profile.and_then(|profile| profile.custom.clone()).unwrap_or_default();
            let (suites, ciphers) = custom.ciphers.iter().cloned().partition(|cipher| is_suite(cipher));
            Tls { ciphers, suites, min_version: version(&custom.min_tls_version), groups }
        }
        _ => Tls { ciphers: texts(&INTERMEDIATE), suites: texts(&SUITES), min_version: "TLSv1.2", groups },
    }
}

/// HAProxy of today has no 1.0.
fn version(name: &str) -> &'static str {
    match name {
        "VersionTLS10" | "VersionTLS11" => "TLSv1.1",
        "VersionTLS13" => "TLSv1.3",
        _ => "TLSv1.2",
    }
}

fn is_suite(cipher: &str) -> bool {
    cipher.starts_with("TLS_")
}

/// What is wrong with a custom profile.
pub fn mistakes(profile: Option<&TlsProfile>) -> Vec<String> {
    const FIELD: &str = "spec.tlsSecurityProfile.custom";
    let Some(profile) = profile.filter(|profile| profile.kind == "Custom") else { return Vec::new() };
    let custom = profile.custom.clone().unwrap_or_else(TlsProfileSpec::default);
    if custom.ciphers.is_empty() {
        return vec![format!("{FIELD}.ciphers: is empty; name at least one cipher")];
    }
    let mut wrong: Vec<String> = Vec::new();
    let odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '!' | '+');
    for (at, cipher) in
        custom.ciphers.iter().enumerate().filter(|(_, cipher)| cipher.is_empty() || cipher.contains(odd))
    {
        wrong.push(format!("{FIELD}.ciphers[{at}]: {cipher:?} is no name of a cipher"));
    }
    let suites = custom.ciphers.iter().filter(|cipher| is_suite(cipher)).count();
    let newest = version(&custom.min_tls_version) == "TLSv1.3";
    if newest && suites == 0 {
        wrong.push(format!("{FIELD}.ciphers: TLS 1.3 alone needs a cipher that begins with TLS_; there is none"));
    }
    if !newest && suites == custom.ciphers.len() {
        wrong.push(format!(
            "{FIELD}.ciphers: all are for TLS 1.3, but minTLSVersion is {:?}; name one for older versions or ask for \
             VersionTLS13",
            custom.min_tls_version
        ));
    }
    wrong
}
