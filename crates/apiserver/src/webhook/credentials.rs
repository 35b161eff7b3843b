//! What the server shows to webhooks of admission: users of a kubeconfig file, each for the webhooks that its name says.
//!
//! A name is that of a Service (`hook.shop.svc`, with its port unless that is 443), or host and port of a URL; `*.shop.svc` stands for
//! all below it and `*` for all others, as upstream has it.

use crate::kubeconfig::{File, User};
use std::{collections::BTreeMap, fmt, path::Path};

/// Users by name.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, User>);

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.0.keys().eq(other.0.keys())
    }
}

/// Names only: the rest is secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Credentials {
    /// Reads a kubeconfig file; paths in it start at its own folder.
    pub fn load(file: &Path) -> Result<Self, String> {
        Ok(Self(File::load(file)?.users()?.into_iter().collect()))
    }

    /// Who the server is to this webhook.
    pub(super) fn of(&self, host: &str, port: u16) -> Option<&User> {
        let with_port = format!("{host}:{port}");
        let exact = (port == 443).then(|| self.0.get(host)).flatten().or_else(|| self.0.get(&with_port));
        let name = if port == 443 { host } else { &with_port };
        let below = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]));
        exact.or_else(|| below.into_iter().find_map(|star| self.0.get(&star))).or_else(|| self.0.get("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_webhook_is_shown_the_user_whose_name_fits_best() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("webhooks.kubeconfig");
        fs::write(folder.path().join("token"), "from-a-file\n").unwrap();
        let users = "apiVersion: v1\nkind: Config\nusers:\n- {name: hook.shop.svc, user: {token: exact}}\n\
            - {name: 'hook.shop.svc:8443', user: {token: port}}\n- {name: '*.shop.svc', user: {username: u, password: p}}\n\
            - {name: 'example.com:443', user: {tokenFile: token}}\n- {name: '*', user: {token: rest}}\n";
        fs::write(&file, users).unwrap();
        let credentials = Credentials::load(&file).unwrap();
        for (host, port, shown) in [
            ("hook.shop.svc", 443, "Bearer exact"),
            ("hook.shop.svc", 8443, "Bearer port"),
            ("other.shop.svc", 443, "Basic dTpw"),
            ("example.com", 443, "Bearer from-a-file"),
            ("127.0.0.1", 9443, "Bearer rest"),
        ] {
            let user = credentials.of(host, port).unwrap();
            assert_eq!(user.authorization().unwrap().unwrap().to_str().unwrap(), shown, "{host}:{port}");
        }
        assert_eq!(
            format!("{credentials:?}"),
            r#"{"*", "*.shop.svc", "example.com:443", "hook.shop.svc", "hook.shop.svc:8443"}"#
        );
        fs::write(&file, "users: [{name: a, user: {client-certificate-data: eA==}}]").unwrap();
        assert_eq!(
            Credentials::load(&file).unwrap_err(),
            "user \"a\": a client certificate needs its key, and a key its certificate"
        );
    }
}
