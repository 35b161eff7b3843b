//! How AWS is reached: the region, the credentials, and where each API is.

use super::{
    caller::Caller,
    clock::Clock,
    credentials::{Anew, Kept},
    failure::chain,
    place::{only_ipv6, usual_url},
    query::{Query, Target},
    role::Role,
};
use crate::cloud_config::{CloudConfig, Endpoint, Endpoints};
use aws_config::{
    AppName, BehaviorVersion, Region, SdkConfig, identity::IdentityCache, imds, meta::region::ProvideRegion,
    retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider},
};
use aws_smithy_http_client::{Connector, proxy::ProxyConfig, tls};
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use runtime::{backoff::Backoff, metrics::Metrics};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
/// How the SDK calls the services that are asked through it, and what their requests are signed for.
const EC2: (&str, &str) = ("EC2", "ec2");
const STS: (&str, &str) = ("STS", "sts");

/// Why AWS cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing says which region.
    #[error(
        "which AWS region? Set Region in the cloud-config or AWS_REGION; no profile and no instance metadata service says it either"
    )]
    NoRegion,
    /// There are no credentials.
    #[error("no AWS credentials: {0}")]
    NoCredentials(String),
    /// A section of the cloud-config cannot be done.
    #[error(
        "[ServiceOverride] of {service}: SigningName is {given:?}; this API's requests can only be signed for {usual:?}"
    )]
    SigningName {
        /// The SDK's id of the service.
        service: &'static str,
        /// What the section says.
        given: String,
        /// What it would have to say.
        usual: &'static str,
    },
}

/// Keys at hand, instead of those that the SDK finds.
#[derive(Clone)]
pub struct Keys {
    /// The access key's id.
    pub id: String,
    /// The secret.
    pub secret: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// How AWS is reached. Everything that talks to AWS in one process shares one, and with it limits and counts.
#[derive(Clone, Debug)]
pub struct Session {
    region: String,
    sdk: SdkConfig,
    endpoints: Endpoints,
    http: SharedHttpClient,
    connector: SharedHttpConnector,
    credentials: Kept,
    caller: Caller,
    clock: Clock,
    /// Where the instance metadata service is, if not where the SDK thinks.
    metadata: Option<String>,
}

impl Session {
    /// With what the cloud-config, the environment, profiles and the instance metadata service say, in this order.
    pub async fn open(config: &CloudConfig, metrics: &Metrics) -> Result<Self, OpenError> {
        Self::build(config, None, metrics, None).await
    }

    /// With these keys.
    pub async fn with_keys(config: &CloudConfig, keys: Keys, metrics: &Metrics) -> Result<Self, OpenError> {
        Self::build(config, Some(keys), metrics, None).await
    }

    /// With these keys and other waits between attempts.
    #[cfg(test)]
    pub(super) async fn for_test(config: &CloudConfig, keys: Keys, backoff: Backoff) -> Result<Self, OpenError> {
        Self::build(config, Some(keys), &Metrics::new(), Some(backoff)).await
    }

