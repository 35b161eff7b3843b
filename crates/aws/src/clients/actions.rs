//! Every call that is made, by the IAM action it needs. The one list that errors, limits, metrics and the documented policy go by.

/// Whose API it is. The two APIs of load balancers share their IAM actions and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    Ec2,
    /// Network and classic load balancers.
    LoadBalancing,
    Route53,
    Sts,
}

impl Service {
    pub const ALL: [Self; 4] = [Self::Ec2, Self::LoadBalancing, Self::Route53, Self::Sts];

    /// What IAM actions of it begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::LoadBalancing => "elasticloadbalancing",
            Self::Route53 => "route53",
            Self::Sts => "sts",
        }
    }
}

/// Whether a call can change something. AWS limits the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It cannot.
    Read,
    /// It can.
    Write,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// Whose it is.
    pub service: Service,
    /// Whether it can change something.
    pub access: Access,
    pub name: &'static str,
}

impl Action {
    /// As policies have it: `ec2:CreateSecurityGroup`.
    pub fn iam(&self) -> String {
        format!("{}:{}", self.service.prefix(), self.name)
    }
}

macro_rules! actions {
    ($($constant:ident = $service:ident $access:ident $name:literal;)*) => {
        $(pub(super) const $constant: Action =
            Action { service: Service::$service, access: Access::$access, name: $name };)*

        /// All calls that are ever made.
        pub const ALL: &[Action] = &[$($constant),*];
    };
}

actions! {
    DESCRIBE_LOAD_BALANCERS = LoadBalancing Read "DescribeLoadBalancers";
    CREATE_LOAD_BALANCER = LoadBalancing Write "CreateLoadBalancer";
    DELETE_LOAD_BALANCER = LoadBalancing Write "DeleteLoadBalancer";
    SET_SECURITY_GROUPS = LoadBalancing Write "SetSecurityGroups";
    SET_IP_ADDRESS_TYPE = LoadBalancing Write "SetIpAddressType";
    SET_SUBNETS = LoadBalancing Write "SetSubnets";
    DESCRIBE_LOAD_BALANCER_ATTRIBUTES = LoadBalancing Read "DescribeLoadBalancerAttributes";
    MODIFY_LOAD_BALANCER_ATTRIBUTES = LoadBalancing Write "ModifyLoadBalancerAttributes";
    DESCRIBE_TARGET_GROUPS = LoadBalancing Read "DescribeTargetGroups";
    CREATE_TARGET_GROUP = LoadBalancing Write "CreateTargetGroup";
    MODIFY_TARGET_GROUP = LoadBalancing Write "ModifyTargetGroup";
    DELETE_TARGET_GROUP = LoadBalancing Write "DeleteTargetGroup";
    DESCRIBE_TARGET_GROUP_ATTRIBUTES = LoadBalancing Read "DescribeTargetGroupAttributes";
    MODIFY_TARGET_GROUP_ATTRIBUTES = LoadBalancing Write "ModifyTargetGroupAttributes";
    DESCRIBE_TARGET_HEALTH = LoadBalancing Read "DescribeTargetHealth";
    REGISTER_TARGETS = LoadBalancing Write "RegisterTargets";
    DEREGISTER_TARGETS = LoadBalancing Write "DeregisterTargets";
    DESCRIBE_LISTENERS = LoadBalancing Read "DescribeListeners";
    CREATE_LISTENER = LoadBalancing Write "CreateListener";
    MODIFY_LISTENER = LoadBalancing Write "ModifyListener";
    DELETE_LISTENER = LoadBalancing Write "DeleteListener";
    DESCRIBE_LISTENER_CERTIFICATES = LoadBalancing Read "DescribeListenerCertificates";
    ADD_LISTENER_CERTIFICATES = LoadBalancing Write "AddListenerCertificates";
    REMOVE_LISTENER_CERTIFICATES = LoadBalancing Write "RemoveListenerCertificates";
    DESCRIBE_TAGS = LoadBalancing Read "DescribeTags";
    ADD_TAGS = LoadBalancing Write "AddTags";
    ATTACH_LOAD_BALANCER_TO_SUBNETS = LoadBalancing Write "AttachLoadBalancerToSubnets";
    DETACH_LOAD_BALANCER_FROM_SUBNETS = LoadBalancing Write "DetachLoadBalancerFromSubnets";
    APPLY_SECURITY_GROUPS = LoadBalancing Write "ApplySecurityGroupsToLoadBalancer";
    CREATE_LISTENERS = LoadBalancing Write "CreateLoadBalancerListeners";
    DELETE_LISTENERS = LoadBalancing Write "DeleteLoadBalancerListeners";
    CONFIGURE_HEALTH_CHECK = LoadBalancing Write "ConfigureHealthCheck";
    REGISTER_INSTANCES = LoadBalancing Write "RegisterInstancesWithLoadBalancer";
    DEREGISTER_INSTANCES = LoadBalancing Write "DeregisterInstancesFromLoadBalancer";
    DESCRIBE_POLICIES = LoadBalancing Read "DescribeLoadBalancerPolicies";
    CREATE_POLICY = LoadBalancing Write "CreateLoadBalancerPolicy";
    SET_BACKEND_POLICIES = LoadBalancing Write "SetLoadBalancerPoliciesForBackendServer";
    SET_LISTENER_POLICIES = LoadBalancing Write "SetLoadBalancerPoliciesOfListener";
    DESCRIBE_SECURITY_GROUPS = Ec2 Read "DescribeSecurityGroups";
    CREATE_SECURITY_GROUP = Ec2 Write "CreateSecurityGroup";
    DELETE_SECURITY_GROUP = Ec2 Write "DeleteSecurityGroup";
    AUTHORIZE_INGRESS = Ec2 Write "AuthorizeSecurityGroupIngress";
    AUTHORIZE_EGRESS = Ec2 Write "AuthorizeSecurityGroupEgress";
    REVOKE_INGRESS = Ec2 Write "RevokeSecurityGroupIngress";
    REVOKE_EGRESS = Ec2 Write "RevokeSecurityGroupEgress";
    DESCRIBE_SUBNETS = Ec2 Read "DescribeSubnets";
    DESCRIBE_ROUTE_TABLES = Ec2 Read "DescribeRouteTables";
    DESCRIBE_AVAILABILITY_ZONES = Ec2 Read "DescribeAvailabilityZones";
    DESCRIBE_INSTANCES = Ec2 Read "DescribeInstances";
    CREATE_ROUTE = Ec2 Write "CreateRoute";
    DELETE_ROUTE = Ec2 Write "DeleteRoute";
    MODIFY_INSTANCE_ATTRIBUTE = Ec2 Write "ModifyInstanceAttribute";
    CREATE_TAGS = Ec2 Write "CreateTags";
    LIST_HOSTED_ZONES = Route53 Read "ListHostedZones";
    LIST_TAGS_FOR_RESOURCES = Route53 Read "ListTagsForResources";
    LIST_RECORD_SETS = Route53 Read "ListResourceRecordSets";
    CHANGE_RECORD_SETS = Route53 Write "ChangeResourceRecordSets";
    ASSUME_ROLE = Sts Read "AssumeRole";
}

