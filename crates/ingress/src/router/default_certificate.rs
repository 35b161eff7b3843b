//! The certificate for names that have none of their own.

use super::{model::Certificate, settings::Tls};
use runtime::pki::{Authority, Purpose};
use std::{fs, time::SystemTime};

/// As the environment names it, or one that nobody trusts.
pub(super) fn read(tls: &Tls) -> Result<Certificate, String> {
    match given(tls)? {
        Some(certificate) => Ok(certificate),
        None => generated().map_err(|error| format!("cannot make a certificate: {error}")),
    }
}

/// As the environment names it: text, a file, a folder with tls.crt and tls.key. None when it names nothing, or nothing that is
/// there.
pub(super) fn given(tls: &Tls) -> Result<Option<Certificate>, String> {
    if let Some(pem) = &tls.default_pem {
        return Certificate::read(pem.expose(), pem.expose(), "")
            .map(Some)
            .map_err(|problem| format!("DEFAULT_CERTIFICATE {problem}"));
    }
    let text =
        |path: &std::path::Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    if let Some(path) = tls.default_path.as_ref().filter(|path| path.exists()) {
        let pem = text(path)?;
        return Certificate::read(&pem, &pem, "").map(Some).map_err(|problem| format!("{} {problem}", path.display()));
    }
    let Some(folder) = tls.default_folder.as_ref().filter(|folder| folder.join("tls.crt").exists()) else {
        return Ok(None);
    };
    let (chain, key) = (text(&folder.join("tls.crt"))?, text(&folder.join("tls.key"))?);
    Certificate::read(&chain, &key, "").map(Some).map_err(|problem| format!("{} {problem}", folder.display()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::model::testing;

    /// A certificate made here is another one each time: looking again must not make one, or HAProxy would be replaced each
    /// time somebody looks.
    #[test]
    fn a_folder_that_is_gone_gives_nothing_new() {
        let folder = tempfile::tempdir().unwrap();
        let tls = Tls { default_folder: Some(folder.path().join("certificate")), ..Tls::default() };
        assert!(read(&tls).is_ok() && given(&tls).unwrap().is_none());
        let (chain, key) = testing::certificate("router.test");
        fs::create_dir(folder.path().join("certificate")).unwrap();
        fs::write(folder.path().join("certificate/tls.crt"), chain).unwrap();
        assert!(given(&tls).is_err(), "half of one");
        fs::write(folder.path().join("certificate/tls.key"), key).unwrap();
        assert_eq!(given(&tls).unwrap(), Some(read(&tls).unwrap()));
        folder.close().unwrap();
        assert!(given(&tls).unwrap().is_none());
    }
}
