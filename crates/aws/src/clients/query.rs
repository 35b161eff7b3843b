//! A client of the query protocol, which EC2, both kinds of load balancers and STS speak: a form goes there, XML comes back.

use super::{
    actions::Action,
    api::{Api, Asked},
    credentials::Kept,
    paging::Marker,
    xml::Element,
};
use crate::account::{AwsError, Tags};
use http::Method;
use std::fmt::Write;

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

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

    /// `Name.member.1`, `Name.member.2`, ...; a list that is empty is told as that.
    pub(super) fn members<'a>(&mut self, name: &str, values: impl IntoIterator<Item = &'a String>) {
        let before = self.0.len();
        self.list(&format!("{name}.member"), values);
        if self.0.len() == before {
            self.set(name, "");
        }
    }

    /// A value, if there is one.
    pub(super) fn some(&mut self, name: &str, value: Option<impl ToString>) {
        value.into_iter().for_each(|value| self.set(name, value.to_string()));
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
pub(super) fn escape(text: &str, out: &mut String) {
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

/// EC2 is older than the others, and names some things otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Ec2,
    /// Lists are `Name.member.N`, and what is answered is in `ActionResult`.
    Query,
}

impl Dialect {
    /// How the next page is asked for, and how it is told.
    fn next_page(self) -> (&'static str, &'static str) {
        match self {
            Self::Ec2 => ("NextToken", "nextToken"),
            Self::Query => ("Marker", "NextMarker"),
        }
    }
}

/// A client of one API.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) api: Api,
    pub(super) version: &'static str,
    pub(super) dialect: Dialect,
}

impl Query {
    /// The same in somebody's name.
    pub(super) fn signed_with(self, credentials: Kept) -> Self {
        Self { api: Api { credentials: Some(credentials), ..self.api }, ..self }
    }

    /// Makes a call; what is answered.
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
        let body = form.encoded(&action, self.version);
        let asked = Asked { method: Method::POST, path: "/", content_type: Some(FORM), headers, body: &body };
        let answer = self.api.call(action, &asked).await?;
        match self.dialect {
            Dialect::Ec2 => Ok(answer),
            // Some calls have nothing to tell.
            Dialect::Query => Ok(answer.into_child(&format!("{}Result", action.name)).unwrap_or_default()),
        }
    }

    /// Makes a call whose answer tells nothing that is needed.
    pub(super) async fn change(&self, action: Action, form: Form) -> Result<(), AwsError> {
        self.ask(action, &form).await.map(drop)
    }

    /// All members of a list, from all pages.
    pub(super) async fn list<T>(
        &self,
        action: Action,
        form: Form,
        list: &str,
        read: impl Fn(&Element) -> T,
    ) -> Result<Vec<T>, AwsError> {
        let mut all = Vec::new();
        self.pages(action, &form, |page| all.extend(page.items(list).map(&read))).await?;
        Ok(all)
    }

    /// Makes a call again and again until there are no more pages; gives each to `read`.
    pub(super) async fn pages(
        &self,
        action: Action,
        form: &Form,
        mut read: impl FnMut(&Element),
    ) -> Result<(), AwsError> {
        let (asked, answered) = self.dialect.next_page();
        let mut marker = Marker::default();
        loop {
            let mut page = form.clone();
            marker.current().into_iter().for_each(|token| page.set(asked, token));
            let answer = self.ask(action, &page).await?;
            read(&answer);
            if !marker.advance(answer.some(answered))? {
                return Ok(());
            }
        }
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
        form.members("PolicyNames", &["p".to_owned()]);
        form.members("Subnets", &[]);
        assert_eq!(
            form.encoded(&actions::CREATE_TAGS, "2016-11-15"),
            "Action=CreateTags&Version=2016-11-15&GroupName=a+b%2Bc%2F%C3%BC&ResourceId.1=sg-1&ResourceId.2=sg-2\
             &Tag.1.Key=k8s%2Fx&Tag.1.Value=&PolicyNames.member.1=p&Subnets="
        );
    }
}