/// Needs no permission: the role's trust policy alone decides, and so it is in no policy.
pub(super) const ASSUME_ROLE_WITH_WEB_IDENTITY: Action =
    Action { service: Service::Sts, access: Access::Read, name: "AssumeRoleWithWebIdentity" };

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../../docs/guide/aws-iam.md");

    /// The actions of the nth policy in the document.
    fn documented(nth: usize) -> BTreeSet<String> {
        let policy = DOCUMENT.split("```json\n").nth(nth + 1).expect("a policy");
        let policy = policy.split("```").next().expect("its end");
        let policy: serde_json::Value = serde_json::from_str(policy).expect("JSON");
        let mut actions = BTreeSet::new();
        for statement in policy["Statement"].as_array().expect("statements") {
            assert_eq!(statement["Effect"], "Allow");
            for action in statement["Action"].as_array().expect("actions") {
                // Some are there twice: for what is new, by the tags that it gets, and for what there is, by those that it has.
                actions.insert(action.as_str().expect("a word").to_owned());
            }
        }
        actions
    }

    fn of(services: &[Service]) -> BTreeSet<String> {
        ALL.iter().filter(|action| services.contains(&action.service)).map(Action::iam).collect()
    }

    #[test]
    fn no_call_is_listed_twice() {
        let names: BTreeSet<String> = ALL.iter().map(Action::iam).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn the_documented_policy_of_the_cloud_controller_manager_allows_what_is_called() {
        let mut needed = of(&[Service::Ec2, Service::LoadBalancing]);
        // Made by AWS itself for the first load balancer of an account, in the caller's name.
        needed.insert("iam:CreateServiceLinkedRole".to_owned());
        assert_eq!(documented(0), needed);
    }

    #[test]
    fn every_change_that_the_documented_policy_allows_is_limited() {
        let policy = DOCUMENT.split("```json\n").nth(1).expect("a policy");
        let policy = policy.split("```").next().expect("its end");
        let policy: serde_json::Value = serde_json::from_str(policy).expect("JSON");
        for statement in policy["Statement"].as_array().expect("statements") {
            let actions = statement["Action"].as_array().expect("actions");
            let changes = ALL.iter().filter(|action| action.access == Access::Write);
            let Some(change) = changes.map(Action::iam).find(|name| actions.contains(&serde_json::json!(name))) else {
                continue;
            };
            let condition = statement["Condition"].to_string();
            let by_tag = condition.contains("Tag/kubernetes.io/cluster/CLUSTER");
            let by_id = statement["Resource"].as_str().is_some_and(|resource| resource.ends_with("/VPC"));
            assert!(by_tag || by_id, "{change} is allowed on everything");
        }
    }

    #[test]
    fn the_documented_policy_of_dns_allows_what_is_called() {
        let mut needed = of(&[Service::Route53]);
        needed.insert(DESCRIBE_LOAD_BALANCERS.iam());
        assert_eq!(documented(1), needed);
    }

    #[test]
    fn the_documented_policy_of_a_role_allows_what_is_called() {
        assert_eq!(documented(2), of(&[Service::Sts]));
    }
}
