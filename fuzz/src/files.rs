//! Files that administrators write, or that come from somewhere else: all mistakes are told, none ends the process.

use crate::{Target, input};
use apiserver::{audit, encryption::Encryption};
use ingress::router::model::Certificate;
use runtime::config::{Flag, Settings};
use std::path::Path;
use store::{StorageKey, Transform};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("install", install_file).up_to(8 << 10),
    Target::new("settings-file", settings_file),
    Target::new("audit-policy", audit_policy),
    Target::new("encryption", encryption),
    Target::new("pem", pem),
];

/// kubeadm configuration or install-config; what is accepted can be planned.
fn install_file(data: &[u8]) {
    let text = input::text(data);
    let known = install::KnownFlags { api_server: &["v", "audit-log-path"], controller_manager: &["v"] };
    match install::read(Path::new("install.yaml"), &text, known) {
        Ok(read) => drop(install::plan(&read.cluster, "0.0.0")),
        Err(mistakes) => assert!(!mistakes.to_string().is_empty()),
    }
}

/// A configuration file of any component.
fn settings_file(data: &[u8]) {
    let settings = Settings::new("proxy").file_content(Path::new("config.yaml"), data);
    // Whoever builds from optional settings alone has something to build whatever the file says.
    let mode = Flag::new("mode", "TEXT", "any text", |text| Ok(text.to_owned()), "");
    let _ = settings.read(|settings| Some(settings.optional::<String>(&mode)));
}

fn audit_policy(data: &[u8]) {
    let text = input::text(data);
    let _ = audit::Policy::parse(&text);
}

/// An EncryptionConfiguration and a value at rest: what is sealed is opened as it was, and what nobody sealed is refused.
fn encryption(data: &[u8]) {
    let text = input::text(data);
    let [config, stored] = input::parts(&text);
    let Ok(encryption) = Encryption::parse(config) else { return };
    let storage_key = StorageKey { prefix: "/registry/", key: "secrets/a/s" };
    let _ = encryption.open(storage_key, stored.as_bytes());
    // Objects begin so, and never like something encrypted.
    let object = format!("{{{stored}");
    let sealed = encryption.seal(storage_key, object.as_bytes()).expect("a value can be sealed");
    let opened = encryption.open(storage_key, &sealed).expect("what was sealed is opened");
    assert_eq!(opened.value, object.as_bytes());
}

/// Certificates and keys of Routes and of flags: a chain, its key, and more certificates.
fn pem(data: &[u8]) {
    let text = input::text(data);
    let [chain, key, more] = input::parts(&text);
    let _ = runtime::pki::Bundle::from_pem(chain);
    let _ = access::authn::service_account::PublicKey::from_pem(chain);
    let _ = access::authn::service_account::SigningKey::from_pem(key);
    if let Ok(certificate) = Certificate::read(chain, key, more) {
        let lines = certificate.pem().lines();
        assert!(lines.clone().all(|line| line.is_ascii()), "HAProxy sees no bytes of a user");
    }
}
