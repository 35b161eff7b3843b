//! How this server vouches for users towards others, and whom it believes when others do: certificates, header names, and the
//! ConfigMap from which other servers learn both.

use crate::{ApiServer, client};
use access::authn::{RequestHeader, User};
use api::{error::ApiError, object::Fields};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use runtime::pki::{Bundle, Identity, PkiError};
use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Certificates that were judged are remembered, so that a signature is not checked again for every request.
const MOST_REMEMBERED: usize = 1000;

/// Settings and certificates.
#[derive(Default)]
pub struct FrontProxy {
    /// What others see (`--proxy-client-cert-file`).
    pub identity: Option<Identity>,
    /// Who signed it, for others (`--requestheader-client-ca-file`).
    pub authority_pem: Option<String>,
    /// Who signs clients' certificates, for others (`--client-ca-file`).
    pub clients_pem: Option<String>,
    /// Names of headers and of those who may set them.
    pub headers: RequestHeader,
    /// Whose certificates are whose, where others may vouch for users.
    pub signers: Option<Signers>,
}

/// Tells the certificates of front proxies from those of clients: one authority must not do for the other.
pub struct Signers {
    clients: Arc<dyn ClientCertVerifier>,
    proxies: Arc<dyn ClientCertVerifier>,
    judged: Mutex<HashMap<Vec<u8>, Signed>>,
}

/// By whom a certificate is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    pub by_clients_authority: bool,
    pub by_proxies_authority: bool,
}

impl Signers {
    /// Of these two authorities.
    pub fn new(clients: &Bundle, proxies: &Bundle) -> Result<Self, PkiError> {
        Ok(Self { clients: verifier(clients)?, proxies: verifier(proxies)?, judged: Mutex::default() })
    }

    /// Who signed a chain that a handshake has already accepted.
    pub fn judge(&self, chain: &[CertificateDer<'static>]) -> Signed {
        let Some((leaf, others)) = chain.split_first() else {
            return Signed { by_clients_authority: false, by_proxies_authority: false };
        };
        if let Some(known) = self.judged.lock().get(leaf.as_ref()) {
            return *known;
        }
        let now = UnixTime::now();
        let by = |verifier: &Arc<dyn ClientCertVerifier>| verifier.verify_client_cert(leaf, others, now).is_ok();
        let signed = Signed { by_clients_authority: by(&self.clients), by_proxies_authority: by(&self.proxies) };
        let mut judged = self.judged.lock();
        if judged.len() >= MOST_REMEMBERED {
            judged.clear();
        }
        judged.insert(leaf.to_vec(), signed);
        signed
    }
}

fn verifier(bundle: &Bundle) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let mut roots = RootCertStore::empty();
    for certificate in bundle.certificates() {
        roots.add(certificate.clone())?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(built.map_err(|error| rustls::Error::General(error.to_string()))?)
}

/// Names a user to another server. What a client set under these names is gone already.
pub(super) fn name_user(headers: &mut HeaderMap, user: &User) {
    // What cannot be a header cannot be passed on; the other server then knows less of the user, never more.
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    for group in &user.groups {
        add("x-remote-group", group);
    }
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escaped(key));
        values.iter().for_each(|value| add(&name, value));
    }
}

/// A key as part of a header's name: what no such name may hold is written in percents.
fn escaped(key: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(byte);
    key.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Writes the ConfigMap from which other servers learn whom to believe. Authorities of several API servers stand side by side.
pub(super) async fn publish(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    let wanted = server.aggregation.front_proxy.published();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let Some(stored) = server.object(&format!("configmaps/{NAMESPACE}/{NAME}")) else {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}, "data": wanted,
        });
        return forgiven(client::ask(server, Method::POST, &path, Some(&object)).await);
    };
    let merged = merged(stored.at("data"), &wanted);
    if stored.at("data") == &merged {
        return Ok(());
    }
    let mut object = stored;
    object.set("data", merged);
    forgiven(client::ask(server, Method::PUT, &format!("{path}/{NAME}"), Some(&object)).await)
}

/// Another server was faster; the next look finds what is left to do.
fn forgiven(done: Result<Value, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.code == 409 => Ok(()),
        other => other.map(drop),
    }
}

