//! Certificates of listeners beside their own one.

use super::Elbv2;
use crate::{
    account::AwsError,
    clients::{actions, paging::Marker},
};
use aws_sdk_elasticloadbalancingv2::types as sdk;
use std::collections::BTreeSet;

impl Elbv2 {
    pub(in crate::clients) async fn describe_listener_certificates(
        &self,
        listener: &str,
    ) -> Result<BTreeSet<String>, AwsError> {
        let request = self.client.describe_listener_certificates().listener_arn(listener);
        let (mut all, mut marker) = (BTreeSet::new(), Marker::default());
        loop {
            let send = || request.clone().set_marker(marker.current()).send();
            let page = self.caller.sdk(actions::DESCRIBE_LISTENER_CERTIFICATES, send).await?;
            let beside = page.certificates.into_iter().flatten().filter(|one| one.is_default != Some(true));
            all.extend(beside.filter_map(|one| one.certificate_arn));
            if !marker.advance(page.next_marker)? {
                return Ok(all);
            }
        }
    }

    pub(in crate::clients) async fn add_listener_certificates(
        &self,
        listener: &str,
        arns: &BTreeSet<String>,
    ) -> Result<(), AwsError> {
        for arn in arns {
            let request = self.client.add_listener_certificates().listener_arn(listener).certificates(certificate(arn));
            self.caller.sdk(actions::ADD_LISTENER_CERTIFICATES, || request.clone().send()).await?;
        }
        Ok(())
    }

    pub(in crate::clients) async fn remove_listener_certificates(
        &self,
        listener: &str,
        arns: &BTreeSet<String>,
    ) -> Result<(), AwsError> {
        for arn in arns {
            let request =
                self.client.remove_listener_certificates().listener_arn(listener).certificates(certificate(arn));
            self.caller.sdk(actions::REMOVE_LISTENER_CERTIFICATES, || request.clone().send()).await?;
        }
        Ok(())
    }
}

/// AWS takes one at a time.
fn certificate(arn: &str) -> sdk::Certificate {
    sdk::Certificate::builder().certificate_arn(arn).build()
}
