//! Which permissions the role lacks, found out at the start without changing anything.
//!
//! Reads are simply made. Changes of EC2 are tried with `DryRun` on what there is: a group, a route table and an instance of the cluster, because
//! policies go by tags. What there is none of, and changes of load balancers, which know no such trial, are found out when they are needed;
//! the Service's event then names the action.

mod report;

pub use report::look;

use crate::{
    account::{
        AwsError, Direction, GroupFilter, InstanceFilter, NewSecurityGroup, Peer, Protocol, RouteTarget, Rule,
        SubnetFilter, Tags, TargetGroupFilter, Trial,
    },
    apply::Aws,
};
use net::Cidr;
use std::collections::BTreeSet;

/// Addresses that nobody has (RFC 5737, RFC 3849); nothing is done with them.
const NOBODY: [&str; 2] = ["192.0.2.0/24", "2001:db8::/64"];

/// Whether pods get routes, so that their permissions are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForRoutes {
    /// They are looked at as well.
    Needed,
    /// They are not.
    NotNeeded,
}

/// What is missing so far.
#[derive(Default)]
struct Found {
    missing: BTreeSet<String>,
}

impl Found {
    /// What a call brought; nothing where it failed, for whatever reason.
    fn take<T>(&mut self, outcome: Result<T, AwsError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(AwsError::Unauthorized { action, .. }) => {
                self.missing.insert(action);
                None
            }
            // Not what is looked for here; whoever needs the call will tell.
            Err(error) => {
                tracing::debug!(%error, "a permission could not be looked at");
                None
            }
        }
    }
}

impl Aws {
    /// The IAM actions that the role is known to lack, in order.
    pub async fn missing_permissions(&self, routes: ForRoutes) -> Vec<String> {
        let mut found = Found::default();
        self.try_load_balancers(&mut found).await;
        self.try_groups(&mut found).await;
        let account = &self.account;
        let vpc = Some(self.settings.cluster.vpc.clone());
        found.take(account.ec2.describe_subnets(&SubnetFilter { vpc, ids: BTreeSet::new() }).await);
        found.take(account.ec2.describe_availability_zones().await);
        self.try_routes(routes, &mut found).await;
        found.missing.into_iter().collect()
    }

    async fn try_load_balancers(&self, found: &mut Found) {
        let account = &self.account;
        let balancers = found.take(account.network.describe_load_balancers(None).await).unwrap_or_default();
        if let Some(balancer) = balancers.first() {
            found.take(account.network.describe_load_balancer_attributes(&balancer.arn).await);
            found.take(account.network.describe_listeners(&balancer.arn).await);
            found.take(account.network.describe_tags(std::slice::from_ref(&balancer.arn)).await);
        }
        let groups =
            found.take(account.network.describe_target_groups(TargetGroupFilter::All).await).unwrap_or_default();
        if let Some(group) = groups.first() {
            found.take(account.network.describe_target_group_attributes(&group.arn).await);
            found.take(account.network.describe_target_health(&group.arn).await);
        }
        let classic = found.take(account.classic.describe_classic(None).await).unwrap_or_default();
        if let Some(balancer) = classic.first() {
            found.take(account.classic.describe_classic_attributes(&balancer.name).await);
        }
    }

    async fn try_groups(&self, found: &mut Found) {
        let (account, cluster) = (&self.account, &self.settings.cluster);
        let tags = Tags::from([(cluster.tag(), "owned".to_owned())]);
        let new = NewSecurityGroup {
            name: "k8s-permission-trial".to_owned(),
            description: crate::model::names::GROUP_DESCRIPTION.to_owned(),
            vpc: cluster.vpc.clone(),
            tags: tags.clone(),
        };
        found.take(account.ec2.try_out(Trial::CreateGroup(&new)).await);
        let filter = GroupFilter { vpc: Some(cluster.vpc.clone()), ..GroupFilter::default() };
        let groups = found.take(account.ec2.describe_security_groups(&filter).await).unwrap_or_default();
        let Some(own) = groups.iter().find(|group| cluster.owns(&group.tags)) else { return };
        let rules = nobodys_rules();
        for direction in [Direction::Ingress, Direction::Egress] {
            found.take(account.ec2.try_out(Trial::Authorize(&own.id, direction, &rules)).await);
            found.take(account.ec2.try_out(Trial::Revoke(&own.id, direction, &rules)).await);
        }
        found.take(account.ec2.try_out(Trial::Tag(&own.id, &tags)).await);
        found.take(account.ec2.try_out(Trial::DeleteGroup(&own.id)).await);
    }

