//! Classic load balancers, through the SDK.

mod attributes;
mod policies;
mod read;

use super::{OpenError, Session, actions, caller::Caller, paging::Marker};
use crate::account::{
    AwsError, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, NewClassicLoadBalancer, Scheme, Tags,
};
use aws_sdk_elasticloadbalancing::{
    Client, config, error::BuildError, operation::describe_tags::DescribeTagsOutput, types as sdk,
};
use std::collections::{BTreeMap, BTreeSet};

/// Load balancers whose tags one call tells.
const NAMES: usize = 20;

/// The API of 2012-06-01 of one region.
#[derive(Clone, Debug)]
pub(super) struct Classic {
    client: Client,
    caller: Caller,
}

impl Classic {
    pub(super) fn new(session: &Session) -> Result<Self, OpenError> {
        let sdk = session.sdk("Elastic Load Balancing", "elasticloadbalancing")?;
        let client = Client::from_conf(config::Builder::from(&sdk).build());
        Ok(Self { client, caller: session.caller().clone() })
    }

    pub(super) async fn describe(&self, name: Option<&str>) -> Result<Vec<ClassicLoadBalancer>, AwsError> {
        let names = name.map(|name| vec![name.to_owned()]);
        let request = self.client.describe_load_balancers().set_load_balancer_names(names);
        let (mut all, mut marker) = (Vec::new(), Marker::default());
        loop {
            let send = || request.clone().set_marker(marker.current()).send();
            let page = match self.caller.sdk(actions::DESCRIBE_LOAD_BALANCERS, send).await {
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                outcome => outcome?,
            };
            all.extend(page.load_balancer_descriptions.into_iter().flatten().map(read::load_balancer));
            if !marker.advance(page.next_marker)? {
                return Ok(all);
            }
        }
    }

