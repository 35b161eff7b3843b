//! How AWS is reached: the region, the credentials, and where each API is.

use super::{
    caller::Caller,
    credentials::{Kept, Role},
    failure::chain,
    query::{Query, Target},
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
use net::Family;
use runtime::{backoff::Backoff, metrics::Metrics};
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

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
        if let Some(Keys { id, secret }) = keys {
            loader = loader.credentials_provider(Credentials::new(id, secret, None, None, "given"));
        }
        let sdk = loader.load().await;
        let source = sdk.credentials_provider().ok_or_else(|| OpenError::NoCredentials("none are set".to_owned()))?;
        let own = Kept::new(source);
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
            metadata: metadata_url(config),
        };
        if !config.global.role.is_empty() {
            session.take_on(&config.global.role, &config.global.source);
        }
        session.sdk = session
            .sdk
            .into_builder()
            .credentials_provider(SharedCredentialsProvider::new(session.credentials.clone()))
            .build();
        // A mistake in the credentials is told now and not with the first Service.
        let tried = session.credentials.provide_credentials().await;
        tried.map_err(|error| OpenError::NoCredentials(chain(&error)))?;
        Ok(session)
    }

    fn take_on(&mut self, role: &str, source: &str) {
        let role = Role { sts: self.sts(), role: role.to_owned(), source: source.to_owned() };
        self.credentials = Kept::new(SharedCredentialsProvider::new(role));
        self.caller = self.caller.with_credentials(self.credentials.clone());
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
        Query { target, connector, credentials, caller: self.caller.clone() }
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

/// Where an API is that the SDK does not look up.
fn usual_url(name: &str, region: &str, dual_stack: bool, fips: bool) -> String {
    let (suffix, dual_suffix) = match region {
        _ if region.starts_with("cn-") => ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        _ if region.starts_with("eusc-") => ("amazonaws.eu", "api.amazonwebservices.eu"),
        _ if region.starts_with("us-iso-") => ("c2s.ic.gov", "c2s.ic.gov"),
        _ if region.starts_with("us-isob-") => ("sc2s.sgov.gov", "sc2s.sgov.gov"),
        _ if region.starts_with("eu-isoe-") => ("cloud.adc-e.uk", "cloud.adc-e.uk"),
        _ if region.starts_with("us-isof-") => ("csp.hci.ic.gov", "csp.hci.ic.gov"),
        _ => ("amazonaws.com", "api.aws"),
    };
    let suffix = if dual_stack { dual_suffix } else { suffix };
    let fips = if fips { "-fips" } else { "" };
    format!("https://{name}{fips}.{region}.{suffix}/")
}

/// Whether this machine has a way out over IPv6 and none over IPv4: then only dual-stack endpoints can be reached.
fn only_ipv6() -> bool {
    has_way(Family::V6) && !has_way(Family::V4)
}

fn has_way(family: Family) -> bool {
    // Addresses for documentation: connecting a UDP socket looks up the route and sends nothing.
    let (here, there): (SocketAddr, SocketAddr) = match family {
        Family::V4 => ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 443).into()),
        Family::V6 => {
            let there = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            ((Ipv6Addr::UNSPECIFIED, 0).into(), (there, 443).into())
        }
    };
    UdpSocket::bind(here).is_ok_and(|socket| socket.connect(there).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ec2_is_where_the_partition_has_it() {
        for (region, dual_stack, fips, url) in [
            ("us-east-1", false, false, "https://ec2.us-east-1.amazonaws.com/"),
            ("us-east-1", true, false, "https://ec2.us-east-1.api.aws/"),
            ("us-east-1", false, true, "https://ec2-fips.us-east-1.amazonaws.com/"),
            ("us-gov-west-1", true, false, "https://ec2.us-gov-west-1.api.aws/"),
            ("cn-north-1", false, false, "https://ec2.cn-north-1.amazonaws.com.cn/"),
            ("cn-north-1", true, false, "https://ec2.cn-north-1.api.amazonwebservices.com.cn/"),
            ("eusc-de-east-1", false, false, "https://ec2.eusc-de-east-1.amazonaws.eu/"),
        ] {
            assert_eq!(usual_url("ec2", region, dual_stack, fips), url);
        }
    }

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