    async fn try_routes(&self, routes: ForRoutes, found: &mut Found) {
        let (account, cluster) = (&self.account, &self.settings.cluster);
        let filter = InstanceFilter {
            vpc: Some(cluster.vpc.clone()),
            tag_key: Some(cluster.tag()),
            ..InstanceFilter::default()
        };
        let instances = found.take(account.ec2.describe_instances(&filter).await).unwrap_or_default();
        found.take(account.ec2.describe_route_tables(&cluster.vpc).await);
        // Which one it is, is told elsewhere when it cannot be said.
        let (ForRoutes::Needed, Some(instance), Ok(table)) = (routes, instances.first(), self.table().await) else {
            return;
        };
        let via = RouteTarget::Instance(instance.id.clone());
        for to in nobodys_blocks() {
            found.take(account.ec2.try_out(Trial::CreateRoute(&table.id, to, &via)).await);
            found.take(account.ec2.try_out(Trial::DeleteRoute(&table.id, to)).await);
        }
        found.take(account.ec2.try_out(Trial::SourceDestCheck(&instance.id)).await);
    }
}

fn nobodys_blocks() -> impl Iterator<Item = Cidr> {
    NOBODY.into_iter().filter_map(|text| text.parse().ok())
}

fn nobodys_rules() -> BTreeSet<Rule> {
    let protocol = Protocol::Tcp { from: 1, to: 1 };
    let rule = |block| Rule { protocol, peer: Peer::Cidr(block), description: String::new() };
    nobodys_blocks().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Example, Memory, testing::settings};
    use std::sync::Arc;

    fn aws() -> (Arc<Memory>, Aws) {
        let memory = Arc::new(Memory::new(Example { nodes: 2 }.state()));
        (memory.clone(), Aws::new(memory, settings()).with_route_table(Some("rtb-main".into())))
    }

    #[tokio::test]
    async fn each_permission_that_can_be_looked_at_is_named_when_it_is_missing_and_nothing_changes() {
        let (memory, aws) = aws();
        let before = memory.state();
        memory.take_calls();
        assert!(aws.missing_permissions(ForRoutes::Needed).await.is_empty());
        let mut looked_at: Vec<&str> = memory.take_calls().into_iter().map(|call| call.action).collect();
        looked_at.sort_unstable();
        looked_at.dedup();
        for needed in ["ec2:CreateRoute", "ec2:ModifyInstanceAttribute", "ec2:CreateTags", "ec2:DescribeSubnets"] {
            assert!(looked_at.contains(&needed), "{needed} is not among {looked_at:?}");
        }
        for action in &looked_at {
            memory.deny(&[action]);
            assert_eq!(aws.missing_permissions(ForRoutes::Needed).await, [*action], "without {action}");
        }
        let mut all = looked_at.clone();
        all.retain(|action| !["ec2:AuthorizeSecurityGroupIngress"].contains(action));
        memory.deny(&all);
        let missing = aws.missing_permissions(ForRoutes::Needed).await;
        assert!(missing.len() >= 8 && missing.is_sorted(), "{missing:?}");
        assert_eq!(memory.state(), before, "it only looked");
    }

    #[tokio::test]
    async fn permissions_for_routes_are_not_missed_where_there_are_none() {
        let (memory, aws) = aws();
        memory.deny(&["ec2:CreateRoute", "ec2:DeleteRoute", "ec2:ModifyInstanceAttribute"]);
        assert!(aws.missing_permissions(ForRoutes::NotNeeded).await.is_empty());
        assert_eq!(
            aws.missing_permissions(ForRoutes::Needed).await,
            ["ec2:CreateRoute", "ec2:DeleteRoute", "ec2:ModifyInstanceAttribute"]
        );
    }
}
