//! What servers must prove over TLS and HTTPS, and what is proven to them.

use super::servers::Place;
use crate::corefile::{Directive, Problem, Token};
use runtime::pki::{Bundle, Identity};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{path::Path, sync::Arc};

/// The TLS settings of a stanza, made when the first server needs them.
pub(super) struct Tls<'a> {
    pub(super) line: Option<&'a Directive>,
    pub(super) name: Option<&'a Token>,
    pub(super) folder: &'a Path,
    pub(super) made: Option<ClientConfig>,
}

impl Tls<'_> {
    pub(super) fn config(
        &mut self,
        word: &Token,
        name: Option<&str>,
        place: &Place,
        protocol: &[u8],
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), Problem> {
        let mut config = match &self.made {
            Some(config) => config.clone(),
            None => self.made.insert(self.make(word)?).clone(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let given = self.name.map(|name| name.text.as_str());
        let host = match place {
            Place::Address(_) => None,
            Place::Host(host) => Some(host.name()),
        };
        let name = match (name.or(given).or(host.as_deref()), place) {
            (None, Place::Address(address)) => ServerName::from(address.ip()),
            (name, _) => ServerName::try_from(name.unwrap_or_default().to_owned())
                .map_err(|_| Problem::at(word, "its server name is no name"))?,
        };
        Ok((Arc::new(config), name))
    }

    fn make(&self, word: &Token) -> Result<ClientConfig, Problem> {
        let args = self.line.map_or(&[][..], |line| line.args.as_slice());
        let path = |token: &Token| self.folder.join(&token.text);
        let wrong =
            |error: runtime::pki::PkiError| Problem::at(self.line.map_or(word, |line| &line.name), error.to_string());
        let bundle = |token: &Token| Bundle::load(&path(token)).map_err(wrong);
        let identity = |cert: &Token, key: &Token| Identity::load_pair(&path(cert), &path(key)).map_err(wrong);
        let (authorities, identity) = match args {
            [] => (system(word)?, None),
            [authority] => (bundle(authority)?, None),
            [cert, key] => (system(word)?, Some(identity(cert, key)?)),
            [cert, key, authority] => (bundle(authority)?, Some(identity(cert, key)?)),
            [.., last] => return Err(Problem::at(last, "accepted: nothing, CA, CERT KEY, or CERT KEY CA")),
        };
        let config = runtime::tls::client_config(&authorities, identity.as_ref()).map_err(wrong)?;
        Ok(ClientConfig::clone(&config))
    }
}

/// The authorities that the machine trusts, where the usual distributions keep them.
fn system(word: &Token) -> Result<Bundle, Problem> {
    let usual = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let found = usual.iter().find_map(|path| Bundle::load(Path::new(path)).ok());
    found.ok_or_else(|| {
        Problem::at(word, format!("this machine has no authorities at {}; name a CA with tls", usual.join(", ")))
    })
}
