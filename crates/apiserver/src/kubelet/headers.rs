//! Which headers pass through the server, in either direction.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::IpAddr;

pub use runtime::http::{end_to_end, upgrade};

/// Say who the client is, to this server alone.
const CREDENTIALS: [&str; 3] = ["authorization", "x-remote-user", "x-remote-uid"];
const CREDENTIAL_PREFIXES: [&str; 3] = ["impersonate-", "x-remote-group", "x-remote-extra-"];

/// A bearer token in the guise of a WebSocket protocol.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Other sites are allowed in by this server's settings, not by what stands behind it.
const CROSS_ORIGIN: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Takes out everything by which the client proved or claimed who it is.
pub fn drop_credentials(headers: &mut HeaderMap) {
    let secret = |name: &&HeaderName| {
        let name = name.as_str();
        CREDENTIALS.contains(&name) || CREDENTIAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let secrets: Vec<HeaderName> = headers.keys().filter(secret).cloned().collect();
    for name in secrets {
        headers.remove(name);
    }
    let protocols: Vec<&str> = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    if protocols.iter().any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        let others: Vec<&str> =
            protocols.into_iter().filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
        let others = HeaderValue::from_str(&others.join(", "));
        headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
        headers.extend(others.ok().filter(|left| !left.is_empty()).map(|left| (header::SEC_WEBSOCKET_PROTOCOL, left)));
    }
}

/// Adds the client to those that a message has passed through.
pub fn forwarded_for(headers: &mut HeaderMap, client: Option<IpAddr>) {
    let Some(client) = client else { return };
    let before = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).map(str::to_owned);
    let all: Vec<String> = before.chain([client.to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert("x-forwarded-for", value);
    }
}

/// Tells what is proxied how the client sees it.
pub fn forwarded(headers: &mut HeaderMap, uri: &str) {
    let host = headers.get(header::HOST).cloned();
    let uri = HeaderValue::from_str(uri).ok();
    for (name, value) in [("x-forwarded-host", host), ("x-forwarded-uri", uri)] {
        headers.remove(name);
        headers.extend(value.map(|value| (HeaderName::from_static(name), value)));
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
}

/// Takes out what allows other sites in.
pub fn drop_cross_origin(headers: &mut HeaderMap) {
    for name in CROSS_ORIGIN {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn credentials_stay_here() {
        let mut headers = map(&[
            ("authorization", "Bearer x"),
            ("impersonate-user", "a"),
            ("impersonate-extra-scopes", "a"),
            ("x-remote-user", "a"),
            ("x-remote-group", "a"),
            ("x-remote-extra-scopes", "a"),
            ("cookie", "a=b"),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io, v4.channel.k8s.io",
            ),
        ]);
        drop_credentials(&mut headers);
        assert_eq!(shown(&headers), ["cookie: a=b", "sec-websocket-protocol: v5.channel.k8s.io, v4.channel.k8s.io"]);
    }

    #[test]
    fn clients_of_both_families_are_named_in_a_row() {
        let mut headers = map(&[("host", "api.test"), ("x-forwarded-host", "forged")]);
        for client in ["192.0.2.1", "2001:db8::1"] {
            forwarded_for(&mut headers, client.parse().ok());
        }
        forwarded(&mut headers, "/proxy/a");
        let want = [
            "host: api.test",
            "x-forwarded-for: 192.0.2.1, 2001:db8::1",
            "x-forwarded-host: api.test",
            "x-forwarded-proto: https",
            "x-forwarded-uri: /proxy/a",
        ];
        assert_eq!(shown(&headers), want);
    }
}
