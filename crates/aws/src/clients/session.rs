//! How AWS is reached: the region, the credentials, and where each API is.

use super::{
    api::{Api, Target},
    caller::Caller,
    classic::ClassicClient,
    clock::Clock,
    credentials::{Chain, Credentials, Kept},
    ec2::Ec2Client,
    elbv2::Elbv2Client,
    environment::Environment,
    http::{Http, Patience, Proxy},
    metadata::Metadata,
    partition::{Variant, only_ipv6, regional_url, route53},
    profile::Profiles,
    query::{Dialect, Query},
    role::Role,
    route53::Route53Client,
};
use crate::{
    account::Account,
    cloud_config::{CloudConfig, Endpoint, Endpoints},
};
use runtime::{backoff::Backoff, metrics::Metrics};
use std::{sync::Arc, time::Duration};

/// No call of these APIs works longer.
const PATIENCE: Patience = Patience { connect: Duration::from_secs(5), answer: Duration::from_secs(30) };

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
}

/// Keys at hand, instead of those that are looked for.
#[derive(Clone)]
pub struct Keys {
    /// The access key's id.
    pub id: String,
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
    endpoints: Endpoints,
    profiles: Profiles,
    /// Whether the environment says that the profile's addresses of APIs do not count.
    ignores_profile: bool,
    variant: Variant,
    http: Http,
    /// Of everything but what credentials are made from.
    credentials: Option<Kept>,
    caller: Caller,
    clock: Clock,
    metadata: Metadata,
}

/// What a session is made of beside the cloud-config.
struct Given {
    environment: Environment,
    keys: Option<Keys>,
    backoff: Option<Backoff>,
}

impl Session {
    /// With what the cloud-config, the environment, profiles and the instance metadata service say, in this order.
    pub async fn open(config: &CloudConfig, metrics: &Metrics) -> Result<Self, OpenError> {
        let given = Given { environment: Environment::of_process(), keys: None, backoff: None };
        Self::build(config, given, metrics).await
    }

    /// With these keys.
    pub async fn with_keys(config: &CloudConfig, keys: Keys, metrics: &Metrics) -> Result<Self, OpenError> {
        let given = Given { environment: Environment::of_process(), keys: Some(keys), backoff: None };
        Self::build(config, given, metrics).await
    }

    /// With these keys and other waits between attempts.
    #[cfg(test)]
    pub(super) async fn for_test(config: &CloudConfig, keys: Keys, backoff: Backoff) -> Result<Self, OpenError> {
        let given = Given { environment: Environment::of_process(), keys: Some(keys), backoff: Some(backoff) };
        Self::build(config, given, &Metrics::new()).await
    }

    /// In another environment.
    #[cfg(test)]
    pub(super) async fn in_environment(
        config: &CloudConfig,
        environment: Environment,
        backoff: Backoff,
    ) -> Result<Self, OpenError> {
        Self::build(config, Given { environment, keys: None, backoff: Some(backoff) }, &Metrics::new()).await
    }

