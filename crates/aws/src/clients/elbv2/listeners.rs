//! Listeners.

use super::{Elbv2, gone, missing, to_tags};
use crate::{
    account::{AwsError, Listener, ListenerSettings, NewListener},
    clients::{actions, paging::Marker},
};
use aws_sdk_elasticloadbalancingv2::types as sdk;

impl Elbv2 {
    pub(in crate::clients) async fn describe_listeners(&self, load_balancer: &str) -> Result<Vec<Listener>, AwsError> {
        let request = self.client.describe_listeners().load_balancer_arn(load_balancer);
        let (mut all, mut marker) = (Vec::new(), Marker::default());
        loop {
            let send = || request.clone().set_marker(marker.current()).send();
            let page = self.caller.sdk(actions::DESCRIBE_LISTENERS, send).await?;
            all.extend(page.listeners.into_iter().flatten().map(listener));
            if !marker.advance(page.next_marker)? {
                return Ok(all);
            }
        }
    }

    pub(in crate::clients) async fn create_listener(&self, new: &NewListener) -> Result<Listener, AwsError> {
        let ListenerSettings { port, protocol, target_group, certificate, ssl_policy } = &new.settings;
        let request = self
            .client
            .create_listener()
            .load_balancer_arn(&new.load_balancer)
            .port((*port).into())
            .protocol(protocol.as_str().into())
            .default_actions(forward(target_group))
            .set_certificates(certificates(certificate.as_ref()))
            .set_ssl_policy(ssl_policy.clone())
            .set_tags(to_tags(&new.tags));
        let answer = self.caller.sdk(actions::CREATE_LISTENER, || request.clone().send()).await?;
        let made = answer.listeners.into_iter().flatten().next();
        made.map(listener).ok_or_else(|| missing("CreateListener"))
    }

    pub(in crate::clients) async fn modify_listener(
        &self,
        arn: &str,
        settings: &ListenerSettings,
    ) -> Result<(), AwsError> {
        let ListenerSettings { port, protocol, target_group, certificate, ssl_policy } = settings;
        let request = self
            .client
            .modify_listener()
            .listener_arn(arn)
            .port((*port).into())
            .protocol(protocol.as_str().into())
            .default_actions(forward(target_group))
            .set_certificates(certificates(certificate.as_ref()))
            .set_ssl_policy(ssl_policy.clone());
        self.caller.sdk(actions::MODIFY_LISTENER, || request.clone().send()).await.map(drop)
    }

    pub(in crate::clients) async fn delete_listener(&self, arn: &str) -> Result<(), AwsError> {
        let request = self.client.delete_listener().listener_arn(arn);
        gone(self.caller.sdk(actions::DELETE_LISTENER, || request.clone().send()).await)
    }
}

fn forward(target_group: &str) -> sdk::Action {
    sdk::Action::builder().r#type(sdk::ActionTypeEnum::Forward).target_group_arn(target_group).build()
}

fn certificates(arn: Option<&String>) -> Option<Vec<sdk::Certificate>> {
    arn.map(|arn| vec![sdk::Certificate::builder().certificate_arn(arn).build()])
}

fn listener(from: sdk::Listener) -> Listener {
    let protocol = from.protocol.map(|protocol| protocol.as_str().to_owned()).unwrap_or_default();
    let forwarded = |action: sdk::Action| {
        let groups = action.forward_config.and_then(|config| config.target_groups);
        let first = groups.into_iter().flatten().find_map(|group| group.target_group_arn);
        action.target_group_arn.or(first)
    };
    let target_group = from.default_actions.into_iter().flatten().find_map(forwarded).unwrap_or_default();
    let tls = protocol == "TLS";
    Listener {
        arn: from.listener_arn.unwrap_or_default(),
        settings: ListenerSettings {
            port: from.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
            target_group,
            certificate: from.certificates.into_iter().flatten().find_map(|one| one.certificate_arn).filter(|_| tls),
            // Others have none, whatever is told.
            ssl_policy: from.ssl_policy.filter(|_| tls),
            protocol,
        },
    }
}
