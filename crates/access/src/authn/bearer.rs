//! Bearer tokens as they arrive: `Authorization: Bearer`, or the subprotocol that browsers use to open a WebSocket.
//! Called by `Authenticator`; the engine also strips with it what must not be echoed.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use http::{HeaderMap, header};
use std::fmt;

const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// A bearer token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps the text of a token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for verification only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// Why the WebSocket subprotocols carry no usable token. Not retryable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubprotocolError {
    /// Two tokens.
    #[error("more than one bearer token among the websocket subprotocols, one is accepted")]
    Many,
    /// Not base64url without padding, or not UTF-8.
    #[error("bearer token among the websocket subprotocols is not base64url text without padding")]
    Encoding,
    /// Nothing is left to answer with.
    #[error("a bearer token subprotocol needs a second subprotocol beside it")]
    Alone,
}

/// A token among the WebSocket subprotocols, and the protocols that remain for the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subprotocols {
    /// The token, if one was sent.
    pub token: Option<Token>,
    /// All others, in order.
    pub rest: Vec<String>,
}

/// The token of the Authorization header, if it has the Bearer scheme and is not empty.
pub(super) fn authorization(headers: &HeaderMap) -> Option<Token> {
    // Bytes that are no text make a wrong token, not an absent one.
    let value = String::from_utf8_lossy(headers.get(header::AUTHORIZATION)?.as_bytes());
    let (scheme, rest) = value.trim().split_once(' ')?;
    // One space separates scheme and token: a second one makes the token empty, as upstream reads it.
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| Token::new(token))
}

/// The token among the subprotocols of a WebSocket handshake. Other requests have neither token nor protocols.
pub fn websocket(headers: &HeaderMap) -> Result<Subprotocols, SubprotocolError> {
    let mut found = Subprotocols { token: None, rest: Vec::new() };
    if !is_websocket(headers) {
        return Ok(found);
    }
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|v| v.to_str().ok());
    for protocol in values.flat_map(|v| v.split(',')).map(str::trim) {
        let Some(encoded) = protocol.strip_prefix(SUBPROTOCOL) else {
            found.rest.push(protocol.to_owned());
            continue;
        };
        if found.token.is_some() {
            return Err(SubprotocolError::Many);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded).map_err(|_| SubprotocolError::Encoding)?;
        found.token = Some(Token(String::from_utf8(bytes).map_err(|_| SubprotocolError::Encoding)?));
    }
    // Empty is counted as seen above, so that two empty ones are refused, and as absent from here on.
    found.token = found.token.filter(|token| !token.0.is_empty());
    if found.token.is_some() && found.rest.is_empty() {
        return Err(SubprotocolError::Alone);
    }
    Ok(found)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
        values.flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(wanted))
    };
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn handshake(protocols: &str) -> HeaderMap {
        headers(&[
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-protocol", protocols),
        ])
    }

    #[test]
    fn only_a_bearer_scheme_with_a_token_counts() {
        for (value, want) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let token = authorization(&headers(&[("authorization", value)]));
            assert_eq!(token.as_ref().map(Token::expose), want, "{value:?}");
        }
    }

    #[test]
    fn a_websocket_token_is_taken_out_of_the_subprotocols() {
        let found = websocket(&handshake("base64url.bearer.authorization.k8s.io.dG9rZW4, v5.channel.k8s.io")).unwrap();
        assert_eq!(found.token.unwrap().expose(), "token");
        assert_eq!(found.rest, ["v5.channel.k8s.io"]);
    }

    #[test]
    fn a_websocket_token_must_be_one_well_formed_and_not_alone() {
        for (protocols, want) in [
            ("base64url.bearer.authorization.k8s.io.dG9rZW4", SubprotocolError::Alone),
            ("base64url.bearer.authorization.k8s.io.dG9rZW4=, a", SubprotocolError::Encoding),
            ("base64url.bearer.authorization.k8s.io._w, a", SubprotocolError::Encoding),
            (
                "base64url.bearer.authorization.k8s.io.YQ, base64url.bearer.authorization.k8s.io.YQ, a",
                SubprotocolError::Many,
            ),
            (
                "base64url.bearer.authorization.k8s.io., base64url.bearer.authorization.k8s.io., a",
                SubprotocolError::Many,
            ),
        ] {
            assert_eq!(websocket(&handshake(protocols)), Err(want), "{protocols}");
        }
        let plain = headers(&[("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dG9rZW4, a")]);
        assert_eq!(websocket(&plain).unwrap().token, None, "not a handshake");
    }

    #[test]
    fn a_token_is_never_printed() {
        let found = websocket(&handshake("base64url.bearer.authorization.k8s.io.c2VjcmV0, a")).unwrap();
        assert_eq!(format!("{found:?}"), r#"Subprotocols { token: Some(Token(***)), rest: ["a"] }"#);
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(value in "[ -~]{0,80}") {
            let _ = authorization(&headers(&[("authorization", &value)]));
            let _ = websocket(&handshake(&value));
        }
    }
}