impl FrontProxy {
    fn published(&self) -> Value {
        let mut data = json!({});
        if let Some(pem) = &self.clients_pem {
            data["client-ca-file"] = pem.as_str().into();
        }
        if let Some(pem) = &self.authority_pem {
            let RequestHeader { username, uid, group, extra_prefix, allowed_names } = &self.headers;
            data["requestheader-client-ca-file"] = pem.as_str().into();
            for (key, list) in [
                ("requestheader-username-headers", username),
                ("requestheader-uid-headers", uid),
                ("requestheader-group-headers", group),
                ("requestheader-extra-headers-prefix", extra_prefix),
                ("requestheader-allowed-names", allowed_names),
            ] {
                data[key] = json!(list).to_string().into();
            }
        }
        data
    }
}

/// Lists and authorities of both, as others may still need what another server wrote.
fn merged(stored: &Value, wanted: &Value) -> Value {
    let mut merged = stored.clone();
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let (before, value) = (stored.str_at(key), value.as_str().unwrap_or_default());
        merged[key] = match key.ends_with("-ca-file") {
            true => united_pem(before, value),
            false => united_list(before, value),
        }
        .into();
    }
    merged
}

fn united_pem(before: &str, wanted: &str) -> String {
    let blocks = |text: &str| -> Vec<String> {
        const END: &str = "-----END CERTIFICATE-----";
        text.split_inclusive(END)
            .filter_map(|block| block.find("-----BEGIN CERTIFICATE-----").map(|at| block[at..].trim().to_owned()))
            .filter(|block| block.ends_with(END) && is_valid(block))
            .collect()
    };
    let mut all = blocks(before);
    for block in blocks(wanted) {
        if !all.contains(&block) {
            all.push(block);
        }
    }
    all.into_iter().map(|block| format!("{block}\n")).collect()
}

/// Whether it is a certificate that has not run out.
fn is_valid(pem: &str) -> bool {
    let Ok(bundle) = Bundle::from_pem(pem) else { return false };
    bundle.certificates().iter().all(|der| {
        x509_parser::parse_x509_certificate(der).is_ok_and(|(_, certificate)| certificate.validity().is_valid())
    })
}

fn united_list(before: &str, wanted: &str) -> String {
    let read = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
    let (mut all, wanted) = (read(before), read(wanted));
    for one in wanted {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    json!(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pki::{Authority, Purpose};
    use std::time::SystemTime;

    #[test]
    fn a_user_is_named_as_upstream_does() {
        let user = User {
            uid: "u1".into(),
            extra: [("authentication.kubernetes.io/credential-id".into(), vec!["a".into(), "b".into()])].into(),
            ..User::new("jane", ["dev", "ops"])
        };
        let mut headers = HeaderMap::new();
        name_user(&mut headers, &user);
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "x-remote-extra-authentication.kubernetes.io%2fcredential-id: a",
                "x-remote-extra-authentication.kubernetes.io%2fcredential-id: b",
                "x-remote-group: dev",
                "x-remote-group: ops",
                "x-remote-uid: u1",
                "x-remote-user: jane",
            ]
        );
    }

    #[test]
    fn one_authority_does_not_do_for_the_other() {
        let now = SystemTime::now();
        let (clients, proxies) =
            (Authority::create("clients", now).unwrap(), Authority::create("proxies", now).unwrap());
        let signers = Signers::new(clients.bundle(), proxies.bundle()).unwrap();
        let purpose = Purpose::Client { user: "front-proxy-client".into(), groups: vec![] };
        for (authority, want) in [(&clients, (true, false)), (&proxies, (false, true))] {
            let chain = Bundle::from_pem(authority.issue(&purpose, now).unwrap().chain_pem()).unwrap();
            let signed = signers.judge(chain.certificates());
            assert_eq!((signed.by_clients_authority, signed.by_proxies_authority), want);
            assert_eq!(signers.judge(chain.certificates()), signed, "and again from memory");
        }
    }

    #[test]
    fn authorities_of_several_servers_stand_side_by_side() {
        let now = SystemTime::now();
        let pem = || Authority::create("a", now).unwrap().certificate_pem().trim().to_owned();
        let (one, other) = (pem(), pem());
        let wanted = json!({"client-ca-file": other, "requestheader-allowed-names": "[\"b\"]"});
        let stored =
            json!({"client-ca-file": format!("{one}\nnoise"), "requestheader-allowed-names": "[\"a\"]", "x": "y"});
        let first = merged(&stored, &wanted);
        assert_eq!(
            first,
            json!({
                "client-ca-file": format!("{one}\n{other}\n"), "requestheader-allowed-names": "[\"a\",\"b\"]", "x": "y",
            })
        );
        assert_eq!(merged(&first, &wanted), first, "there is nothing left to do");
    }
}
