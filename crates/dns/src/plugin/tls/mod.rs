//! `tls`: the certificate of `tls://` and `https://` blocks.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem, Token},
};
use runtime::pki::{Bundle, Identity, PkiError, Rotating};
use rustls::ServerConfig;
use std::{io, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// What an address shows to its clients.
#[derive(Debug)]
pub struct ServerTls {
    /// For DNS over HTTPS.
    pub https: Arc<ServerConfig>,
    /// For DNS over TLS.
    dot: Arc<ServerConfig>,
    /// Whether clients must have a certificate.
    pub required: bool,
}

impl ServerTls {
    /// A handshake for DNS over TLS.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let stream = TlsAcceptor::from(Arc::clone(&self.dot)).accept(stream).await?;
        if self.required && stream.get_ref().1.peer_certificates().is_none() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the client has no certificate"));
        }
        Ok(stream)
    }
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let (cert, key, authority) = match line.args.as_slice() {
        [cert, key] => (cert, key, None),
        [cert, key, authority] => (cert, key, Some(authority)),
        _ => {
            return Err(Problem::at(
                &line.name,
                "needs a certificate and its key, and perhaps the authority of clients",
            ));
        }
    };
    let (verified, required) = demand(line)?;
    let path = |token: &Token| building.folder.join(&token.text);
    let wrong = |token: &Token| {
        let token = token.clone();
        move |error: PkiError| Problem::at(&token, error.to_string())
    };
    let clients = match (verified, authority) {
        (false, _) => None,
        (true, Some(authority)) => Some(Bundle::load(&path(authority)).map_err(wrong(authority))?),
        (true, None) => return Err(Problem::at(&line.name, "client_auth needs the authority of clients")),
    };
    let identity = Identity::load_pair(&path(cert), &path(key)).map_err(wrong(cert))?;
    let shown = Rotating::new(&identity).map_err(wrong(cert))?;
    let https = runtime::tls::server_config(shown, clients.as_ref()).map_err(wrong(cert))?;
    let mut dot = ServerConfig::clone(&https);
    dot.alpn_protocols = vec![b"dot".to_vec()];
    building.tls = Some(Arc::new(ServerTls { https, dot: Arc::new(dot), required }));
    Ok(())
}

/// Whether certificates of clients are verified, and whether each must have one.
fn demand(line: &Directive) -> Result<(bool, bool), Problem> {
    let accepted = "accepted: nocert, verify_if_given, require_and_verify";
    let mut demand = (false, false);
    for line in line.lines() {
        if line.name.text != "client_auth" {
            return Err(line.unknown(&["client_auth"]));
        }
        let token = line.one()?;
        demand = match token.text.as_str() {
            "nocert" => (false, false),
            "verify_if_given" => (true, false),
            "require_and_verify" => (true, true),
            "request" | "require" => {
                let why = "a certificate that nobody verifies says nothing";
                return Err(Problem::at(token, format!("is not built, since {why}; {accepted}")));
            }
            _ => return Err(Problem::at(token, accepted)),
        };
    }
    Ok(demand)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::testing::{build, refused};
    use runtime::pki::{Authority, Purpose};
    use std::{path::Path, time::SystemTime};

    /// Files `cert`, `key` and `ca` for `localhost` in a folder.
    pub(crate) fn files(folder: &Path) {
        runtime::tls::install_provider();
        let authority = Authority::create("test", SystemTime::now()).unwrap();
        let purpose = Purpose::Serving { names: vec!["localhost".to_owned()], addresses: Vec::new() };
        let identity = authority.issue(&purpose, SystemTime::now()).unwrap();
        std::fs::write(folder.join("cert"), identity.chain_pem()).unwrap();
        std::fs::write(folder.join("key"), identity.key_pem().expose()).unwrap();
        std::fs::write(folder.join("ca"), authority.certificate_pem()).unwrap();
    }

    #[test]
    fn blocks_over_tls_have_a_certificate_and_a_port_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path());
        let root = folder.path().display();
        for (key, port) in [("tls://.", 853), ("https://.", 443), ("tls://.:8853", 8853)] {
            let built = build(&format!("{key} {{\n root {root}\n tls cert key\n whoami\n}}")).unwrap();
            assert_eq!(built.routes.keys().next().unwrap().port, port, "{key}");
            assert!(built.routes.values().next().unwrap().tls.is_some());
        }
        for (line, expected) in [
            ("", "\"tls://.\": needs a tls line with a certificate in this block"),
            ("tls cert", "needs a certificate and its key, and perhaps the authority of clients"),
            ("tls nothing key", "\"nothing\": plugin tls: "),
            ("tls cert key ca {\n client_auth require\n }", "a certificate that nobody verifies says nothing"),
            ("tls cert key {\n client_auth verify_if_given\n }", "client_auth needs the authority of clients"),
        ] {
            let problem = refused(&format!("tls://. {{\n root {root}\n {line}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
        let demanding = "tls cert key ca {\n client_auth require_and_verify\n }";
        assert!(build(&format!("tls://. {{\n root {root}\n {demanding}\n}}")).is_ok());
    }
}
