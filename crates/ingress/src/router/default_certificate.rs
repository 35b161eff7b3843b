//! The certificate for names that have none of their own.

use super::{model::Certificate, settings::Tls};
use runtime::pki::{Authority, Purpose};
use std::{fs, time::SystemTime};

/// As the environment names it: text, a file, a folder with tls.crt and tls.key. Without any of them, one that nobody trusts.
pub(super) fn read(tls: &Tls) -> Result<Certificate, String> {
    if let Some(pem) = &tls.default_pem {
        return Certificate::read(pem.expose(), pem.expose(), "")
            .map_err(|problem| format!("DEFAULT_CERTIFICATE {problem}"));
    }
    let text =
        |path: &std::path::Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    if let Some(path) = tls.default_path.as_ref().filter(|path| path.exists()) {
        let pem = text(path)?;
        return Certificate::read(&pem, &pem, "").map_err(|problem| format!("{} {problem}", path.display()));
    }
    if let Some(folder) = tls.default_folder.as_ref().filter(|folder| folder.join("tls.crt").exists()) {
        let (chain, key) = (text(&folder.join("tls.crt"))?, text(&folder.join("tls.key"))?);
        return Certificate::read(&chain, &key, "").map_err(|problem| format!("{} {problem}", folder.display()));
    }
    generated().map_err(|error| format!("cannot make a certificate: {error}"))
}

/// Whether another certificate may be read later from the same place.
pub(super) fn may_change(tls: &Tls) -> bool {
    tls.default_pem.is_none() && (tls.default_path.is_some() || tls.default_folder.is_some())
}

fn generated() -> Result<Certificate, String> {
    let now = SystemTime::now();
    let authority = Authority::create("router", now).map_err(|error| error.to_string())?;
    let purpose = Purpose::Serving { names: vec!["router.invalid".to_owned()], addresses: Vec::new() };
    let identity = authority.issue(&purpose, now).map_err(|error| error.to_string())?;
    Certificate::read(identity.chain_pem(), identity.key_pem().expose(), "")
}