    async fn build(config: &CloudConfig, given: Given, metrics: &Metrics) -> Result<Self, OpenError> {
        let Given { environment, keys, backoff } = given;
        // Whoever needs what stands in them is told why it is missing.
        let profiles = Profiles::read(&environment).unwrap_or_else(|error| {
            tracing::warn!(%error, "AWS profiles cannot be read");
            Profiles::default()
        });
        let metadata = Metadata::new(metadata_url(config), &environment, &profiles);
        let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| environment.get(name));
        let named = config.region().or_else(|| named.or_else(|| profiles.own("region")).map(str::to_owned));
        let region = match named {
            Some(region) => region,
            None => metadata.region().await.ok_or(OpenError::NoRegion)?,
        };
        let asked = |variable: &str, key: &str| match environment.get(variable) {
            Some(value) => Some(value.eq_ignore_ascii_case("true")),
            None => profiles.own(key).map(|value| value.eq_ignore_ascii_case("true")),
        };
        let variant = Variant {
            dual_stack: asked("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint").unwrap_or_else(only_ipv6),
            fips: asked("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint").unwrap_or_default(),
        };
        let mut session = Self {
            region,
            endpoints: Endpoints::new(config.overrides.clone(), environment.variables()),
            profiles,
            ignores_profile: environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
            variant,
            http: Http::new(Proxy::OfEnvironment, PATIENCE),
            credentials: None,
            caller: match backoff {
                Some(backoff) => Caller::with_backoff(metrics, backoff),
                None => Caller::new(metrics),
            },
            clock: Clock::default(),
            metadata,
        };
        session.credentials = Some(match keys {
            Some(Keys { id, secret }) => Kept::new(Credentials { id, secret, token: None, expires: None }),
            None => Kept::new(Chain::new(environment, session.metadata.clone(), session.sts())),
        });
        if !config.global.role.is_empty() {
            session = session.in_role(&config.global.role, &config.global.source);
        }
        // A mistake in the credentials is told now and not with the first Service.
        session.try_credentials().await.map_err(OpenError::NoCredentials)?;
        Ok(session)
    }

    /// The same in the name of a role, which is taken on with the credentials of this one, on behalf of a source if there is one.
    pub(crate) fn in_role(&self, role: &str, source: &str) -> Self {
        let role = Role {
            sts: self.sts(),
            role: role.to_owned(),
            session: None,
            external_id: None,
            source: source.to_owned(),
        };
        Self { credentials: Some(Kept::new(role)), ..self.clone() }
    }

    /// Whether there are credentials; why not.
    pub(crate) async fn try_credentials(&self) -> Result<(), String> {
        match &self.credentials {
            Some(credentials) => credentials.get().await.map(drop).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Calls as fast as they are answered: for an AWS that is played on this machine, and has no limits to keep to.
    #[must_use]
    pub fn without_limits(self) -> Self {
        Self { caller: self.caller.without_limits(), ..self }
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// The account, in this region.
    pub fn account(&self) -> Account {
        Account {
            network: Arc::new(Elbv2Client { query: self.elbv2() }),
            classic: Arc::new(ClassicClient { query: self.classic() }),
            ec2: Arc::new(Ec2Client { query: self.ec2() }),
        }
    }

    /// The instance metadata service.
    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn ec2(&self) -> Query {
        self.query("EC2", "ec2", "2016-11-15", Dialect::Ec2)
    }

    fn elbv2(&self) -> Query {
        self.query("Elastic Load Balancing v2", "elasticloadbalancing", "2015-12-01", Dialect::Query)
    }

    fn classic(&self) -> Query {
        self.query("Elastic Load Balancing", "elasticloadbalancing", "2012-06-01", Dialect::Query)
    }

    fn sts(&self) -> Query {
        self.query("STS", "sts", "2011-06-15", Dialect::Query)
    }

    /// The account's hosted zones.
    pub(crate) fn hosted_zones(&self) -> Route53Client {
        Route53Client { api: self.route53() }
    }

    /// Route53, of which there is one for all regions.
    fn route53(&self) -> Api {
        let (url, region) = route53(&self.region, self.variant);
        let usual = Target { url, region: region.to_owned(), name: "route53".to_owned() };
        self.api("Route 53", usual)
    }

    fn query(&self, service: &str, name: &str, version: &'static str, dialect: Dialect) -> Query {
        let url = regional_url(name, &self.region, self.variant);
        let usual = Target { url, region: self.region.clone(), name: name.to_owned() };
        Query { api: self.api(service, usual), version, dialect }
    }

    /// A client of an API: where the cloud-config, the environment or the profile say, else where it usually is.
    fn api(&self, service: &str, usual: Target) -> Api {
        let of_profile = || self.profiles.endpoint_url(service).filter(|_| !self.ignores_profile);
        let configured = |url: &str| Endpoint { url: url.to_owned(), signing_region: None, signing_name: None };
        let given = self.endpoints.of(service, &self.region).or_else(|| of_profile().map(configured));
        let target = match given {
            Some(Endpoint { url, signing_region, signing_name }) => {
                Target { url, region: signing_region.unwrap_or(usual.region), name: signing_name.unwrap_or(usual.name) }
            }
            None => usual,
        };
        Api {
            target: Target { url: target.url.trim_end_matches('/').to_owned(), ..target },
            http: self.http.clone(),
            credentials: self.credentials.clone(),
            caller: self.caller.clone(),
            clock: self.clock.clone(),
        }
    }
}

/// `AWS_ENDPOINT_URL`, which moves all APIs, is not about the metadata service.
fn metadata_url(config: &CloudConfig) -> Option<String> {
    let mut sections = config.overrides.iter();
    sections.find(|section| section.service.eq_ignore_ascii_case("ec2imds")).map(|section| section.url.clone())
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
        type Of = fn(&Session) -> Target;
        let apis: [(&str, &str, Of); 4] = [
            ("EC2", "ec2", |session| session.ec2().api.target),
            ("Elastic Load Balancing v2", "elasticloadbalancing", |session| session.elbv2().api.target),
            ("Elastic Load Balancing", "elasticloadbalancing", |session| session.classic().api.target),
            ("Route 53", "route53", |session| session.route53().target),
        ];
        for (service, usual, of) in apis {
            for (given, name) in [("other", "other"), ("", usual)] {
                let config = overridden(service, given);
                let session = Session::with_keys(&config, keys(), &Metrics::new()).await.expect("a session");
                let expected = Target {
                    url: "http://127.0.0.1:1".to_owned(),
                    region: "us-east-1".to_owned(),
                    name: name.to_owned(),
                };
                assert_eq!(of(&session), expected, "{service} {given:?}");
                assert_eq!(session.region(), "eu-north-1");
            }
        }
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", keys()), "Keys { .. }");
    }
}
