//! Kubeconfig files by which the administrator says where webhooks are, whom to believe there, and who this server is to them.
//!
//! `webhook` takes users by their names from one (admission), `delegated` the cluster and user of the current context (tokens,
//! authorization).

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use runtime::pki::Identity;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file as it was read; paths in it start at its own folder.
pub(crate) struct File {
    raw: Raw,
    folder: PathBuf,
}

/// Where the other side is.
pub(crate) struct Cluster {
    pub(crate) server: String,
    /// PEM of whom to believe; without it, whom the machine believes.
    pub(crate) authorities: Option<String>,
    /// Whoever answers is believed.
    pub(crate) unverified: bool,
}

/// Who this server is to the other side.
#[derive(Clone, Default)]
pub(crate) struct User {
    pub(crate) identity: Option<Identity>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    basic: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "current-context", default)]
    current_context: String,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: RawCluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawCluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: RawUser,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct RawUser {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
}

impl File {
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let raw = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        Ok(Self { raw, folder: path.parent().unwrap_or_else(|| Path::new("")).to_owned() })
    }

    /// All users, by name.
    pub(crate) fn users(&self) -> Result<Vec<(String, User)>, String> {
        self.raw.users.iter().map(|named| Ok((named.name.clone(), self.user(named)?))).collect()
    }

    /// Where the current context leads, and as whom; without a user, as nobody.
    pub(crate) fn current(&self) -> Result<(Cluster, User), String> {
        let Raw { current_context, clusters, users, contexts } = &self.raw;
        let context = contexts.iter().find(|context| context.name == *current_context);
        let context =
            &context.ok_or_else(|| format!("current-context: there is no context {current_context:?}"))?.context;
        let cluster = clusters.iter().find(|cluster| cluster.name == context.cluster);
        let cluster = &cluster.ok_or_else(|| format!("there is no cluster {:?}", context.cluster))?.cluster;
        let found = Cluster {
            server: cluster.server.clone(),
            authorities: self
                .pem(cluster.certificate_authority_data.as_deref(), cluster.certificate_authority.as_deref())?,
            unverified: cluster.insecure_skip_tls_verify,
        };
        let user = users.iter().find(|user| user.name == context.user);
        Ok((found, user.map(|named| self.user(named)).transpose()?.unwrap_or_default()))
    }

    fn user(&self, NamedUser { name, user }: &NamedUser) -> Result<User, String> {
        self.credentials(user).map_err(|why| format!("user {name:?}: {why}"))
    }

    fn credentials(&self, user: &RawUser) -> Result<User, String> {
        let certificate = self.pem(user.client_certificate_data.as_deref(), user.client_certificate.as_deref())?;
        let key = self.pem(user.client_key_data.as_deref(), user.client_key.as_deref())?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                Some(Identity::from_pem(&certificate, &key).map_err(|error| error.to_string())?)
            }
            (None, None) => None,
            _ => return Err("a client certificate needs its key, and a key its certificate".to_owned()),
        };
        let basic = user.username.as_ref().map(|name| {
            let password = user.password.as_deref().unwrap_or_default();
            STANDARD.encode(format!("{name}:{password}"))
        });
        let token_file = user.token_file.as_ref().map(|file| self.folder.join(file));
        Ok(User { identity, token: user.token.clone(), token_file, basic })
    }

    fn pem(&self, data: Option<&str>, file: Option<&Path>) -> Result<Option<String>, String> {
        match (data, file) {
            (Some(data), _) => {
                let bytes = STANDARD.decode(data.trim()).map_err(|error| error.to_string())?;
                String::from_utf8(bytes).map(Some).map_err(|error| error.to_string())
            }
            (None, Some(file)) => fs::read_to_string(self.folder.join(file))
                .map(Some)
                .map_err(|error| format!("{}: {error}", file.display())),
            (None, None) => Ok(None),
        }
    }
}

impl User {
    /// The header that says who the server is. A token in a file is read each time, as it may be renewed.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let token = match (&self.token_file, &self.token) {
            (Some(file), _) => Some(fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?),
            (None, token) => token.clone(),
        };
        let text = match (token, &self.basic) {
            (Some(token), _) => format!("Bearer {}", token.trim()),
            (None, Some(basic)) => format!("Basic {basic}"),
            (None, None) => return Ok(None),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| "the token cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}
