//! What AWS refuses and moto does not, and what AWS answers otherwise: a file for each kind of thing.
//!
//! Rules ask moto what there is and keep only what moto cannot hold. They see moto's own ARNs; whoever calls sees AWS's.

mod balancers;
mod classic;
mod groups;
mod instances;
mod listeners;
mod records;
mod targets;

use super::{
    call::{Api, Call},
    moto::{Moto, understood},
    refusal::{Answer, Refusal, refused},
    xml::Element,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) use balancers::hosted;
pub(super) use records::{Set, sets_of, zones};

/// moto, and what it cannot hold.
pub(super) struct World {
    pub(super) moto: Moto,
    pub(super) region: String,
    pub(super) kept: Kept,
}

/// What moto cannot hold.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Groups and target groups of what is deleted stay in use for so many attempts.
    pub(super) lingers: u32,
    /// What is still in use, for so many attempts.
    busy: BTreeMap<String, u32>,
    /// Load balancers with `EnablePrefixForIpv6SourceNat`.
    source_nat: BTreeSet<String>,
    /// By load balancer and subnet, the address it was given there: allocation, private IPv4 address.
    addresses: BTreeMap<(String, String), (String, String)>,
    /// Network interfaces with a primary IPv6 address.
    primary_ipv6: BTreeSet<String>,
    /// Listeners that were made anew in moto: their own ARN, and moto's.
    renewed: BTreeMap<String, String>,
    /// What callers call a thing, and what moto calls it.
    pub(super) nicknames: BTreeMap<String, String>,
    /// What callers may do; everything without it.
    pub(super) policy: Option<super::policy::Policy>,
}

impl Kept {
    fn linger(&mut self, ids: impl IntoIterator<Item = String>) {
        let lingers = self.lingers;
        if lingers > 0 {
            self.busy.extend(ids.into_iter().map(|id| (id, lingers)));
        }
    }

    fn is_busy(&mut self, id: &str) -> bool {
        match self.busy.get_mut(id) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => {
                self.busy.remove(id);
                false
            }
        }
    }
}

/// What a rule comes to.
type Outcome<T = Answer> = Result<T, Refusal>;

impl World {
    async fn forward(&self, call: &Call) -> Answer {
        self.moto.send(call).await
    }

    /// Passes a call on and mends a good answer.
    async fn mended(&self, call: &Call, mend: impl FnOnce(&mut Element)) -> Outcome {
        let mut element = understood(self.forward(call).await)?;
        mend(&mut element);
        Ok(Answer::xml(200, element.write()))
    }

    pub(super) async fn ask(&self, api: Api, action: &str, params: &[(&str, &str)]) -> Outcome<Element> {
        self.moto.ask(api, &self.region, action, params).await
    }

    /// Answers a call as AWS would.
    pub(super) async fn answer(&mut self, call: &Call) -> Answer {
        self.region.clone_from(&call.region);
        let call = self.translated(call);
        let outcome = match call.api {
            Api::Elbv2 => self.elbv2(&call).await,
            Api::Elb => self.classic(&call).await,
            Api::Ec2 => self.ec2(&call).await,
            Api::Route53 => self.route53(&call).await,
            Api::Other => Ok(self.forward(&call).await),
        };
        let answer = outcome.unwrap_or_else(|refusal| refusal.answer(call.api));
        if !answer.kind.contains("xml") {
            return answer;
        }
        let mut body = answer.text();
        if call.api == Api::Elbv2 {
            body = outward(&body, &self.kept.renewed);
        }
        for (nickname, own) in &self.kept.nicknames {
            body = body.replace(own, nickname);
        }
        Answer { body: body.into(), ..answer }
    }

    /// A call with moto's names for things.
    fn translated(&self, call: &Call) -> Call {
        let mut call = call.clone();
        for (_, value) in &mut call.params.0 {
            let own = self.kept.nicknames.get(value).cloned();
            *value = inward(&own.unwrap_or_else(|| std::mem::take(value)), &self.kept.renewed);
        }
        call
    }

    /// Which permission a call lacks, in words.
    pub(super) async fn denial(&self, call: &Call) -> Option<String> {
        self.lacks(&self.translated(call)).await
    }