    async fn build(
        config: &CloudConfig,
        keys: Option<Keys>,
        metrics: &Metrics,
        backoff: Option<Backoff>,
    ) -> Result<Self, OpenError> {
        let endpoints = Endpoints::new(config.overrides.clone(), std::env::vars());
        let region = match config.region() {
            Some(region) => region,
            None => {
                let found = aws_config::default_provider::region::default_provider().region().await;
                found.ok_or(OpenError::NoRegion)?.to_string()
            }
        };
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(ANSWER).build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.clone()))
            .identity_cache(IdentityCache::no_cache())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts);
        if let Ok(name) = AppName::new("twinstack") {
            loader = loader.app_name(name);
        }
        if std::env::var_os("AWS_USE_DUALSTACK_ENDPOINT").is_none() && only_ipv6() {
            loader = loader.use_dual_stack(true);
        }
        let source = match keys {
            Some(Keys { id, secret }) => {
                SharedCredentialsProvider::new(Credentials::new(id, secret, None, None, "given"))
            }
            None => SharedCredentialsProvider::new(Anew::chain(Region::new(region.clone()))),
        };
        let own = Kept::new(source);
        let sdk = loader.credentials_provider(own.clone()).load().await;
        let connector = connector();
        let for_sdk = connector.clone();
        let mut session = Self {
            region,
            endpoints,
            http: http_client_fn(move |_, _| for_sdk.clone()),
            connector,
            caller: match backoff {
                Some(backoff) => Caller::with_backoff(own.clone(), metrics, backoff),
                None => Caller::new(own.clone(), metrics),
            },
            credentials: own,
            sdk,
            clock: Clock::default(),
            metadata: metadata_url(config),
        };
        if !config.global.role.is_empty() {
            session = session.in_role(&config.global.role, &config.global.source);
        }
        // A mistake in the credentials is told now and not with the first Service.
        session.try_credentials().await.map_err(OpenError::NoCredentials)?;
        Ok(session)
    }

    /// The same in the name of a role, which is taken on with the credentials of this one, on behalf of a source if there is one.
    pub(super) fn in_role(&self, role: &str, source: &str) -> Self {
        let role = Role { sts: self.sts(), role: role.to_owned(), source: source.to_owned() };
        let credentials = Kept::new(SharedCredentialsProvider::new(role));
        let sdk = self.sdk.clone().into_builder();
        let sdk = sdk.credentials_provider(SharedCredentialsProvider::new(credentials.clone())).build();
        let caller = self.caller.with_credentials(credentials.clone());
        Self { sdk, credentials, caller, ..self.clone() }
    }

    /// Whether there are credentials; why not.
    pub(super) async fn try_credentials(&self) -> Result<(), String> {
        self.credentials.provide_credentials().await.map(drop).map_err(|error| chain(&error))
    }

    /// Calls as fast as they are answered: for an AWS that is played on this machine, and has no limits to keep to.
    #[must_use]
    pub fn without_limits(self) -> Self {
        Self { caller: self.caller.without_limits(), ..self }
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn ec2(&self) -> Query {
        self.query(EC2, "2016-11-15")
    }

    fn sts(&self) -> Query {
        self.query(STS, "2011-06-15")
    }

    fn query(&self, (service, name): (&str, &str), version: &'static str) -> Query {
        let given = self.endpoints.of(service, &self.region);
        let configured = |url: &str| Endpoint { url: url.to_owned(), signing_region: None, signing_name: None };
        // What the profile says for all APIs.
        let given = given.or_else(|| self.sdk.endpoint_url().map(configured));
        let usual = Endpoint {
            url: usual_url(
                name,
                &self.region,
                self.sdk.use_dual_stack() == Some(true),
                self.sdk.use_fips() == Some(true),
            ),
            signing_region: None,
            signing_name: None,
        };
        let Endpoint { url, signing_region, signing_name } = given.unwrap_or(usual);
        let target = Target {
            url: if url.ends_with('/') { url } else { format!("{url}/") },
            region: signing_region.unwrap_or_else(|| self.region.clone()),
            name: signing_name.unwrap_or_else(|| name.to_owned()),
            version,
        };
        let (connector, credentials) = (self.connector.clone(), self.credentials.clone());
        Query { target, connector, credentials, caller: self.caller.clone(), clock: self.clock.clone() }
    }

    /// What a client of the SDK is made from: the configuration, and where the API is if not where the SDK thinks.
    pub(super) fn sdk(&self, service: &'static str, usual: &'static str) -> Result<SdkConfig, OpenError> {
        let mut builder = self.sdk.clone().into_builder().http_client(self.http.clone());
        if let Some(Endpoint { url, signing_region, signing_name }) = self.endpoints.of(service, &self.region) {
            if let Some(given) = signing_name.filter(|name| name != usual) {
                return Err(OpenError::SigningName { service, given, usual });
            }
            builder = builder.endpoint_url(url);
            if let Some(region) = signing_region {
                builder = builder.region(Region::new(region));
            }
        }
        Ok(builder.build())
    }

    /// The instance metadata service.
    pub(super) fn metadata(&self) -> Result<imds::Client, String> {
        let builder = imds::Client::builder().max_attempts(2);
        match &self.metadata {
            Some(url) => Ok(builder.endpoint(url).map_err(|error| format!("{url}: {error}"))?.build()),
            None => Ok(builder.build()),
        }
    }
}

/// `AWS_ENDPOINT_URL`, which moves all APIs, is not about the metadata service.
fn metadata_url(config: &CloudConfig) -> Option<String> {
    let mut sections = config.overrides.iter();
    sections.find(|section| section.service.eq_ignore_ascii_case("ec2imds")).map(|section| section.url.clone())
}

/// One pool of connections for everything, through the proxy that the environment names. The metadata service is not asked through it.
fn connector() -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder().connect_timeout(CONNECT).read_timeout(ANSWER).build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc))
        .build();
    SharedHttpConnector::new(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overridden(service: &str, signing_name: &str) -> CloudConfig {
        let text = format!(
            "[Global]\nRegion = eu-north-1\n[ServiceOverride \"1\"]\nService = {service}\nRegion = eu-north-1\n\
             URL = http://127.0.0.1:1\nSigningRegion = us-east-1\nSigningName = {signing_name}\n"
        );
        CloudConfig::parse(&text).expect("a cloud-config").0
    }

    fn keys() -> Keys {
        Keys { id: "id".to_owned(), secret: "secret".to_owned() }
    }

    #[tokio::test]
    async fn a_section_of_the_cloud_config_moves_an_api() {
        let config = overridden("EC2", "other");
        let session = Session::with_keys(&config, keys(), &Metrics::new()).await.expect("a session");
        let target = session.ec2().target;
        let expected = Target {
            url: "http://127.0.0.1:1/".to_owned(),
            region: "us-east-1".to_owned(),
            name: "other".to_owned(),
            version: "2016-11-15",
        };
        assert_eq!(target, expected);
        assert_eq!(session.region(), "eu-north-1");
    }

    #[tokio::test]
    async fn a_name_that_the_sdk_cannot_sign_for_is_refused() {
        let service = "Elastic Load Balancing v2";
        for (name, fits) in [("", true), ("elasticloadbalancing", true), ("other", false)] {
            let config = overridden(service, name);
            let session = Session::with_keys(&config, keys(), &Metrics::new()).await.expect("a session");
            assert_eq!(session.sdk(service, "elasticloadbalancing").is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", keys()), "Keys { .. }");
    }
}
