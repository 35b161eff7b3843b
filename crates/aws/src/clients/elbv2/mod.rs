//! Network load balancers, through the SDK.

mod certificates;
mod listeners;
mod tags;
mod target_groups;

use super::{OpenError, Session, actions, caller::Caller, paging::Marker};
use crate::account::{
    Attributes, AwsError, IpAddressType, LoadBalancer, LoadBalancerState, LoadBalancerType, NewLoadBalancer, Scheme,
    SubnetMapping, Tags,
};
use aws_sdk_elasticloadbalancingv2::{Client, config, types as sdk};
use std::collections::BTreeSet;

/// ELBv2 of one region.
#[derive(Clone, Debug)]
pub(super) struct Elbv2 {
    client: Client,
    caller: Caller,
}

impl Elbv2 {
    pub(super) fn new(session: &Session) -> Result<Self, OpenError> {
        let sdk = session.sdk("Elastic Load Balancing v2", "elasticloadbalancing")?;
        let client = Client::from_conf(config::Builder::from(&sdk).build());
        Ok(Self { client, caller: session.caller().clone() })
    }

    pub(super) async fn describe_load_balancers(&self, name: Option<&str>) -> Result<Vec<LoadBalancer>, AwsError> {
        let request = self.client.describe_load_balancers().set_names(name.map(|name| vec![name.to_owned()]));
        let (mut all, mut marker) = (Vec::new(), Marker::default());
        loop {
            let send = || request.clone().set_marker(marker.current()).send();
            let page = match self.caller.sdk(actions::DESCRIBE_LOAD_BALANCERS, send).await {
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                outcome => outcome?,
            };
            all.extend(page.load_balancers.into_iter().flatten().map(load_balancer));
            if !marker.advance(page.next_marker)? {
                return Ok(all);
            }
        }
    }

    pub(super) async fn create_load_balancer(&self, new: &NewLoadBalancer) -> Result<LoadBalancer, AwsError> {
        let NewLoadBalancer { name, scheme, ip_address_type, subnets, security_groups, ipv6_source_nat, tags } = new;
        let request = self
            .client
            .create_load_balancer()
            .name(name)
            .r#type(sdk::LoadBalancerTypeEnum::Network)
            .scheme(match scheme {
                Scheme::InternetFacing => sdk::LoadBalancerSchemeEnum::InternetFacing,
                Scheme::Internal => sdk::LoadBalancerSchemeEnum::Internal,
            })
            .ip_address_type(to_address_type(*ip_address_type))
            .set_subnet_mappings(Some(subnets.iter().map(to_mapping).collect()))
            .set_security_groups(some(security_groups))
            .set_enable_prefix_for_ipv6_source_nat(source_nat(*ipv6_source_nat))
            .set_tags(to_tags(tags));
        let answer = self.caller.sdk(actions::CREATE_LOAD_BALANCER, || request.clone().send()).await?;
        let made = answer.load_balancers.into_iter().flatten().next();
        made.map(load_balancer).ok_or_else(|| missing("CreateLoadBalancer"))
    }

    pub(super) async fn delete_load_balancer(&self, arn: &str) -> Result<(), AwsError> {
        let request = self.client.delete_load_balancer().load_balancer_arn(arn);
        gone(self.caller.sdk(actions::DELETE_LOAD_BALANCER, || request.clone().send()).await)
    }

