//! A role for a token that a cluster or another provider of identities has signed: `AWS_WEB_IDENTITY_TOKEN_FILE`, which EKS sets for a ServiceAccount.

use super::{Credentials, CredentialsError};
use crate::clients::{
    actions,
    environment::Environment,
    query::{Form, Query},
    role::credentials_of,
};

/// What the environment names.
pub(super) async fn from_environment(environment: &Environment, sts: &Query) -> Result<Credentials, CredentialsError> {
    let Some(file) = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") else {
        return Err(CredentialsError::NotHere("AWS_WEB_IDENTITY_TOKEN_FILE is not set".to_owned()));
    };
    let Some(role) = environment.get("AWS_ROLE_ARN") else {
        let why = "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not";
        return Err(CredentialsError::Failed(why.to_owned()));
    };
    take_on(sts, role, environment.get("AWS_ROLE_SESSION_NAME"), file).await
}

/// Takes on a role with the token in a file, which is read anew each time: whoever signs it replaces it before it ends.
pub(super) async fn take_on(
    sts: &Query,
    role: &str,
    session: Option<&str>,
    file: &str,
) -> Result<Credentials, CredentialsError> {
    let token = std::fs::read_to_string(file)
        .map_err(|error| CredentialsError::Failed(format!("web identity token {file}: {error}")))?;
    let mut form = Form::default();
    form.set("RoleArn", role);
    form.set("RoleSessionName", session.unwrap_or("twinstack"));
    form.set("WebIdentityToken", token.trim());
    let answer = sts.ask(actions::ASSUME_ROLE_WITH_WEB_IDENTITY, &form).await;
    let answer = answer.map_err(|error| CredentialsError::Failed(format!("web identity, role {role}: {error}")))?;
    credentials_of(&answer)
}
