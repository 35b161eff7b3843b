//! Writing kubeconfig files, for `up` and for components that are given one. Reading is kube's own.

use crate::{atomic_file, pki::Identity, secret::Secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{net::SocketAddr, path::Path};

/// How the client proves who it is.
#[derive(Clone, Debug)]
pub enum Credential {
    Certificate(Identity),
    /// With a bearer token.
    Token(Secret<String>),
}

/// What to write. Each server becomes a cluster and a context of its own, all with the same user.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// Name of the user.
    pub user: String,
    /// Context name and server, the current one first. For a dual-stack server e.g. `twinstack` and `twinstack-ipv6`.
    pub servers: Vec<(String, Url)>,
    /// The authority that signed the servers' certificates, as PEM.
    pub authority_pem: String,
    /// See [`Credential`].
    pub credential: Credential,
}

/// The `https` URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(String);

impl Url {
    /// Of a name and port, or as given elsewhere.
    pub fn named(host: &str, port: u16) -> Self {
        Self(format!("https://{host}:{port}"))
    }

    /// The URL itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SocketAddr> for Url {
    /// An IPv6 address stands in brackets; its zone means nothing to others and is left out.
    fn from(address: SocketAddr) -> Self {
        Self(format!("https://{}", SocketAddr::new(address.ip(), address.port())))
    }
}

impl Kubeconfig {
    /// Writes the file, readable by its owner alone.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        atomic_file::write(path, self.render().as_bytes(), atomic_file::PRIVATE)
    }

    /// The YAML text. It holds the credential.
    #[must_use]
    pub fn render(&self) -> String {
        let user = quoted(&self.user);
        let authority = STANDARD.encode(&self.authority_pem);
        let (mut clusters, mut contexts) = (String::new(), String::new());
        for (name, Url(url)) in &self.servers {
            let (name, url) = (quoted(name), quoted(url));
            clusters.push_str(&format!(
                "- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}\n"
            ));
            contexts.push_str(&format!("- name: {name}\n  context:\n    cluster: {name}\n    user: {user}\n"));
        }
        let credential = match &self.credential {
            Credential::Certificate(identity) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                STANDARD.encode(identity.chain_pem()),
                STANDARD.encode(identity.key_pem().expose())
            ),
            Credential::Token(token) => format!("token: {}", quoted(token.expose())),
        };
        let current = self.servers.first().map_or_else(|| quoted(""), |(name, _)| quoted(name));
        format!(
            "apiVersion: v1
kind: Config
current-context: {current}
clusters:
{clusters}contexts:
{contexts}users:
- name: {user}
  user:
    {credential}
"
        )
    }
}

/// A JSON string is a YAML string, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Authority, Purpose};
    use std::{os::unix::fs::PermissionsExt, time::SystemTime};

    fn url(address: &str) -> Url {
        address.parse::<SocketAddr>().unwrap().into()
    }

    fn with_token() -> Kubeconfig {
        Kubeconfig {
            user: "admin".to_owned(),
            servers: vec![
                ("twinstack".to_owned(), url("127.0.0.1:6443")),
                ("twinstack-ipv6".to_owned(), url("[::1]:6443")),
            ],
            authority_pem: "PEM\n".to_owned(),
            credential: Credential::Token(Secret::new("a: \"b\"".to_owned())),
        }
    }

    #[test]
    fn both_families_are_contexts_of_one_user() {
        let expected = r#"apiVersion: v1
kind: Config
current-context: "twinstack"
clusters:
- name: "twinstack"
  cluster:
    server: "https://127.0.0.1:6443"
    certificate-authority-data: UEVNCg==
- name: "twinstack-ipv6"
  cluster:
    server: "https://[::1]:6443"
    certificate-authority-data: UEVNCg==
contexts:
- name: "twinstack"
  context:
    cluster: "twinstack"
    user: "admin"
- name: "twinstack-ipv6"
  context:
    cluster: "twinstack-ipv6"
    user: "admin"
users:
- name: "admin"
  user:
    token: "a: \"b\""
"#;
        assert_eq!(with_token().render(), expected);
    }

    #[test]
    fn urls_bracket_ipv6_and_drop_zones() {
        for (address, expected) in [
            ("192.0.2.1:443", "https://192.0.2.1:443"),
            ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443"),
            ("[fe80::1%3]:6443", "https://[fe80::1]:6443"),
        ] {
            assert_eq!(url(address).as_str(), expected);
        }
        assert_eq!(Url::named("api.example.test", 6443).as_str(), "https://api.example.test:6443");
    }

    #[test]
    fn a_written_file_is_private_and_parses_with_its_certificate() {
        let now = SystemTime::now();
        let authority = Authority::create("test", now).unwrap();
        let purpose = Purpose::Client { user: "admin".to_owned(), groups: vec!["system:masters".to_owned()] };
        let identity = authority.issue(&purpose, now).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.conf");
        let config = Kubeconfig { credential: Credential::Certificate(identity.clone()), ..with_token() };
        config.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let value: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let user = &value["users"][0]["user"];
        let decoded = |field: &str| STANDARD.decode(user[field].as_str().unwrap()).unwrap();
        assert_eq!(decoded("client-certificate-data"), identity.chain_pem().as_bytes());
        assert_eq!(decoded("client-key-data"), identity.key_pem().expose().as_bytes());
    }
}
