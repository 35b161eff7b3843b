//! EC2: security groups, networks, instances and routes; the API of 2016-11-15.

mod groups;
mod instances;
mod network;
#[cfg(test)]
mod tests;
mod trial;

use super::{
    actions,
    query::{Form, Query},
    xml::Element,
};
use crate::account::{
    AvailabilityZone, AwsError, Call, Direction, Ec2, GroupFilter, Instance, InstanceFilter, Kind, NewSecurityGroup,
    RouteTable, RouteTarget, Rule, SecurityGroup, Subnet, SubnetFilter, Tags, Trial,
};
use net::{Cidr, parse_ip};
use std::collections::BTreeSet;

/// Values that one filter takes.
const FILTER_VALUES: usize = 200;
/// Members of a page.
const PAGE: &str = "1000";

/// A client of one region.
#[derive(Clone, Debug)]
pub(super) struct Ec2Client {
    pub(super) query: Query,
}

impl Ec2 for Ec2Client {
    fn describe_security_groups<'a>(&'a self, filter: &'a GroupFilter) -> Call<'a, Vec<SecurityGroup>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for ids in batches(&filter.ids) {
                let mut filters = Filters::default();
                filters.add("vpc-id", &one(filter.vpc.as_ref()));
                filters.add("group-name", &one(filter.name.as_ref()));
                filters.add("group-id", &ids);
                let form = filters.paged();
                all.extend(
                    self.query
                        .list(actions::DESCRIBE_SECURITY_GROUPS, form, "securityGroupInfo", groups::group)
                        .await?,
                );
            }
            Ok(all)
        })
    }

    fn create_security_group<'a>(&'a self, new: &'a NewSecurityGroup) -> Call<'a, String> {
        Box::pin(async move {
            let answer = self.query.ask(actions::CREATE_SECURITY_GROUP, &groups::new_form(new)).await?;
            Ok(answer.text(&["groupId"]).to_owned())
        })
    }

    fn delete_security_group<'a>(&'a self, id: &'a str) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::DELETE_SECURITY_GROUP, groups::rules_form(id, &BTreeSet::new())))
    }

    fn authorize<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        Box::pin(self.query.change(groups::authorize_action(direction), groups::rules_form(group, rules)))
    }

    fn revoke<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        Box::pin(async move {
            let form = groups::rules_form(group, rules);
            let answer = self.query.ask(groups::revoke_action(direction), &form).await?;
            match groups::rules_of(&answer, "unknownIpPermissionSet").into_iter().next() {
                Some(rule) => Err(AwsError::NotFound { kind: Kind::Rule, message: rule.to_string() }),
                None => Ok(()),
            }
        })
    }

    fn describe_subnets<'a>(&'a self, filter: &'a SubnetFilter) -> Call<'a, Vec<Subnet>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for ids in batches(&filter.ids) {
                let mut filters = Filters::default();
                filters.add("vpc-id", &one(filter.vpc.as_ref()));
                filters.add("subnet-id", &ids);
                all.extend(
                    self.query.list(actions::DESCRIBE_SUBNETS, filters.paged(), "subnetSet", network::subnet).await?,
                );
            }
            Ok(all)
        })
    }

    fn describe_route_tables<'a>(&'a self, vpc: &'a str) -> Call<'a, Vec<RouteTable>> {
        let mut filters = Filters::default();
        filters.add("vpc-id", &[vpc.to_owned()]);
        let mut form = filters.form;
        // This call takes no larger page.
        form.set("MaxResults", "100");
        Box::pin(self.query.list(actions::DESCRIBE_ROUTE_TABLES, form, "routeTableSet", network::route_table))
    }

    fn describe_availability_zones(&self) -> Call<'_, Vec<AvailabilityZone>> {
        Box::pin(async move {
            let answer = self.query.ask(actions::DESCRIBE_AVAILABILITY_ZONES, &Form::default()).await?;
            Ok(answer.items("availabilityZoneInfo").map(network::zone).collect())
        })
    }

    fn describe_instances<'a>(&'a self, filter: &'a InstanceFilter) -> Call<'a, Vec<Instance>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for ids in batches(&filter.ids) {
                for names in batches(&filter.private_dns) {
                    let mut filters = Filters::default();
                    filters.add("instance-id", &ids);
                    filters.add("vpc-id", &one(filter.vpc.as_ref()));
                    filters.add("tag-key", &one(filter.tag_key.as_ref()));
                    filters.add("private-dns-name", &names);
                    let read = |page: &Element| {
                        let reservations = page.items("reservationSet");
                        all.extend(reservations.flat_map(|one| one.items("instancesSet")).map(instances::instance));
                    };
                    self.query.pages(actions::DESCRIBE_INSTANCES, &filters.paged(), read).await?;
                }
            }
            Ok(all)
        })
    }

    fn create_route<'a>(&'a self, table: &'a str, to: Cidr, via: &'a RouteTarget) -> Call<'a, ()> {
        Box::pin(
            async move { self.query.change(actions::CREATE_ROUTE, network::new_route_form(table, to, via)?).await },
        )
    }

    fn delete_route<'a>(&'a self, table: &'a str, to: Cidr) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::DELETE_ROUTE, network::route_form(table, to)))
    }

    fn set_source_dest_check<'a>(&'a self, instance: &'a str, check: bool) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::MODIFY_INSTANCE_ATTRIBUTE, check_form(instance, check)))
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(async move {
            if ids.is_empty() || tags.is_empty() {
                return Ok(());
            }
            self.query.change(actions::CREATE_TAGS, tags_form(ids, tags)).await
        })
    }

    fn try_out<'a>(&'a self, trial: Trial<'a>) -> Call<'a, ()> {
        Box::pin(async move {
            let (action, form) = trial::call(trial)?;
            match self.query.change(action, form).await {
                Err(AwsError::Invalid { code, .. }) if code == trial::PERMITTED => Ok(()),
                outcome => outcome,
            }
        })
    }
}

