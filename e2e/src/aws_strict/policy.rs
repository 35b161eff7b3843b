//! The documented policy (`docs/guide/aws-iam.md`), evaluated as IAM does it as far as the document goes: actions, resources by their kind, and
//! `StringEquals` on the tags of a request, on those of what it changes, and on what it creates.

use super::{
    call::{Api, Call},
    rules::World,
};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../docs/guide/aws-iam.md");

/// What a role may do.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    statements: Vec<Statement>,
}

#[derive(Clone, Debug)]
struct Statement {
    actions: BTreeSet<String>,
    resource: String,
    /// All must be met, each by one of its values.
    conditions: Vec<(String, Vec<String>)>,
}

/// One thing that is asked of IAM for a call; a call may need several.
#[derive(Debug)]
struct Question {
    action: String,
    /// The end of its ARN: `vpc/vpc-1`.
    resource: String,
    context: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentedPolicy {
    /// The first one.
    CloudControllerManager,
    /// The second: records of DNS.
    IngressOperator,
}

/// The actions that it allows.
pub fn documented_actions(policy: DocumentedPolicy) -> BTreeSet<String> {
    Policy::documented(policy, "", "").statements.into_iter().flat_map(|statement| statement.actions).collect()
}

fn words(value: &serde_json::Value) -> Vec<String> {
    let one = value.as_str().map(str::to_owned);
    let many = value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned));
    one.into_iter().chain(many).collect()
}

impl Policy {
    pub(super) fn documented(policy: DocumentedPolicy, cluster: &str, vpc: &str) -> Self {
        let nth = match policy {
            DocumentedPolicy::CloudControllerManager => 1,
            DocumentedPolicy::IngressOperator => 2,
        };
        let text = DOCUMENT.split("```json\n").nth(nth).and_then(|rest| rest.split("```").next()).expect("a policy");
        let text =
            text.replace("cluster/CLUSTER", &format!("cluster/{cluster}")).replace("vpc/VPC", &format!("vpc/{vpc}"));
        let policy: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let statement = |statement: &serde_json::Value| {
            let conditions = statement["Condition"].as_object().into_iter().flatten().flat_map(|(operator, all)| {
                assert_eq!(operator, "StringEquals", "no other is evaluated here");
                all.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), words(value)))
            });
            Statement {
                actions: words(&statement["Action"]).into_iter().collect(),
                resource: statement["Resource"].as_str().expect("a resource").to_owned(),
                conditions: conditions.collect(),
            }
        };
        Self { statements: policy["Statement"].as_array().expect("statements").iter().map(statement).collect() }
    }

    fn allows(&self, question: &Question) -> bool {
        self.statements.iter().any(|statement| {
            let on = match statement.resource.rsplit_once(':').map_or("*", |(_, on)| on) {
                "*" => true,
                on => match on.strip_suffix('*') {
                    Some(kind) => question.resource.starts_with(kind),
                    None => question.resource == on,
                },
            };
            let met = |(key, values): &(String, Vec<String>)| {
                question.context.get(key).is_some_and(|has| values.contains(has))
            };
            on && statement.actions.contains(&question.action) && statement.conditions.iter().all(met)
        })
    }
}

impl World {
    /// The first permission that a call lacks, if the documented policy holds.
    pub(super) async fn lacks(&self, call: &Call) -> Option<String> {
        let policy = self.kept.policy.clone()?;
        let questions = self.questions(call).await;
        let denied = questions.into_iter().find(|question| !policy.allows(question))?;
        Some(format!("{} on {:?} with {:?}", denied.action, denied.resource, denied.context))
    }

    async fn questions(&self, call: &Call) -> Vec<Question> {
        let (_, scope) = call.api.version_and_scope();
        let action = format!("{scope}:{}", call.action);
        let given = ["TagSpecification.1.Tag", "Tags.member", "Tag"].map(|prefix| call.params.tags(prefix));
        let requested: BTreeMap<String, String> =
            given.into_iter().flatten().map(|(key, value)| (format!("aws:RequestTag/{key}"), value)).collect();
        let with =
            |more: BTreeMap<String, String>| requested.clone().into_iter().chain(more).collect::<BTreeMap<_, _>>();
        let mut questions = Vec::new();
        for (kind, id) in existing(call) {
            let resource = format!("{kind}/{id}");
            // What is gone is not found, whoever asks.
            let Some(tags) = self.resource_tags(call.api, &id).await else { continue };
            let tags = tags.into_iter().map(|(key, value)| (format!("aws:ResourceTag/{key}"), value)).collect();
            questions.push(Question { action: action.clone(), resource, context: with(tags) });
        }
        let creates = match (call.api, call.action.as_str()) {
            (Api::Ec2, "CreateSecurityGroup") => Some("security-group/new"),
            (Api::Elbv2 | Api::Elb, "CreateLoadBalancer") => Some("loadbalancer/new"),
            (Api::Elbv2, "CreateTargetGroup") => Some("targetgroup/new"),
            (Api::Elbv2, "CreateListener") => Some("listener/new"),
            _ => None,
        };
        if let Some(resource) = creates {
            // The listener itself is no resource of the call that makes it; its load balancer is.
            if call.action != "CreateListener" {
                questions.push(Question { action, resource: resource.to_owned(), context: requested.clone() });
            }
            if !requested.is_empty() {
                let tag = if call.api == Api::Ec2 { "CreateTags" } else { "AddTags" };
                let by = BTreeMap::from([(format!("{scope}:CreateAction"), call.action.clone())]);
                let action = format!("{scope}:{tag}");
                questions.push(Question { action, resource: resource.to_owned(), context: with(by) });
            }
        } else if questions.is_empty() && !call.is_write() {
            questions.push(Question { action, resource: String::new(), context: BTreeMap::new() });
        }
        questions
    }