    pub(super) async fn set_security_groups(&self, arn: &str, groups: &BTreeSet<String>) -> Result<(), AwsError> {
        let groups = groups.iter().cloned().collect();
        let request = self.client.set_security_groups().load_balancer_arn(arn).set_security_groups(Some(groups));
        self.caller.sdk(actions::SET_SECURITY_GROUPS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn set_ip_address_type(&self, arn: &str, kind: IpAddressType) -> Result<(), AwsError> {
        let kind = to_address_type(kind);
        let request = self.client.set_ip_address_type().load_balancer_arn(arn).ip_address_type(kind);
        self.caller.sdk(actions::SET_IP_ADDRESS_TYPE, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn set_subnets(
        &self,
        arn: &str,
        subnets: &[SubnetMapping],
        ipv6_source_nat: bool,
    ) -> Result<(), AwsError> {
        let request = self
            .client
            .set_subnets()
            .load_balancer_arn(arn)
            .set_subnet_mappings(Some(subnets.iter().map(to_mapping).collect()))
            .set_enable_prefix_for_ipv6_source_nat(source_nat(ipv6_source_nat));
        self.caller.sdk(actions::SET_SUBNETS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn describe_load_balancer_attributes(&self, arn: &str) -> Result<Attributes, AwsError> {
        let request = self.client.describe_load_balancer_attributes().load_balancer_arn(arn);
        let answer = self.caller.sdk(actions::DESCRIBE_LOAD_BALANCER_ATTRIBUTES, || request.clone().send()).await?;
        let all = answer.attributes.into_iter().flatten();
        Ok(all.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    pub(super) async fn modify_load_balancer_attributes(&self, arn: &str, set: &Attributes) -> Result<(), AwsError> {
        let attribute =
            |(key, value): (&String, &String)| sdk::LoadBalancerAttribute::builder().key(key).value(value).build();
        let request = self
            .client
            .modify_load_balancer_attributes()
            .load_balancer_arn(arn)
            .set_attributes(Some(set.iter().map(attribute).collect()));
        self.caller.sdk(actions::MODIFY_LOAD_BALANCER_ATTRIBUTES, || request.clone().send()).await.map(drop)
    }
}

fn load_balancer(from: sdk::LoadBalancer) -> LoadBalancer {
    LoadBalancer {
        kind: match from.r#type {
            Some(sdk::LoadBalancerTypeEnum::Network) => LoadBalancerType::Network,
            _ => LoadBalancerType::Other,
        },
        scheme: match from.scheme {
            Some(sdk::LoadBalancerSchemeEnum::Internal) => Scheme::Internal,
            _ => Scheme::InternetFacing,
        },
        ip_address_type: match from.ip_address_type {
            None | Some(sdk::IpAddressType::Ipv4) => IpAddressType::Ipv4,
            Some(_) => IpAddressType::Dualstack,
        },
        state: match from.state.and_then(|state| state.code) {
            Some(sdk::LoadBalancerStateEnum::Active) => LoadBalancerState::Active,
            Some(sdk::LoadBalancerStateEnum::ActiveImpaired) => LoadBalancerState::ActiveImpaired,
            Some(sdk::LoadBalancerStateEnum::Failed) => LoadBalancerState::Failed,
            _ => LoadBalancerState::Provisioning,
        },
        arn: from.load_balancer_arn.unwrap_or_default(),
        name: from.load_balancer_name.unwrap_or_default(),
        dns_name: from.dns_name.unwrap_or_default(),
        hosted_zone: from.canonical_hosted_zone_id.unwrap_or_default(),
        vpc: from.vpc_id.unwrap_or_default(),
        subnets: from.availability_zones.into_iter().flatten().filter_map(|zone| zone.subnet_id).collect(),
        security_groups: from.security_groups.into_iter().flatten().collect(),
        ipv6_source_nat: from
            .enable_prefix_for_ipv6_source_nat
            .map(|value| value == sdk::EnablePrefixForIpv6SourceNatEnum::On),
    }
}

fn to_address_type(kind: IpAddressType) -> sdk::IpAddressType {
    match kind {
        IpAddressType::Ipv4 => sdk::IpAddressType::Ipv4,
        IpAddressType::Dualstack => sdk::IpAddressType::Dualstack,
    }
}

fn to_mapping(mapping: &SubnetMapping) -> sdk::SubnetMapping {
    sdk::SubnetMapping::builder()
        .subnet_id(&mapping.subnet)
        .set_allocation_id(mapping.allocation.clone())
        .set_private_ipv4_address(mapping.private_ipv4.clone())
        .build()
}

fn source_nat(wanted: bool) -> Option<sdk::EnablePrefixForIpv6SourceNatEnum> {
    wanted.then_some(sdk::EnablePrefixForIpv6SourceNatEnum::On)
}

fn to_tags(tags: &Tags) -> Option<Vec<sdk::Tag>> {
    let all: Vec<sdk::Tag> =
        tags.iter().map(|(key, value)| sdk::Tag::builder().key(key).value(value).build()).collect();
    Some(all).filter(|all| !all.is_empty())
}

/// A list, or nothing when it is empty: AWS takes an empty list for a mistake.
fn some(values: &BTreeSet<String>) -> Option<Vec<String>> {
    Some(values.iter().cloned().collect::<Vec<_>>()).filter(|values| !values.is_empty())
}

fn missing(call: &str) -> AwsError {
    let message = format!("{call} answered without what it made");
    AwsError::Other { code: "EmptyAnswer".to_owned(), message, request_id: String::new() }
}

/// Whether something is gone: deleted now, or not there.
fn gone<T>(outcome: Result<T, AwsError>) -> Result<(), AwsError> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}
