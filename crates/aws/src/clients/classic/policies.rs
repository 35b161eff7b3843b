//! Policies of classic load balancers: PROXY protocol towards instances, TLS settings of listeners.

use super::{ClassicClient, form, form_with};
use crate::{
    account::{AwsError, ClassicPolicy},
    clients::actions,
};

impl ClassicClient {
    pub(super) async fn create_policy(&self, name: &str, policy: &ClassicPolicy) -> Result<(), AwsError> {
        let mut form = form(name);
        form.set("PolicyName", &policy.name);
        form.set("PolicyTypeName", &policy.kind);
        for (number, (attribute, value)) in (1..).zip(&policy.attributes) {
            form.set(format!("PolicyAttributes.member.{number}.AttributeName"), attribute);
            form.set(format!("PolicyAttributes.member.{number}.AttributeValue"), value);
        }
        match self.query.change(actions::CREATE_POLICY, form).await {
            Err(error) if error.is_duplicate() && self.has(name, policy).await? => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether the load balancer has a policy of this name, kind and content. AWS fills in attributes that were not given.
    async fn has(&self, name: &str, policy: &ClassicPolicy) -> Result<bool, AwsError> {
        let form = form_with(name, "PolicyNames", [&policy.name]);
        let answer = self.query.ask(actions::DESCRIBE_POLICIES, &form).await?;
        let Some(has) = answer.items("PolicyDescriptions").next() else { return Ok(false) };
        let reported = |name: &String, value: &String| {
            let mut all = has.items("PolicyAttributeDescriptions");
            all.any(|one| one.text(&["AttributeName"]) == name && one.text(&["AttributeValue"]) == value)
        };
        Ok(has.text(&["PolicyTypeName"]) == policy.kind
            && policy.attributes.iter().all(|(name, value)| reported(name, value)))
    }
}