    async fn resource_tags(&self, api: Api, id: &str) -> Option<Vec<(String, String)>> {
        let (params, path, names) = match api {
            Api::Ec2 => {
                (vec![("Filter.1.Name", "resource-id"), ("Filter.1.Value.1", id)], "tagSet/item", ["key", "value"])
            }
            Api::Elbv2 => (
                vec![("ResourceArns.member.1", id)],
                "DescribeTagsResult/TagDescriptions/member/Tags/member",
                ["Key", "Value"],
            ),
            _ => (
                vec![("LoadBalancerNames.member.1", id)],
                "DescribeTagsResult/TagDescriptions/member/Tags/member",
                ["Key", "Value"],
            ),
        };
        let answer = self.ask(api, "DescribeTags", &params).await.ok()?;
        Some(
            answer.all(path).iter().map(|tag| (tag.text(names[0]).to_owned(), tag.text(names[1]).to_owned())).collect(),
        )
    }
}

/// The things that a change names and IAM asks about, with their kinds.
fn existing(call: &Call) -> Vec<(&'static str, String)> {
    if !call.is_write() {
        return Vec::new();
    }
    let one = |kind: &'static str, key: &str| {
        let id = call.params.get(key).to_owned();
        if id.is_empty() { Vec::new() } else { vec![(kind, id)] }
    };
    let list =
        |kind: &'static str, key: &str| call.params.list(key).into_iter().map(|id| (kind, id)).collect::<Vec<_>>();
    match (call.api, call.action.as_str()) {
        (Api::Ec2, "CreateSecurityGroup") => one("vpc", "VpcId"),
        (Api::Ec2, "CreateTags") => list("security-group", "ResourceId"),
        (Api::Ec2, "CreateRoute" | "DeleteRoute") => one("route-table", "RouteTableId"),
        (Api::Ec2, "ModifyInstanceAttribute") => one("instance", "InstanceId"),
        (Api::Ec2, _) => one("security-group", "GroupId"),
        (Api::Elbv2, "CreateTargetGroup" | "CreateLoadBalancer") | (Api::Elb, "CreateLoadBalancer") => Vec::new(),
        (Api::Elbv2, "AddTags") => list("loadbalancer", "ResourceArns.member"),
        (Api::Elbv2, _) => ["ListenerArn", "TargetGroupArn", "LoadBalancerArn"]
            .into_iter()
            .find_map(|key| Some(one("loadbalancer", key)).filter(|found| !found.is_empty()))
            .unwrap_or_default(),
        (Api::Elb, "AddTags") => list("loadbalancer", "LoadBalancerNames.member"),
        (Api::Elb, _) => one("loadbalancer", "LoadBalancerName"),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_the_cluster_change_what_is_its_own() {
        let policy = Policy::documented(DocumentedPolicy::CloudControllerManager, "blue", "vpc-1");
        let question = |action: &str, resource: &str, context: &[(&str, &str)]| Question {
            action: action.to_owned(),
            resource: resource.to_owned(),
            context: context.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        let (own, new) = ("aws:ResourceTag/kubernetes.io/cluster/blue", "aws:RequestTag/kubernetes.io/cluster/blue");
        let other = "aws:ResourceTag/kubernetes.io/cluster/red";
        for (action, resource, context, expected) in [
            ("ec2:DescribeSubnets", "", vec![], true),
            ("ec2:CreateRoute", "route-table/rtb-1", vec![(own, "owned")], true),
            ("ec2:CreateRoute", "route-table/rtb-1", vec![(own, "shared")], true),
            ("ec2:CreateRoute", "route-table/rtb-1", vec![(other, "owned")], false),
            ("ec2:CreateRoute", "route-table/rtb-1", vec![], false),
            ("ec2:ModifyInstanceAttribute", "instance/i-1", vec![], false),
            ("ec2:DeleteSecurityGroup", "security-group/sg-1", vec![(own, "shared")], false),
            ("ec2:CreateSecurityGroup", "vpc/vpc-1", vec![], true),
            ("ec2:CreateSecurityGroup", "vpc/vpc-2", vec![], false),
            ("ec2:CreateSecurityGroup", "security-group/new", vec![], false),
            ("ec2:CreateSecurityGroup", "security-group/new", vec![(new, "owned")], true),
            ("ec2:CreateTags", "security-group/sg-1", vec![(new, "owned")], false),
            (
                "ec2:CreateTags",
                "security-group/sg-1",
                vec![(new, "owned"), ("ec2:CreateAction", "CreateSecurityGroup")],
                true,
            ),
            ("elasticloadbalancing:DeleteLoadBalancer", "loadbalancer/x", vec![], false),
            ("elasticloadbalancing:DeleteLoadBalancer", "loadbalancer/x", vec![(own, "owned")], true),
            ("ec2:TerminateInstances", "instance/i-1", vec![(own, "owned")], false),
        ] {
            assert_eq!(
                policy.allows(&question(action, resource, &context)),
                expected,
                "{action} {resource} {context:?}"
            );
        }
    }
}
