//! The endpoint that a container is given: `AWS_CONTAINER_CREDENTIALS_FULL_URI` (EKS pod identity) and `..._RELATIVE_URI` (ECS).

use super::{Credentials, CredentialsError, from_json};
use crate::clients::{
    environment::Environment,
    http::{Http, Patience, Proxy},
};
use bytes::Bytes;
use http::{Request, Uri};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
const ECS: &str = "http://169.254.170.2";
/// Where ECS and EKS have it: beside loopback the only addresses that get a token without TLS.
const ALLOWED: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];
const PATIENCE: Patience = Patience { connect: Duration::from_secs(2), answer: Duration::from_secs(5) };
const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Container {
    environment: Environment,
    http: Http,
}

impl Container {
    pub(super) fn new(environment: Environment) -> Self {
        Self { environment, http: Http::new(Proxy::None, PATIENCE) }
    }

    pub(super) async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        let uri = match (self.environment.get(RELATIVE), self.environment.get(FULL)) {
            (Some(path), _) => parsed(RELATIVE, &format!("{ECS}/{}", path.trim_start_matches('/')))?,
            (None, Some(full)) => {
                let uri = parsed(FULL, full)?;
                check(&uri).await?;
                uri
            }
            (None, None) => return Err(CredentialsError::NotHere(format!("{FULL} is not set"))),
        };
        let failed = |why: String| CredentialsError::Failed(format!("container credentials at {uri}: {why}"));
        let mut attempt = 1;
        let answer = loop {
            let mut request = Request::get(&uri).header("accept", "application/json");
            if let Some(token) = self.token()? {
                request = request.header("authorization", token);
            }
            let request = request.body(Bytes::new()).map_err(|error| failed(error.to_string()))?;
            match self.http.send(request).await {
                Ok(answer) if !answer.status().is_server_error() || attempt == ATTEMPTS => break answer,
                Err(failure) if attempt == ATTEMPTS => return Err(failed(failure.describe())),
                Ok(_) | Err(_) => attempt += 1,
            }
        };
        if !answer.status().is_success() {
            return Err(failed(format!("HTTP {}", answer.status())));
        }
        from_json(&String::from_utf8_lossy(answer.body())).map_err(failed)
    }

    /// The file is read anew each time: its token ends.
    fn token(&self) -> Result<Option<String>, CredentialsError> {
        let Some(file) = self.environment.get(TOKEN_FILE) else {
            return Ok(self.environment.get(TOKEN).map(str::to_owned));
        };
        let token = std::fs::read_to_string(file)
            .map_err(|error| CredentialsError::Failed(format!("{TOKEN_FILE}: {file}: {error}")))?;
        Ok(Some(token.trim().to_owned()))
    }
}

fn parsed(variable: &str, text: &str) -> Result<Uri, CredentialsError> {
    text.parse().map_err(|error| CredentialsError::Failed(format!("{variable}: {text:?} is no URI: {error}")))
}

/// Whether a token may be sent there: over TLS, to this machine, or to where ECS and EKS have it.
async fn check(uri: &Uri) -> Result<(), CredentialsError> {
    let failed = |why: &str| {
        let accepted = "https://, or http:// to loopback, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]";
        CredentialsError::Failed(format!("{FULL}: {uri} {why}; accepted is {accepted}"))
    };
    let host = uri.host().ok_or_else(|| failed("has no host"))?.trim_matches(['[', ']']);
    match uri.scheme_str() {
        Some("https") => return Ok(()),
        Some("http") => {}
        _ => return Err(failed("is not HTTP")),
    }
    let found = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(80))).await;
    let mut found = found.map_err(|error| failed(&format!("is not found ({error})")))?;
    let allowed = found.all(|address| address.ip().is_loopback() || ALLOWED.contains(&address.ip()));
    if allowed { Ok(()) } else { Err(failed("is another machine")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_not_sent_to_just_anybody() {
        for (uri, fits) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://169.254.170.2/v1", true),
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("https://192.0.2.1/v1", true),
            ("http://192.0.2.1/v1", false),
            ("http://[2001:db8::1]/v1", false),
            ("ftp://127.0.0.1/", false),
            ("/v1", false),
        ] {
            let outcome = check(&uri.parse().expect("a URI")).await;
            assert_eq!(outcome.is_ok(), fits, "{uri}: {outcome:?}");
        }
    }
}
