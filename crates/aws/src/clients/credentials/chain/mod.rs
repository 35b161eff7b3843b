//! The places where credentials are looked for, one after the other: the environment, the profile, a web identity, the container, the instance.
//!
//! The next place is asked when one has nothing; one that should have some and fails ends the search, so that nobody asks in another name by mistake.

use super::{Credentials, CredentialsError, Provide, container::Container, profile, web_identity};
use crate::clients::{environment::Environment, metadata::Metadata, profile::Profiles, query::Query};
use futures::future::BoxFuture;

#[derive(Clone, Debug)]
pub(in crate::clients) struct Chain {
    pub(super) environment: Environment,
    pub(super) container: Container,
    pub(super) metadata: Metadata,
    /// STS, asked in nobody's name.
    pub(super) sts: Query,
}

impl Chain {
    pub(in crate::clients) fn new(environment: Environment, metadata: Metadata, sts: Query) -> Self {
        let container = Container::new(environment.clone());
        Self { environment, container, metadata, sts }
    }

    async fn find(&self) -> Result<Credentials, CredentialsError> {
        let mut missing = Vec::new();
        let sources: [BoxFuture<'_, Result<Credentials, CredentialsError>>; 5] = [
            Box::pin(async { from_environment(&self.environment) }),
            Box::pin(self.of_profile()),
            Box::pin(web_identity::from_environment(&self.environment, &self.sts)),
            Box::pin(self.container.credentials()),
            Box::pin(self.metadata.credentials()),
        ];
        for source in sources {
            match source.await {
                Err(CredentialsError::NotHere(why)) => missing.push(why),
                outcome => return outcome,
            }
        }
        Err(CredentialsError::NotHere(missing.join("; ")))
    }

    async fn of_profile(&self) -> Result<Credentials, CredentialsError> {
        let profiles =
            Profiles::read(&self.environment).map_err(|error| CredentialsError::Failed(error.to_string()))?;
        profile::credentials(self, &profiles).await
    }
}

/// `AWS_ACCESS_KEY_ID` and the like.
pub(super) fn from_environment(environment: &Environment) -> Result<Credentials, CredentialsError> {
    let Some(id) = environment.get("AWS_ACCESS_KEY_ID") else {
        return Err(CredentialsError::NotHere("AWS_ACCESS_KEY_ID is not set".to_owned()));
    };
    let secret = environment.get("AWS_SECRET_ACCESS_KEY").or_else(|| environment.get("SECRET_ACCESS_KEY"));
    let Some(secret) = secret else {
        return Err(CredentialsError::NotHere("AWS_SECRET_ACCESS_KEY is not set".to_owned()));
    };
    let token = environment.get("AWS_SESSION_TOKEN").map(str::to_owned);
    Ok(Credentials { id: id.to_owned(), secret: secret.to_owned(), token, expires: None })
}

impl Provide for Chain {
    fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
        Box::pin(self.find())
    }
}

#[cfg(test)]
mod tests;