    async fn elbv2(&mut self, call: &Call) -> Outcome {
        match call.action.as_str() {
            "CreateLoadBalancer" => self.create_balancer(call).await,
            "DescribeLoadBalancers" => self.describe_balancers(call).await,
            "DeleteLoadBalancer" => self.delete_balancer(call).await,
            "SetSecurityGroups" => self.set_groups(call).await,
            "SetIpAddressType" => self.set_address_type(call).await,
            "SetSubnets" => self.set_subnets(call).await,
            "DescribeLoadBalancerAttributes" => self.describe_balancer_attributes(call).await,
            "ModifyLoadBalancerAttributes" => self.set_balancer_attributes(call).await,
            "DescribeTargetGroups" => self.describe_target_groups(call).await,
            "CreateTargetGroup" => self.create_target_group(call).await,
            "ModifyTargetGroup" => self.change_target_group(call).await,
            "DeleteTargetGroup" => self.delete_target_group(call).await,
            "DescribeTargetGroupAttributes" => self.describe_target_attributes(call).await,
            "ModifyTargetGroupAttributes" => self.set_target_attributes(call).await,
            "RegisterTargets" => self.register(call).await,
            "DeregisterTargets" => self.deregister(call).await,
            "DescribeListeners" => self.mended(call, listeners::mend("DescribeListenersResult")).await,
            "CreateListener" => self.create_listener(call).await,
            "ModifyListener" => self.change_listener(call).await,
            "AddListenerCertificates" => self.add_certificates(call).await,
            "DescribeTags" => self.describe_tags(call).await,
            "AddTags" => {
                check_tags(&call.params.tags("Tags.member"))?;
                Ok(self.forward(call).await)
            }
            _ => Ok(self.forward(call).await),
        }
    }

    async fn ec2(&mut self, call: &Call) -> Outcome {
        // moto does not know this of every call, and would do what is only to be tried.
        if call.params.get("DryRun") == "true" {
            let message = "Request would have succeeded, but DryRun flag is set.";
            return Err(Refusal::with_status(412, "DryRunOperation", message));
        }
        match call.action.as_str() {
            "CreateSecurityGroup" => self.create_group(call).await,
            "DeleteSecurityGroup" => self.delete_group(call).await,
            "AuthorizeSecurityGroupIngress" | "AuthorizeSecurityGroupEgress" => self.authorize(call).await,
            "RevokeSecurityGroupIngress" | "RevokeSecurityGroupEgress" => self.revoke(call).await,
            "DescribeSubnets" | "CreateSubnet" => self.mended(call, instances::mend_subnets).await,
            "RunInstances" => self.run_instances(call).await,
            "DescribeInstances" => self.describe_instances(call).await,
            "ModifyNetworkInterfaceAttribute" => self.change_interface(call).await,
            "DescribeAddresses" => self.describe_addresses(call).await,
            _ => Ok(self.forward(call).await),
        }
    }

    /// `DescribeTags`: twenty at a time, and only of what is there.
    async fn describe_tags(&mut self, call: &Call) -> Outcome {
        let arns = call.params.list("ResourceArns.member");
        if arns.len() > 20 {
            return Err(refused("ValidationError", format!("at most 20 ARNs, not {}", arns.len())));
        }
        let element = understood(self.forward(call).await)?;
        for one in element.all("DescribeTagsResult/TagDescriptions/member") {
            if one.all("Tags/member").is_empty() {
                self.exists(one.text("ResourceArn")).await?;
            }
        }
        Ok(Answer::xml(200, element.write()))
    }

    async fn exists(&self, arn: &str) -> Outcome<()> {
        let (action, key) = match arn {
            arn if arn.contains(":targetgroup/") => ("DescribeTargetGroups", "TargetGroupArns.member.1"),
            arn if arn.contains(":listener/") => ("DescribeListeners", "ListenerArns.member.1"),
            _ => ("DescribeLoadBalancers", "LoadBalancerArns.member.1"),
        };
        self.ask(Api::Elbv2, action, &[(key, arn)]).await.map(|_| ())
    }
}

/// An ARN as moto knows it.
fn inward(value: &str, renewed: &BTreeMap<String, String>) -> String {
    let value = value.replace(":loadbalancer/net/", ":loadbalancer/app/").replace(":listener/net/", ":listener/app/");
    renewed.get(&value).cloned().unwrap_or(value)
}

/// A body with ARNs as AWS has them.
fn outward(body: &str, renewed: &BTreeMap<String, String>) -> String {
    let mut body = body.to_owned();
    for (own, motos) in renewed {
        body = body.replace(motos, own);
    }
    body.replace(":loadbalancer/app/", ":loadbalancer/net/").replace(":listener/app/", ":listener/net/")
}

fn check_name(name: &str) -> Outcome<()> {
    let fits = !name.is_empty()
        && name.len() <= 32
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.starts_with("internal-");
    if fits { Ok(()) } else { Err(refused("ValidationError", format!("The name '{name}' is not valid"))) }
}

fn check_tags(tags: &BTreeMap<String, String>) -> Outcome<()> {
    if tags.len() > 50 {
        return Err(refused("TooManyTags", "at most 50 tags"));
    }
    match tags.keys().find(|key| key.starts_with("aws:")) {
        Some(key) => Err(refused("ValidationError", format!("Tag keys starting with 'aws:' are reserved: {key}"))),
        None => Ok(()),
    }
}

fn set(values: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    values.into_iter().collect()
}

/// An answer without content, as ELB gives it.
fn done(action: &str) -> Answer {
    Answer::xml(
        200,
        format!(
            "<{action}Response><{action}Result/><ResponseMetadata><RequestId>strict</RequestId></ResponseMetadata></{action}Response>"
        ),
    )
}