fn check_form(instance: &str, check: bool) -> Form {
    let mut form = Form::default();
    form.set("InstanceId", instance);
    form.set("SourceDestCheck.Value", check.to_string());
    form
}

fn tags_form(ids: &[String], tags: &Tags) -> Form {
    let mut form = Form::default();
    form.list("ResourceId", ids);
    form.tags("Tag", tags);
    form
}

/// Filters of a call: all must be met, each by one of its values. One without values is left out.
#[derive(Clone, Debug, Default)]
struct Filters {
    form: Form,
    count: usize,
}

impl Filters {
    fn add(&mut self, name: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.count += 1;
        let prefix = format!("Filter.{}", self.count);
        self.form.set(format!("{prefix}.Name"), name);
        self.form.list(&format!("{prefix}.Value"), values);
    }

    fn paged(mut self) -> Form {
        self.form.set("MaxResults", PAGE);
        self.form
    }
}

/// Groups that a filter takes; no values at all are one group.
fn batches(values: &BTreeSet<String>) -> Vec<Vec<String>> {
    let all: Vec<String> = values.iter().cloned().collect();
    if all.is_empty() { vec![Vec::new()] } else { all.chunks(FILTER_VALUES).map(<[String]>::to_vec).collect() }
}

fn one(value: Option<&String>) -> Vec<String> {
    value.cloned().into_iter().collect()
}

fn tags(element: &Element) -> Tags {
    let pairs = element.items("tagSet").map(|item| (item.text(&["key"]).to_owned(), item.text(&["value"]).to_owned()));
    pairs.collect()
}

/// A block as AWS tells it. Bits below the prefix are tolerated: others may have written them.
fn cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    Cidr::containing(parse_ip(address).ok()?, prefix.parse().ok()?)
}
