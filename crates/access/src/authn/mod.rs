//! Who asks: every request becomes a `User` here, or is answered 401.
//!
//! The engine calls `Authenticator::authenticate` once per request, then reads `Impersonation`. Order as upstream: front proxy, client
//! certificate, bearer token, WebSocket token, nobody. A credential that was shown and is wrong is refused; it never falls
//! through to anonymous. No credential is ever part of an error, a log line or `Debug`.

mod bearer;
mod bootstrap_token;
mod certificate;
mod impersonation;
pub mod jwt;
mod request_header;
pub mod service_account;
#[cfg(test)]
mod tests;
mod token_file;
pub mod user;

pub use bearer::{SubprotocolError, Subprotocols, Token, websocket};
pub use certificate::CertificateError;
pub use impersonation::Impersonation;
pub use request_header::RequestHeader;
pub use token_file::{TokenFile, TokenFileError};
pub use user::User;

use api::error::ApiError;
use http::HeaderMap;
use jiff::Timestamp;
use service_account::{Objects, TokenError, Verifier};
use std::{fmt, sync::Arc};

/// Where a request without credentials is let in, to be judged by the authorizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// Nowhere (`--anonymous-auth=false`).
    Nowhere,
    /// On these paths alone.
    Paths(Vec<String>),
    /// Everywhere, as upstream without configuration.
    Everywhere,
}

impl Anonymous {
    /// What `--anonymous-auth` means, if it is given.
    pub fn from_flag(given: Option<bool>) -> Self {
        match given {
            Some(true) => Self::Everywhere,
            Some(false) => Self::Nowhere,
            None => Self::default(),
        }
    }
}

impl Default for Anonymous {
    /// Health and version: what a load balancer or a newcomer needs before it has credentials.
    fn default() -> Self {
        Self::Paths(["/healthz", "/livez", "/readyz", "/version", "/version/"].map(str::to_owned).into())
    }
}

/// Why somebody is not known. The answer is 401 without the reason; the reason is for logs and TokenReviews.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthnError {
    /// No credentials where they are needed.
    #[error("no credentials")]
    Missing,
    /// A token that no authenticator knows.
    #[error("invalid bearer token")]
    UnknownToken,
    /// A service account token that is ours and not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A token that another authority knows and refuses.
    #[error("{0}")]
    Refused(String),
    /// A token among the WebSocket subprotocols that cannot be read.
    #[error(transparent)]
    Subprotocol(#[from] SubprotocolError),
}

impl From<AuthnError> for ApiError {
    fn from(_: AuthnError) -> Self {
        Self::unauthorized()
    }
}

/// What a request shows of its sender.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// DER of the verified client certificate, the leaf.
    pub certificate: Option<&'a [u8]>,
    /// DER of the certificate of a front proxy, the leaf: signed by the authority of those, who may vouch for users.
    pub front_proxy: Option<&'a [u8]>,
    /// Headers of the request.
    pub headers: &'a HeaderMap,
    /// Path of the request.
    pub path: &'a str,
}

impl Credentials<'_> {
    /// What kinds of credentials were shown, in upstream's words, for the audit log of a refusal.
    pub fn shown(&self) -> Vec<&'static str> {
        let bearer = bearer::authorization(self.headers).is_some();
        [("bearer", bearer), ("x509", self.certificate.is_some())]
            .into_iter()
            .filter_map(|(name, shown)| shown.then_some(name))
            .collect()
    }
}

/// Who a token is, and for which of the wanted audiences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The user, `system:authenticated` among its groups.
    pub user: User,
    /// Audiences that both the token and the reader name.
    pub audiences: Vec<String>,
}

/// Somebody else who knows tokens: issuers of JSON Web Tokens, webhooks. Asked in turn, after the server's own.
pub trait TokenAuthenticator: Send + Sync {
    /// Who a token is; none when it is not for this one to say. `wanted` are the audiences of the reader, never empty.
    fn token(&self, token: &Token, wanted: &[String], now: Timestamp) -> Result<Option<Authenticated>, AuthnError>;
}

/// Those others.
#[derive(Clone, Default)]
pub struct Others(pub Vec<Arc<dyn TokenAuthenticator>>);

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Others({})", self.0.len())
    }
}

/// What a request shows of its sender, before anybody is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Proven by a certificate.
    User(User),
    /// Somebody has to say whose it is.
    Token(Token),
    Nothing,
}

