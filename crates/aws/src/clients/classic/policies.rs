//! Policies of classic load balancers: PROXY protocol towards instances, TLS settings of listeners.

use super::Classic;
use crate::{
    account::{AwsError, ClassicPolicy},
    clients::actions,
};
use aws_sdk_elasticloadbalancing::types as sdk;

impl Classic {
    pub(in crate::clients) async fn create_policy(&self, name: &str, policy: &ClassicPolicy) -> Result<(), AwsError> {
        let attribute = |(name, value): (&String, &String)| {
            sdk::PolicyAttribute::builder().attribute_name(name).attribute_value(value).build()
        };
        let request = self
            .client
            .create_load_balancer_policy()
            .load_balancer_name(name)
            .policy_name(&policy.name)
            .policy_type_name(&policy.kind)
            .set_policy_attributes(Some(policy.attributes.iter().map(attribute).collect()));
        match self.caller.sdk(actions::CREATE_POLICY, || request.clone().send()).await {
            Err(error) if error.is_duplicate() && self.has(name, policy).await? => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Whether the load balancer has a policy of this name, kind and content. AWS fills in attributes that were not given.
    async fn has(&self, name: &str, policy: &ClassicPolicy) -> Result<bool, AwsError> {
        let request = self.client.describe_load_balancer_policies().load_balancer_name(name).policy_names(&policy.name);
        let answer = self.caller.sdk(actions::DESCRIBE_POLICIES, || request.clone().send()).await?;
        let Some(has) = answer.policy_descriptions.into_iter().flatten().next() else { return Ok(false) };
        let attributes = has.policy_attribute_descriptions.unwrap_or_default();
        let told = |name: &String, value: &String| {
            let mut all = attributes.iter();
            all.any(|one| one.attribute_name.as_ref() == Some(name) && one.attribute_value.as_ref() == Some(value))
        };
        Ok(has.policy_type_name.as_ref() == Some(&policy.kind)
            && policy.attributes.iter().all(|(name, value)| told(name, value)))
    }

    pub(in crate::clients) async fn set_backend_policies(
        &self,
        name: &str,
        port: u16,
        policies: &[String],
    ) -> Result<(), AwsError> {
        let request = self
            .client
            .set_load_balancer_policies_for_backend_server()
            .load_balancer_name(name)
            .instance_port(port.into())
            .set_policy_names(Some(policies.to_vec()));
        self.caller.sdk(actions::SET_BACKEND_POLICIES, || request.clone().send()).await.map(drop)
    }

    pub(in crate::clients) async fn set_listener_policies(
        &self,
        name: &str,
        port: u16,
        policies: &[String],
    ) -> Result<(), AwsError> {
        let request = self
            .client
            .set_load_balancer_policies_of_listener()
            .load_balancer_name(name)
            .load_balancer_port(port.into())
            .set_policy_names(Some(policies.to_vec()));
        self.caller.sdk(actions::SET_LISTENER_POLICIES, || request.clone().send()).await.map(drop)
    }
}
