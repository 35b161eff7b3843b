//! Signature version 4, which tells AWS who asks: a key of the day, the region and the API signs what the request says.

use super::credentials::Credentials;
use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use bytes::Bytes;
use http::{HeaderValue, Request, header::AUTHORIZATION};
use std::{fmt::Write, time::SystemTime};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    /// `ec2`, `elasticloadbalancing`.
    pub(super) service: &'a str,
}

/// Signs a request and every header that it has; the text says what is wrong with one that cannot be.
pub(super) fn sign(
    request: &mut Request<Bytes>,
    credentials: &Credentials,
    scope: Scope<'_>,
    at: SystemTime,
) -> Result<(), String> {
    let at = jiff::Timestamp::try_from(at).map_err(|error| error.to_string())?;
    let (time, day) = (at.strftime("%Y%m%dT%H%M%SZ").to_string(), at.strftime("%Y%m%d").to_string());
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    request.headers_mut().insert("x-amz-date", value(&time)?);
    if let Some(token) = &credentials.token {
        let mut token = value(token)?;
        token.set_sensitive(true);
        request.headers_mut().insert("x-amz-security-token", token);
    }
    let (canonical, signed) = canonical(request)?;
    let range = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!("{ALGORITHM}\n{time}\n{range}\n{}", hash(canonical.as_bytes()));
    let key = format!("AWS4{}", credentials.secret);
    let key = [day.as_str(), scope.region, scope.service, "aws4_request"]
        .iter()
        .fold(key.into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &text));
    let header =
        format!("{ALGORITHM} Credential={}/{range}, SignedHeaders={signed}, Signature={signature}", credentials.id);
    let mut header = value(&header)?;
    header.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, header);
    Ok(())
}

/// The request in the one form that both sides sign, and the names of its headers.
fn canonical(request: &Request<Bytes>) -> Result<(String, String), String> {
    let mut headers: Vec<(&str, String)> = Vec::new();
    for (name, value) in request.headers() {
        let value = value.to_str().map_err(|error| format!("{name}: {error}"))?;
        headers.push((name.as_str(), value.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    headers.sort();
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let mut lines = String::new();
    for (name, value) in &headers {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{name}:{value}");
    }
    let mut query: Vec<(&str, &str)> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    query.sort_unstable();
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    // What is escaped in a path is escaped once more in what is signed.
    let path = request.uri().path().replace('%', "%25");
    let text = format!("{}\n{path}\n{}\n{lines}\n{names}\n{}", request.method(), query.join("&"), hash(request.body()));
    Ok((text, names))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The moment of all of AWS's examples: 2015-08-30T12:36:00Z.
    fn at() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160)
    }

    fn signature(method: &str, uri: &str, headers: &[(&str, &str)], body: &str, service: &str) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Bytes::copy_from_slice(body.as_bytes())).expect("a request");
        let credentials = Credentials {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
            expires: None,
        };
        sign(&mut request, &credentials, Scope { region: "us-east-1", service }, at()).expect("it can be signed");
        request.headers()[AUTHORIZATION].to_str().expect("text").to_owned()
    }

    /// AWS's published examples: of its documentation, and of its suite of tests.
    #[test]
    fn signatures_are_those_that_aws_publishes() {
        let host = ("host", "example.amazonaws.com");
        for (method, uri, headers, body, service, signed, expected) in [
            (
                "GET",
                "/?Action=ListUsers&Version=2010-05-08",
                vec![
                    ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
                    ("host", "iam.amazonaws.com"),
                ],
                "",
                "iam",
                "content-type;host;x-amz-date",
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
            (
                "GET",
                "/",
                vec![host],
                "",
                "service",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                vec![host],
                "",
                "service",
                "host;x-amz-date",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "POST",
                "/",
                vec![("content-type", "application/x-www-form-urlencoded"), host],
                "Param1=value1",
                "service",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
                 SignedHeaders={signed}, Signature={expected}"
            );
            assert_eq!(signature(method, uri, &headers, body, service), expected, "{method} {uri}");
        }
    }

    #[test]
    fn secrets_of_a_signed_request_are_not_printed() {
        let mut request = Request::builder().uri("/").body(Bytes::new()).expect("a request");
        let credentials = Credentials {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "very-secret".to_owned(),
            token: Some("very-token".to_owned()),
            expires: None,
        };
        sign(&mut request, &credentials, Scope { region: "r", service: "s" }, at()).expect("it can be signed");
        let printed = format!("{request:?} {credentials:?}");
        assert!(!printed.contains("very-") && !printed.contains("Signature="), "{printed}");
    }
}
