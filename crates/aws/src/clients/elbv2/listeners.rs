//! Listeners and their certificates.

use super::{Elbv2Client, form};
use crate::{
    account::{AwsError, Listener, ListenerSettings, NewListener},
    clients::{actions::Action, query::Form, xml::Element},
};
use std::collections::BTreeSet;

impl Elbv2Client {
    /// Certificates beside a listener's own one; AWS takes one at a time.
    pub(super) async fn each_certificate(
        &self,
        action: Action,
        listener: &str,
        arns: &BTreeSet<String>,
    ) -> Result<(), AwsError> {
        for arn in arns {
            let mut form = form("ListenerArn", listener);
            form.set("Certificates.member.1.CertificateArn", arn);
            self.query.change(action, form).await?;
        }
        Ok(())
    }
}

pub(super) fn new_form(new: &NewListener) -> Form {
    let mut form = form("LoadBalancerArn", &new.load_balancer);
    settings(&mut form, &new.settings);
    form.tags("Tags.member", &new.tags);
    form
}

pub(super) fn settings(form: &mut Form, settings: &ListenerSettings) {
    let ListenerSettings { port, protocol, target_group, certificate, ssl_policy } = settings;
    form.set("Port", port.to_string());
    form.set("Protocol", protocol);
    form.set("DefaultActions.member.1.Type", "forward");
    form.set("DefaultActions.member.1.TargetGroupArn", target_group);
    form.some("Certificates.member.1.CertificateArn", certificate.as_ref());
    form.some("SslPolicy", ssl_policy.as_ref());
}

pub(super) fn read(from: &Element) -> Listener {
    let protocol = from.text(&["Protocol"]).to_owned();
    let forwarded = |action: &Element| {
        let groups = action.child("ForwardConfig").into_iter().flat_map(|config| config.items("TargetGroups"));
        let mut groups = groups.filter_map(|group| group.some("TargetGroupArn"));
        action.some("TargetGroupArn").or_else(|| groups.next())
    };
    let tls = protocol == "TLS";
    Listener {
        arn: from.text(&["ListenerArn"]).to_owned(),
        settings: ListenerSettings {
            port: from.parsed("Port").unwrap_or(0),
            target_group: from.items("DefaultActions").find_map(forwarded).unwrap_or_default(),
            certificate: from.items("Certificates").find_map(|one| one.some("CertificateArn")).filter(|_| tls),
            // Others have none, whatever is told.
            ssl_policy: from.some("SslPolicy").filter(|_| tls),
            protocol,
        },
    }
}

/// The ARN of a certificate, unless it is the listener's own one.
pub(super) fn read_certificate(from: &Element) -> Option<String> {
    from.some("CertificateArn").filter(|_| from.text(&["IsDefault"]) != "true")
}
