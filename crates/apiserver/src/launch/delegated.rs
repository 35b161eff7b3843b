//! Who else says who a token is and who may what, as flags and files say, and how those files are followed.

use super::{ApiServerOptions, AuthorizationMode, AuthorizationSource, IssuerSource, ServeError, machine, refused};
use crate::{
    ApiServer,
    delegated::{
        AuthenticationConfiguration, AuthorizationConfiguration, ConfigFile, IssuerMetrics, Issuers, ReloadMetrics,
        TokenWebhook, Webhook, WebhookMetrics, oidc,
    },
};
use access::{
    Layer, Mode,
    authn::{Anonymous, Others, TokenAuthenticator},
};
use runtime::{metrics::Metrics, task::Tasks};
use std::{convert::Infallible, io, sync::Arc};

/// What is asked, and the files that say so.
pub(super) struct Delegated {
    pub(super) anonymous: Option<Anonymous>,
    pub(super) others: Others,
    pub(super) layers: Vec<Layer>,
    issuers: Option<(Arc<Issuers>, ConfigFile)>,
    authorizers: Option<ConfigFile>,
    webhooks: WebhookMetrics,
}

impl Delegated {
    /// `server` is what metrics tell this server from others by.
    pub(super) fn new(options: &ApiServerOptions, metrics: &Metrics, server: &str) -> Result<Self, ServeError> {
        let webhooks = WebhookMetrics::new(metrics);
        let (layers, authorizers) = authorization(&options.authorization, metrics, server, &webhooks)?;
        let mut delegated =
            Self { anonymous: None, others: Others::default(), layers, issuers: None, authorizers, webhooks };
        match &options.issuers {
            Some(IssuerSource::File(path)) => {
                let wrong = |mistakes| refused("authentication-config", path, mistakes);
                let file = ConfigFile::load(path, ReloadMetrics::new(metrics, "authentication", server));
                let file = file.map_err(wrong)?;
                let read = AuthenticationConfiguration::parse(file.text()).map_err(wrong)?;
                delegated.anonymous.clone_from(&read.anonymous);
                let issuers = issuers(options, read, IssuerMetrics::new(metrics, server)).map_err(wrong)?;
                delegated.others.0.push(Arc::clone(&issuers) as Arc<dyn TokenAuthenticator>);
                delegated.issuers = Some((issuers, file));
            }
            Some(IssuerSource::Flags(settings)) => {
                let wrong = |mistakes| machine("--oidc-issuer-url", io::Error::other(mistakes));
                let read = oidc(settings).map_err(wrong)?;
                let issuers = issuers(options, read, IssuerMetrics::new(metrics, server)).map_err(wrong)?;
                delegated.others.0.push(issuers);
            }
            None => {}
        }
        if let Some(settings) = &options.token_webhook {
            let flag = "authentication-token-webhook-config-file";
            let webhook = TokenWebhook::new(settings).map_err(|why| refused(flag, &settings.config, why))?;
            delegated.others.0.push(Arc::new(webhook));
        }
        Ok(delegated)
    }

    /// Follows the files for as long as the server runs.
    pub(super) fn follow(self, server: &Arc<ApiServer>, tasks: &Tasks) {
        let Self { issuers, authorizers, webhooks, layers, anonymous: _, others: _ } = self;
        if let Some((issuers, file)) = issuers {
            let file = Arc::new(file);
            tasks.restarting("issuers", move |stop| {
                let (issuers, file) = (Arc::clone(&issuers), Arc::clone(&file));
                async move {
                    file.follow(stop, |text| issuers.replace(text)).await;
                    Ok::<(), Infallible>(())
                }
            });
        }
        if let Some(file) = authorizers {
            let (file, server) = (Arc::new(file), Arc::clone(server));
            let begun: Arc<[Mode]> = AuthorizationConfiguration(layers).modes().into();
            tasks.restarting("authorizers", move |stop| {
                let (file, server) = (Arc::clone(&file), Arc::clone(&server));
                let (begun, webhooks) = (Arc::clone(&begun), webhooks.clone());
                async move {
                    let take = |text: &str| {
                        let read = AuthorizationConfiguration::parse(text, &webhooks)?.keeps(&begun)?;
                        server.access.replace_layers(read.0);
                        Ok(())
                    };
                    file.follow(stop, take).await;
                    Ok::<(), Infallible>(())
                }
            });
        }
    }
}

fn issuers(
    options: &ApiServerOptions,
    read: AuthenticationConfiguration,
    metrics: IssuerMetrics,
) -> Result<Arc<Issuers>, crate::delegated::FileMistakes> {
    let settings = options.tokens.settings();
    let own = std::iter::once(settings.issuer).chain(settings.other_issuers).collect();
    Issuers::new(read, settings.audiences, own, metrics).map(Arc::new)
}

fn authorization(
    source: &AuthorizationSource,
    metrics: &Metrics,
    server: &str,
    webhooks: &WebhookMetrics,
) -> Result<(Vec<Layer>, Option<ConfigFile>), ServeError> {
    let modes = match source {
        AuthorizationSource::File(path) => {
            let wrong = |mistakes| refused("authorization-config", path, mistakes);
            let file = ConfigFile::load(path, ReloadMetrics::new(metrics, "authorization", server)).map_err(wrong)?;
            let read = AuthorizationConfiguration::parse(file.text(), webhooks).map_err(wrong)?;
            return Ok((read.0, Some(file)));
        }
        AuthorizationSource::Modes(modes) => modes,
    };
    let layer = |mode: &AuthorizationMode| match mode {
        AuthorizationMode::Own(mode) => Ok(Layer::Mode(*mode)),
        AuthorizationMode::Webhook(settings) => {
            let flag = "authorization-webhook-config-file";
            let webhook = Webhook::new(settings.clone(), webhooks.clone());
            Ok(Layer::Other(Arc::new(webhook.map_err(|why| refused(flag, &settings.config, why))?)))
        }
    };
    Ok((modes.iter().map(layer).collect::<Result<_, ServeError>>()?, None))
}
