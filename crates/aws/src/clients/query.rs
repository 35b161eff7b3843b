//! A client of the query protocol, which EC2 and STS speak: a signed form goes there, XML comes back.

use super::{
    actions::Action,
    caller::{Answered, Caller},
    clock::Clock,
    credentials::Kept,
    failure::{Failure, chain},
    paging::Marker,
    xml::Element,
};
use crate::account::{AwsError, Tags};
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, SharedHttpConnector},
    orchestrator::HttpRequest,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

/// No call of these APIs works longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A form: names and values in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// `Name.1`, `Name.2`, ...
    pub(super) fn list<'a>(&mut self, name: &str, values: impl IntoIterator<Item = &'a String>) {
        for (number, value) in (1..).zip(values) {
            self.set(format!("{name}.{number}"), value);
        }
    }

    /// `Name.1.Key`, `Name.1.Value`, ...
    pub(super) fn tags(&mut self, name: &str, tags: &Tags) {
        for (number, (key, value)) in (1..).zip(tags) {
            self.set(format!("{name}.{number}.Key"), key);
            self.set(format!("{name}.{number}.Value"), value);
        }
    }

    fn encoded(&self, action: &Action, version: &str) -> String {
        let mut text = format!("Action={}&Version={version}", action.name);
        for (name, value) in &self.0 {
            text.push('&');
            escape(name, &mut text);
            text.push('=');
            escape(value, &mut text);
        }
        text
    }
}

/// As forms are written: everything but letters, digits and `-._~` as bytes, a space as `+`.
fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else if byte == b' ' {
            out.push('+');
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Where an API is and how requests for it are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) url: String,
    pub(super) region: String,
    pub(super) name: String,
    pub(super) version: &'static str,
}

/// A client of one API.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) target: Target,
    pub(super) connector: SharedHttpConnector,
    pub(super) credentials: Kept,
    pub(super) caller: Caller,
    pub(super) clock: Clock,
}

impl Query {
    /// Makes a call; the root of the answer.
    pub(super) async fn ask(&self, action: Action, form: &Form) -> Result<Element, AwsError> {
        self.ask_with(action, form, &[]).await
    }

    /// Makes a call with headers of its own.
    pub(super) async fn ask_with(
        &self,
        action: Action,
        form: &Form,
        headers: &[(&'static str, String)],
    ) -> Result<Element, AwsError> {
        let body = form.encoded(&action, self.target.version);
        let (body, caller) = (&body, &self.caller);
        caller.call(action, || Box::pin(self.attempt(body, headers))).await
    }

    /// Makes a call again and again until there are no more pages; gives each to `read`.
    pub(super) async fn pages(
        &self,
        action: Action,
        form: &Form,
        mut read: impl FnMut(&Element),
    ) -> Result<(), AwsError> {
        let mut marker = Marker::default();
        loop {
            let mut page = form.clone();
            marker.current().into_iter().for_each(|token| page.set("NextToken", token));
            let answer = self.ask(action, &page).await?;
            read(&answer);
            if !marker.advance(answer.some("nextToken"))? {
                return Ok(());
            }
        }
    }

    async fn attempt(&self, body: &str, headers: &[(&'static str, String)]) -> Result<Answered<Element>, Failure> {
        let request = self.signed(body, headers).await?;
        let begun = SystemTime::now();
        let sent = async {
            let response = self.connector.call(request).await.map_err(|error| Failure::of_connector(&error))?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = ByteStream::new(response.into_body()).collect().await;
            let body = body.map_err(|error| Failure::no_answer(format!("the answer breaks off: {error}")))?;
            Ok((status, headers, body.into_bytes()))
        };
        let outcome = tokio::time::timeout(TIMEOUT, sent).await;
        let (status, headers, body) =
            outcome.unwrap_or_else(|_| Err(Failure::no_answer(format!("none within {TIMEOUT:?}"))))?;
        self.clock.heard(&headers, begun, SystemTime::now());
        if !(200..300).contains(&status) {
            return Err(Failure::answered(status, &headers, &body));
        }
        let Some(value) = std::str::from_utf8(&body).ok().and_then(Element::parse) else {
            // It took effect, as far as anyone can tell.
            return Err(Failure::no_answer(format!("the answer with HTTP status {status} is no XML")));
        };
        let id = value.some("requestId").or_else(|| headers.get("x-amzn-requestid").map(str::to_owned));
        Ok(Answered { value, request_id: id.unwrap_or_default() })
    }

    async fn signed(&self, body: &str, headers: &[(&'static str, String)]) -> Result<HttpRequest, Failure> {
        let credentials = self.credentials.provide_credentials().await;
        let identity = credentials.map_err(|error| Failure::not_sent(chain(&error)))?.into();
        let wrong = |error: &dyn std::error::Error| Failure::not_sent(format!("{}: {error}", self.target.url));
        let mut all: Vec<(&str, &str)> = vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.target.region)
            .name(&self.target.name)
            .time(self.clock.now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| wrong(&error))?
            .into();
        let signable =
            SignableRequest::new("POST", &*self.target.url, all.iter().copied(), SignableBody::Bytes(body.as_bytes()));
        let signed = sign(signable.map_err(|error| wrong(&error))?, &params).map_err(|error| wrong(&error))?;
        let (instructions, _) = signed.into_parts();
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("POST").map_err(|error| wrong(&error))?;
        request.set_uri(self.target.url.clone()).map_err(|error| wrong(&error))?;
        for (name, value) in all.into_iter().chain(instructions.headers()) {
            let added = request.headers_mut().try_insert(name.to_owned(), value.to_owned());
            added.map_err(|error| wrong(&error))?;
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::actions, *};

    #[test]
    fn a_form_is_written_as_forms_are() {
        let mut form = Form::default();
        form.set("GroupName", "a b+c/ü");
        form.list("ResourceId", &["sg-1".to_owned(), "sg-2".to_owned()]);
        form.tags("Tag", &Tags::from([("k8s/x".to_owned(), String::new())]));
        assert_eq!(
            form.encoded(&actions::CREATE_TAGS, "2016-11-15"),
            "Action=CreateTags&Version=2016-11-15&GroupName=a+b%2Bc%2F%C3%BC&ResourceId.1=sg-1&ResourceId.2=sg-2\
             &Tag.1.Key=k8s%2Fx&Tag.1.Value="
        );
    }
}