/// Reads it, for those who ask the API server about tokens too (kubelets).
pub fn shown(credentials: Credentials<'_>) -> Result<Shown, SubprotocolError> {
    let Credentials { certificate, front_proxy: _, headers, path: _ } = credentials;
    if let Some(der) = certificate {
        match certificate::user(der) {
            Ok(Some(user)) => return Ok(Shown::User(authenticated(user))),
            Ok(None) => {}
            // The chain is valid and merely names nobody; a token may still do so.
            Err(error) => tracing::debug!(%error, "client certificate names no user"),
        }
    }
    let token = match bearer::authorization(headers) {
        Some(token) => Some(token),
        None => websocket(headers)?.token,
    };
    Ok(token.map_or(Shown::Nothing, Shown::Token))
}

/// All the ways to know somebody.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// `--token-auth-file`.
    pub token_file: Option<TokenFile>,
    /// `--enable-bootstrap-token-auth`: Secrets that let machines in.
    pub bootstrap_tokens: bool,
    /// Service account tokens.
    pub service_accounts: Option<Verifier>,
    /// Who else knows tokens.
    pub others: Others,
    /// `--api-audiences`: whom static tokens are for.
    pub audiences: Vec<String>,
    /// Requests without credentials.
    pub anonymous: Anonymous,
    /// How front proxies name users.
    pub request_header: RequestHeader,
}

impl Authenticator {
    /// The user of a request.
    pub fn authenticate(
        &self,
        credentials: Credentials<'_>,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, AuthnError> {
        let Credentials { front_proxy, headers, path, .. } = credentials;
        let proxy = front_proxy.and_then(|der| certificate::user(der).ok().flatten());
        if let Some(user) = proxy.and_then(|proxy| self.request_header.user(&proxy.name, headers)) {
            return Ok(authenticated(user));
        }
        match shown(credentials)? {
            Shown::User(user) => Ok(user),
            Shown::Token(token) => Ok(self.token(&token, &[], objects, now)?.user),
            Shown::Nothing if self.admits_anonymous(path) => Ok(User::anonymous()),
            Shown::Nothing => Err(AuthnError::Missing),
        }
    }

    /// Who a token is. `wanted` are the audiences of the reader; empty means the API server's own.
    pub fn token(
        &self,
        token: &Token,
        wanted: &[String],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Authenticated, AuthnError> {
        let known = self.token_file.as_ref().and_then(|file| file.user(token)).cloned();
        let joining = || bootstrap_token::user(token, objects, now).filter(|_| self.bootstrap_tokens);
        if let Some(user) = known.or_else(joining) {
            // Such a token names no audience: it is for the API server and nobody else.
            let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
            let audiences: Vec<_> = self.audiences.iter().filter(|a| wanted.contains(a)).cloned().collect();
            if audiences.is_empty() && !wanted.is_empty() {
                return Err(AuthnError::UnknownToken);
            }
            return Ok(Authenticated { user: authenticated(user), audiences });
        }
        let verifier = self.service_accounts.as_ref();
        let verified = verifier.map(|verifier| verifier.verify(token.expose(), wanted, objects, now)).transpose()?;
        if let Some(verified) = verified.flatten() {
            return Ok(Authenticated { user: authenticated(verified.user), audiences: verified.audiences });
        }
        self.others(token, if wanted.is_empty() { &self.audiences } else { wanted }, now)
    }

    /// Who one of the others says a token is. A refusal is told when nobody else knows it.
    fn others(&self, token: &Token, wanted: &[String], now: Timestamp) -> Result<Authenticated, AuthnError> {
        let mut refusal = AuthnError::UnknownToken;
        for other in &self.others.0 {
            match other.token(token, wanted, now) {
                Ok(Some(known)) => return Ok(Authenticated { user: authenticated(known.user), ..known }),
                Ok(None) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn admits_anonymous(&self, path: &str) -> bool {
        match &self.anonymous {
            Anonymous::Nowhere => false,
            Anonymous::Paths(paths) => paths.iter().any(|p| p == path),
            Anonymous::Everywhere => true,
        }
    }
}

/// Adds the group of everybody with credentials.
fn authenticated(mut user: User) -> User {
    if !user.in_group(user::AUTHENTICATED) && !user.in_group(user::UNAUTHENTICATED) {
        user.groups.push(user::AUTHENTICATED.to_owned());
    }
    user
}
