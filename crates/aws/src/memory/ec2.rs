//! Subnets, instances and routes.

use super::{State, invalid, not_found};
use crate::account::{AwsError, Instance, InstanceFilter, Kind, RouteEntry, RouteTarget, Subnet, SubnetFilter, Tags};
use net::Cidr;

type Outcome<T> = Result<T, AwsError>;

impl State {
    pub(super) fn find_subnets(&self, filter: &SubnetFilter) -> Vec<Subnet> {
        let fits = |subnet: &&Subnet| {
            filter.vpc.as_ref().is_none_or(|vpc| *vpc == subnet.vpc)
                && (filter.ids.is_empty() || filter.ids.contains(&subnet.id))
        };
        self.subnets.iter().filter(fits).cloned().collect()
    }

    pub(super) fn find_instances(&self, filter: &InstanceFilter) -> Vec<Instance> {
        let fits = |instance: &&Instance| {
            filter.vpc.as_ref().is_none_or(|vpc| *vpc == instance.vpc)
                && (filter.ids.is_empty() || filter.ids.contains(&instance.id))
                && filter.tag_key.as_ref().is_none_or(|key| instance.tags.contains_key(key))
                && (filter.private_dns.is_empty() || filter.private_dns.contains(&instance.private_dns))
        };
        self.instances.values().filter(fits).cloned().collect()
    }

    pub(super) fn add_route(&mut self, table: &str, to: Cidr, via: &RouteTarget) -> Outcome<()> {
        if let RouteTarget::Instance(id) = via
            && !self.instances.contains_key(id)
        {
            return Err(not_found(Kind::Instance, id));
        }
        let table = self.route_tables.iter_mut().find(|one| one.id == table);
        let table = table.ok_or_else(|| not_found(Kind::Route, "the route table"))?;
        if table.routes.iter().any(|route| route.to == Some(to)) {
            return Err(AwsError::Duplicate { message: format!("The route identified by {to} already exists.") });
        }
        table.routes.push(RouteEntry { to: Some(to), via: via.clone(), blackhole: false });
        Ok(())
    }

    pub(super) fn drop_route(&mut self, table: &str, to: Cidr) -> Outcome<()> {
        let table = self.route_tables.iter_mut().find(|one| one.id == table);
        let table = table.ok_or_else(|| not_found(Kind::Route, "the route table"))?;
        let count = table.routes.len();
        table.routes.retain(|route| route.to != Some(to));
        if table.routes.len() == count { Err(not_found(Kind::Route, &to.to_string())) } else { Ok(()) }
    }

    pub(super) fn tag(&mut self, ids: &[String], change: impl Fn(&mut Tags)) -> Outcome<()> {
        for id in ids {
            let group = self.groups.get_mut(id).map(|group| &mut group.tags);
            let instance = self.instances.get_mut(id).map(|instance| &mut instance.tags);
            let subnet = self.subnets.iter_mut().find(|subnet| subnet.id == *id).map(|subnet| &mut subnet.tags);
            match group.or(instance).or(subnet) {
                Some(tags) => change(tags),
                None => return Err(invalid("InvalidID", format!("The ID '{id}' is not valid"))),
            }
        }
        Ok(())
    }
}
