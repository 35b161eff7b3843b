//! Tags of load balancers, listeners and target groups.

use super::{Elbv2, to_tags};
use crate::{
    account::{AwsError, Tags},
    clients::actions,
};
use aws_sdk_elasticloadbalancingv2::operation::describe_tags::DescribeTagsOutput;
use std::collections::BTreeMap;

/// Resources that one call takes.
const RESOURCES: usize = 20;

impl Elbv2 {
    pub(in crate::clients) async fn describe_tags(&self, arns: &[String]) -> Result<BTreeMap<String, Tags>, AwsError> {
        let mut all = BTreeMap::new();
        for some in arns.chunks(RESOURCES) {
            match self.tags_of(some).await {
                // One that has gone makes AWS refuse all.
                Err(error) if error.is_not_found() => {
                    for one in some {
                        match self.tags_of(std::slice::from_ref(one)).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => all.extend(read(outcome?)),
                        }
                    }
                }
                outcome => all.extend(read(outcome?)),
            }
        }
        Ok(all)
    }

    async fn tags_of(&self, arns: &[String]) -> Result<DescribeTagsOutput, AwsError> {
        let request = self.client.describe_tags().set_resource_arns(Some(arns.to_vec()));
        self.caller.sdk(actions::DESCRIBE_TAGS, || request.clone().send()).await
    }

    pub(in crate::clients) async fn add_tags(&self, arns: &[String], tags: &Tags) -> Result<(), AwsError> {
        if tags.is_empty() {
            return Ok(());
        }
        for some in arns.chunks(RESOURCES) {
            let request = self.client.add_tags().set_resource_arns(Some(some.to_vec())).set_tags(to_tags(tags));
            self.caller.sdk(actions::ADD_TAGS, || request.clone().send()).await?;
        }
        Ok(())
    }
}

fn read(answer: DescribeTagsOutput) -> impl Iterator<Item = (String, Tags)> {
    answer.tag_descriptions.into_iter().flatten().filter_map(|one| {
        let tags = one.tags.into_iter().flatten();
        let tags = tags.filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default()))).collect();
        Some((one.resource_arn?, tags))
    })
}