    pub(super) async fn create(&self, new: &NewClassicLoadBalancer) -> Result<String, AwsError> {
        let NewClassicLoadBalancer { name, scheme, listeners, subnets, security_groups, tags } = new;
        let scheme = match scheme {
            Scheme::InternetFacing => None,
            Scheme::Internal => Some("internal".to_owned()),
        };
        let request = self
            .client
            .create_load_balancer()
            .load_balancer_name(name)
            .set_scheme(scheme)
            .set_listeners(Some(to_listeners(listeners)?))
            .set_subnets(list(subnets))
            .set_security_groups(list(security_groups))
            .set_tags(to_tags(tags)?);
        let answer = self.caller.sdk(actions::CREATE_LOAD_BALANCER, || request.clone().send()).await?;
        Ok(answer.dns_name.unwrap_or_default())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), AwsError> {
        let request = self.client.delete_load_balancer().load_balancer_name(name);
        match self.caller.sdk(actions::DELETE_LOAD_BALANCER, || request.clone().send()).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    pub(super) async fn attach_subnets(&self, name: &str, subnets: &BTreeSet<String>) -> Result<(), AwsError> {
        let request = self.client.attach_load_balancer_to_subnets().load_balancer_name(name).set_subnets(list(subnets));
        self.caller.sdk(actions::ATTACH_LOAD_BALANCER_TO_SUBNETS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn detach_subnets(&self, name: &str, subnets: &BTreeSet<String>) -> Result<(), AwsError> {
        let request =
            self.client.detach_load_balancer_from_subnets().load_balancer_name(name).set_subnets(list(subnets));
        self.caller.sdk(actions::DETACH_LOAD_BALANCER_FROM_SUBNETS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn apply_groups(&self, name: &str, groups: &BTreeSet<String>) -> Result<(), AwsError> {
        let request = self
            .client
            .apply_security_groups_to_load_balancer()
            .load_balancer_name(name)
            .set_security_groups(list(groups));
        self.caller.sdk(actions::APPLY_SECURITY_GROUPS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn create_listeners(&self, name: &str, listeners: &[ClassicListener]) -> Result<(), AwsError> {
        let listeners = to_listeners(listeners)?;
        let request =
            self.client.create_load_balancer_listeners().load_balancer_name(name).set_listeners(Some(listeners));
        self.caller.sdk(actions::CREATE_LISTENERS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn delete_listeners(&self, name: &str, ports: &BTreeSet<u16>) -> Result<(), AwsError> {
        let ports = ports.iter().map(|port| i32::from(*port)).collect();
        let request =
            self.client.delete_load_balancer_listeners().load_balancer_name(name).set_load_balancer_ports(Some(ports));
        self.caller.sdk(actions::DELETE_LISTENERS, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn configure_health_check(&self, name: &str, check: &ClassicHealthCheck) -> Result<(), AwsError> {
        let check = sdk::HealthCheck::builder()
            .target(&check.target)
            .interval(check.interval)
            .timeout(check.timeout)
            .healthy_threshold(check.healthy)
            .unhealthy_threshold(check.unhealthy)
            .build();
        let check = check.map_err(unfinished)?;
        let request = self.client.configure_health_check().load_balancer_name(name).health_check(check);
        self.caller.sdk(actions::CONFIGURE_HEALTH_CHECK, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn register(&self, name: &str, instances: &BTreeSet<String>) -> Result<(), AwsError> {
        let request = self
            .client
            .register_instances_with_load_balancer()
            .load_balancer_name(name)
            .set_instances(Some(to_instances(instances)));
        self.caller.sdk(actions::REGISTER_INSTANCES, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn deregister(&self, name: &str, instances: &BTreeSet<String>) -> Result<(), AwsError> {
        let request = self
            .client
            .deregister_instances_from_load_balancer()
            .load_balancer_name(name)
            .set_instances(Some(to_instances(instances)));
        self.caller.sdk(actions::DEREGISTER_INSTANCES, || request.clone().send()).await.map(drop)
    }

    pub(super) async fn describe_tags(&self, names: &[String]) -> Result<BTreeMap<String, Tags>, AwsError> {
        let mut all = BTreeMap::new();
        for some in names.chunks(NAMES) {
            match self.tags_of(some).await {
                // One that has gone makes AWS refuse all.
                Err(error) if error.is_not_found() => {
                    for one in some {
                        match self.tags_of(std::slice::from_ref(one)).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => all.extend(read::tags(outcome?)),
                        }
                    }
                }
                outcome => all.extend(read::tags(outcome?)),
            }
        }
        Ok(all)
    }

    async fn tags_of(&self, names: &[String]) -> Result<DescribeTagsOutput, AwsError> {
        let request = self.client.describe_tags().set_load_balancer_names(Some(names.to_vec()));
        self.caller.sdk(actions::DESCRIBE_TAGS, || request.clone().send()).await
    }

    pub(super) async fn add_tags(&self, name: &str, tags: &Tags) -> Result<(), AwsError> {
        let Some(tags) = to_tags(tags)? else { return Ok(()) };
        let request = self.client.add_tags().load_balancer_names(name).set_tags(Some(tags));
        self.caller.sdk(actions::ADD_TAGS, || request.clone().send()).await.map(drop)
    }
}

fn list(values: &BTreeSet<String>) -> Option<Vec<String>> {
    Some(values.iter().cloned().collect())
}

fn to_instances(ids: &BTreeSet<String>) -> Vec<sdk::Instance> {
    ids.iter().map(|id| sdk::Instance::builder().instance_id(id).build()).collect()
}

fn to_tags(tags: &Tags) -> Result<Option<Vec<sdk::Tag>>, AwsError> {
    let one = |(key, value): (&String, &String)| sdk::Tag::builder().key(key).value(value).build().map_err(unfinished);
    let all: Vec<sdk::Tag> = tags.iter().map(one).collect::<Result<_, _>>()?;
    Ok(Some(all).filter(|all| !all.is_empty()))
}

fn to_listeners(listeners: &[ClassicListener]) -> Result<Vec<sdk::Listener>, AwsError> {
    let one = |listener: &ClassicListener| {
        sdk::Listener::builder()
            .load_balancer_port(listener.load_balancer_port.into())
            .protocol(&listener.protocol)
            .instance_port(listener.instance_port.into())
            .instance_protocol(&listener.instance_protocol)
            .set_ssl_certificate_id(listener.certificate.clone())
            .build()
            .map_err(unfinished)
    };
    listeners.iter().map(one).collect()
}

/// The SDK misses a field: it cannot happen with what is set here, and is no reason to panic.
fn unfinished(error: BuildError) -> AwsError {
    AwsError::Invalid { code: "IncompleteRequest".to_owned(), message: error.to_string() }
}
