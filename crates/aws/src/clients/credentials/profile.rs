//! Credentials of a profile: its keys, a web identity, or a role that is taken on with those of another profile or place.

use super::{
    Credentials, CredentialsError, Kept, Provide,
    chain::{Chain, from_environment},
    web_identity,
};
use crate::clients::{profile::Profiles, role::Role};

/// What a build without the programs that it would take cannot do.
const UNSUPPORTED: &[&str] = &["credential_process", "sso_session", "sso_start_url", "sso_account_id", "login_session"];

/// The credentials of the profile in use.
pub(super) async fn credentials(chain: &Chain, profiles: &Profiles) -> Result<Credentials, CredentialsError> {
    let chosen = profiles.chosen();
    if profiles.lacks_chosen() {
        return Err(CredentialsError::Failed(format!("AWS_PROFILE: there is no profile {chosen:?}")));
    }
    // The roles on the way, the last one first to be taken on.
    let (mut roles, mut visited) = (Vec::new(), Vec::new());
    let mut name = chosen;
    let mut credentials = loop {
        let get = |key: &str| profiles.get(name, key);
        let failed = |why: &str| CredentialsError::Failed(format!("profile {name:?}: {why}"));
        if visited.contains(&name) {
            return Err(failed("source_profile leads back to it"));
        }
        if !visited.is_empty() {
            if !profiles.has(name) {
                return Err(failed("it is named as source_profile, and is not there"));
            }
            // A profile that another one names is asked for its own keys first.
            if let Ok(keys) = keys(profiles, name) {
                break keys;
            }
        }
        visited.push(name);
        let role = get("role_arn").filter(|_| get("web_identity_token_file").is_none());
        let Some(role) = role else { break base(chain, profiles, name, visited.len() > 1).await? };
        roles.push((role, get("role_session_name"), get("external_id")));
        match (get("source_profile"), get("credential_source")) {
            (Some(_), Some(_)) => return Err(failed("it has both source_profile and credential_source")),
            (None, None) => return Err(failed("it has role_arn, and neither source_profile nor credential_source")),
            (Some(source), None) if source != name => name = source,
            (Some(_), None) | (None, Some(_)) => break base(chain, profiles, name, true).await?,
        }
    };
    for (role, session, external_id) in roles.into_iter().rev() {
        let role = Role {
            sts: chain.sts.clone().signed_with(Kept::new(credentials)),
            role: role.to_owned(),
            session: session.map(str::to_owned),
            external_id: external_id.map(str::to_owned),
            source: String::new(),
        };
        credentials = role.provide().await?;
    }
    Ok(credentials)
}

/// What a profile has by itself.
async fn base(chain: &Chain, profiles: &Profiles, name: &str, wanted: bool) -> Result<Credentials, CredentialsError> {
    let get = |key: &str| profiles.get(name, key);
    let failed = |why: String| CredentialsError::Failed(format!("profile {name:?}: {why}"));
    let found = match get("credential_source") {
        Some(source) if source.eq_ignore_ascii_case("Environment") => from_environment(&chain.environment),
        Some(source) if source.eq_ignore_ascii_case("Ec2InstanceMetadata") => chain.metadata.credentials().await,
        Some(source) if source.eq_ignore_ascii_case("EcsContainer") => chain.container.credentials().await,
        Some(source) => Err(failed(format!(
            "credential_source is {source:?}; accepted are Environment, Ec2InstanceMetadata, EcsContainer"
        ))),
        None => match (get("web_identity_token_file"), get("role_arn")) {
            (Some(file), Some(role)) => web_identity::take_on(&chain.sts, role, get("role_session_name"), file).await,
            _ => match UNSUPPORTED.iter().find(|key| get(key).is_some()) {
                Some(key) => Err(failed(format!("{key} is not supported"))),
                None => keys(profiles, name),
            },
        },
    };
    match found {
        // Who is named by another one has to have some.
        Err(CredentialsError::NotHere(why)) if wanted => Err(CredentialsError::Failed(why)),
        outcome => outcome,
    }
}

fn keys(profiles: &Profiles, name: &str) -> Result<Credentials, CredentialsError> {
    let get = |key: &str| profiles.get(name, key).map(str::to_owned);
    match (get("aws_access_key_id"), get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => Ok(Credentials { id, secret, token: get("aws_session_token"), expires: None }),
        (None, None) => Err(CredentialsError::NotHere(format!("profile {name:?} has no credentials"))),
        (Some(_), None) => Err(CredentialsError::Failed(format!("profile {name:?}: aws_secret_access_key is missing"))),
        (None, Some(_)) => Err(CredentialsError::Failed(format!("profile {name:?}: aws_access_key_id is missing"))),
    }
}
