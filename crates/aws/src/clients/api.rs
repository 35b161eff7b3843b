//! A client of one API: requests are signed, sent and repeated, answers are XML.

use super::{
    actions::Action,
    caller::{Answered, Caller},
    clock::Clock,
    credentials::Kept,
    failure::{Class, Failure},
    http::Http,
    sign::{Scope, sign},
    xml::Element,
};
use crate::account::AwsError;
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Uri,
    header::{CONTENT_TYPE, HOST, USER_AGENT},
};
use std::time::SystemTime;

/// Where an API is and how requests for it are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Without a slash at its end.
    pub(super) url: String,
    pub(super) region: String,
    pub(super) name: String,
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: Method,
    /// After the API's address: `/2013-04-01/hostedzone?marker=m`.
    pub(super) path: &'a str,
    pub(super) content_type: Option<&'static str>,
    pub(super) headers: &'a [(&'static str, String)],
    pub(super) body: &'a str,
}

/// A client of one API.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) target: Target,
    pub(super) http: Http,
    /// Without them requests are sent in nobody's name, which STS takes for tokens of others.
    pub(super) credentials: Option<Kept>,
    pub(super) caller: Caller,
    pub(super) clock: Clock,
}

impl Api {
    /// Makes a call; the root of the answer.
    pub(super) async fn call(&self, action: Action, asked: &Asked<'_>) -> Result<Element, AwsError> {
        self.caller.call(action, || Box::pin(self.attempt(asked))).await
    }

    async fn attempt(&self, asked: &Asked<'_>) -> Result<Answered<Element>, Failure> {
        let request = self.request(asked).await?;
        let begun = SystemTime::now();
        let answer = self.http.send(request).await?;
        let (status, headers, body) = (answer.status(), answer.headers(), answer.body());
        self.clock.heard(headers, begun, SystemTime::now());
        if !status.is_success() {
            let failure = Failure::answered(status.as_u16(), headers, body);
            if failure.class() == Class::Expired
                && let Some(credentials) = &self.credentials
            {
                credentials.forget().await;
            }
            return Err(failure);
        }
        let Some(value) = std::str::from_utf8(body).ok().and_then(Element::parse) else {
            // It took effect, as far as anyone can tell.
            return Err(Failure::no_answer(format!("the answer with HTTP status {} is no XML", status.as_u16())));
        };
        let in_header = || Some(headers.get("x-amzn-requestid")?.to_str().ok()?.to_owned());
        let id = value.some("requestId").or_else(in_header);
        Ok(Answered { value, request_id: id.unwrap_or_default() })
    }

    async fn request(&self, asked: &Asked<'_>) -> Result<Request<Bytes>, Failure> {
        let Asked { method, path, content_type, headers, body } = asked;
        let url = format!("{}{path}", self.target.url);
        let wrong = |error: &dyn std::fmt::Display| Failure::not_sent(format!("{url}: {error}"));
        let uri: Uri = url.parse().map_err(|error| wrong(&error))?;
        let host = uri.authority().ok_or_else(|| wrong(&"no host"))?.as_str();
        let usual = match uri.scheme_str() {
            Some("https") => ":443",
            _ => ":80",
        };
        // As it is sent, so that it is signed as it is sent.
        let host = host.strip_suffix(usual).unwrap_or(host).to_owned();
        let mut request = Request::builder().method(method).uri(uri).header(HOST, host);
        if let Some(kind) = content_type {
            request = request.header(CONTENT_TYPE, *kind);
        }
        for (name, value) in *headers {
            request = request.header(HeaderName::from_static(name), value);
        }
        let mut request = request.body(Bytes::copy_from_slice(body.as_bytes())).map_err(|error| wrong(&error))?;
        if let Some(credentials) = &self.credentials {
            let credentials = credentials.get().await.map_err(|error| Failure::not_sent(error.to_string()))?;
            let scope = Scope { region: &self.target.region, service: &self.target.name };
            sign(&mut request, &credentials, scope, self.clock.now()).map_err(|error| wrong(&error))?;
        }
        let agent = HeaderValue::from_static(concat!("twinstack/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        Ok(request)
    }
}
