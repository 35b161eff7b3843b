//! Roles that are taken on: what names them, and the credentials that STS gives for them.

use super::{
    actions,
    credentials::{Credentials, CredentialsError, Provide},
    query::{Form, Query},
    xml::Element,
};
use futures::future::BoxFuture;

/// Whether a text is the ARN of a role; what is wrong with it.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let fits = matches!(parts.as_slice(), ["arn", partition, "iam", "", account, resource]
        if (*partition == "aws" || partition.starts_with("aws-"))
            && account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())
            && resource.strip_prefix("role/").is_some_and(|name| !name.is_empty() && !name.ends_with('/') && is_path(name)));
    if fits {
        return Ok(());
    }
    Err(format!("{text:?} is no ARN of a role; accepted is such as arn:aws:iam::123456789012:role/NAME"))
}

/// Letters, digits and `+=,.@_-` with slashes between: what IAM takes for paths and names.
fn is_path(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@_-/".contains(&byte))
}

/// A role to take on, on behalf of a source: `RoleARN` and `SourceARN`, the role of a private zone, or one of a profile.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) sts: Query,
    pub(super) role: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) source: String,
}

impl Role {
    async fn take_on(&self) -> Result<Credentials, CredentialsError> {
        let mut form = Form::default();
        form.set("RoleArn", &self.role);
        form.set("RoleSessionName", self.session.as_deref().unwrap_or("twinstack"));
        self.external_id.iter().for_each(|id| form.set("ExternalId", id));
        let answer = self.sts.ask_with(actions::ASSUME_ROLE, &form, &headers(&self.source)).await;
        credentials_of(&answer.map_err(|error| CredentialsError::Failed(error.to_string()))?)
    }
}

/// The credentials in an answer of STS.
pub(super) fn credentials_of(answer: &Element) -> Result<Credentials, CredentialsError> {
    let text = |name: &str| answer.text(&["Credentials", name]).to_owned();
    let end: jiff::Timestamp = text("Expiration").parse().map_err(|error| {
        CredentialsError::Failed(format!("STS answered without an end of the credentials: {error}"))
    })?;
    let (id, secret, token) = (text("AccessKeyId"), text("SecretAccessKey"), text("SessionToken"));
    if id.is_empty() || secret.is_empty() {
        return Err(CredentialsError::Failed("STS answered without keys".to_owned()));
    }
    Ok(Credentials { id, secret, token: Some(token), expires: Some(end.into()) })
}

/// What tells STS on whose behalf, so that roles can refuse others: the resource and its account.
fn headers(source: &str) -> Vec<(&'static str, String)> {
    if source.is_empty() {
        return Vec::new();
    }
    let account = source.split(':').nth(4).unwrap_or_default();
    vec![("x-amz-source-arn", source.to_owned()), ("x-amz-source-account", account.to_owned())]
}

impl Provide for Role {
    fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
        Box::pin(self.take_on())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arns_of_roles_are_roles() {
        for text in [
            "arn:aws:iam::123456789012:role/zones",
            "arn:aws:iam::123456789012:role/path/to/zones+=,.@_-",
            "arn:aws-cn:iam::123456789012:role/zones",
            "arn:aws-us-gov:iam::123456789012:role/zones",
            "arn:aws-eusc:iam::123456789012:role/zones",
        ] {
            assert_eq!(check(text), Ok(()));
        }
        for text in [
            "",
            "zones",
            "arn:aws:iam::123456789012:user/zones",
            "arn:aws:sts::123456789012:assumed-role/zones/x",
            "arn:aws:iam::12345678901:role/zones",
            "arn:aws:iam::12345678901a:role/zones",
            "arn:aws:iam:us-east-1:123456789012:role/zones",
            "arn:awsome:iam::123456789012:role/zones",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::123456789012:role/a/",
            "arn:aws:iam::123456789012:role/a b",
            "arn:aws:iam::123456789012:role/a:b",
        ] {
            let expected = "is no ARN of a role; accepted is such as arn:aws:iam::123456789012:role/NAME";
            assert_eq!(check(text), Err(format!("{text:?} {expected}")));
        }
    }

    #[test]
    fn a_source_is_told_with_its_account() {
        assert_eq!(headers(""), []);
        let source = "arn:aws:eks:us-east-1:123456789012:cluster/blue";
        let expected = [("x-amz-source-arn", source.to_owned()), ("x-amz-source-account", "123456789012".to_owned())];
        assert_eq!(headers(source), expected);
    }
}
