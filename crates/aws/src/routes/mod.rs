//! Routes of a VPC: one per pod CIDR of each family, to the instance that the node is.

#[cfg(test)]
mod tests;

use crate::{
    account::{AwsError, Instance, InstanceFilter, RouteEntry, RouteTable, RouteTarget},
    apply::Aws,
    model::nodes,
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use runtime::cloud::{Answer, CloudError, Route, Routes};
use std::{collections::BTreeMap, sync::Arc};

fn failed(error: AwsError) -> CloudError {
    CloudError::Failed(error.into())
}

impl Aws {
    /// The table of `RouteTableID`, else the only one with the cluster's tag.
    pub(crate) async fn table(&self) -> Result<RouteTable, CloudError> {
        let cluster = &self.settings.cluster;
        let mut tables = self.account.ec2.describe_route_tables(&cluster.vpc).await.map_err(failed)?;
        match &self.route_table {
            Some(id) => tables.retain(|table| table.id == *id),
            None => tables.retain(|table| cluster.uses(&table.tags)),
        }
        match tables.pop() {
            Some(table) if tables.is_empty() => Ok(table),
            Some(_) => Err(CloudError::Refused(format!(
                "several route tables have the tag {}; name one with RouteTableID",
                cluster.tag()
            ))),
            None => Err(CloudError::Refused(match &self.route_table {
                Some(id) => format!("route table {id} of RouteTableID is not in {}", cluster.vpc),
                None => format!("no route table has the tag {}; name one with RouteTableID", cluster.tag()),
            })),
        }
    }

    async fn routes_there(&self, all: &[Arc<Node>]) -> Result<Vec<Route>, CloudError> {
        let table = self.table().await?;
        let named = |node: &Arc<Node>| Some((nodes::instance_of(node)?.to_owned(), node.name_any()));
        let names: BTreeMap<String, String> = all.iter().filter_map(named).collect();
        let routes = table.routes.into_iter().filter_map(|route| {
            let to = route.to?;
            let node = match &route.via {
                RouteTarget::Instance(id) => names.get(id).cloned().unwrap_or_else(|| id.clone()),
                _ if route.blackhole => "gone".to_owned(),
                _ => return None,
            };
            // One that leads to nothing is nobody's, and is made anew.
            let node = if route.blackhole { format!("{node} (blackhole)") } else { node };
            Some(Route { name: format!("{}-{to}", table.id), node, via: None, pods: to })
        });
        Ok(routes.collect())
    }

    /// The instance of a node, if it is the cluster's.
    async fn own_instance_of(&self, node: &Node) -> Result<String, CloudError> {
        let named = nodes::instance_of(node).is_some();
        let found = self.find_instance(node).await.map_err(failed)?;
        let Some(instance) = found.filter(|instance| named || instance.state == "running") else {
            let reason = match nodes::instance_of(node) {
                Some(id) => format!("{id}, which node {} says it is, is not there", node.name_any()),
                None => format!("node {} has no provider id, and no instance has its name", node.name_any()),
            };
            return Err(CloudError::Later { reason, after: std::time::Duration::from_secs(10) });
        };
        self.check_own(&instance)?;
        Ok(instance.id)
    }

    /// Refuses what is not the cluster's. Who may write a Node's provider id could otherwise have any machine of the account forward
    /// packets, or lose its routes.
    fn check_own(&self, instance: &Instance) -> Result<(), CloudError> {
        let cluster = &self.settings.cluster;
        let problem = match (instance.vpc == cluster.vpc, cluster.uses(&instance.tags)) {
            (true, true) => return Ok(()),
            (false, _) => format!("is in {:?}, not in {}", instance.vpc, cluster.vpc),
            (true, false) => format!("does not have the tag {}", cluster.tag()),
        };
        Err(CloudError::Refused(format!("{} {problem}; it and routes to it are left alone", instance.id)))
    }

    /// Refuses to take away a route that leads to somebody else's instance, or to no instance.
    async fn check_removable(&self, table: &RouteTable, route: &RouteEntry) -> Result<(), CloudError> {
        let id = match &route.via {
            _ if route.blackhole => return Ok(()),
            RouteTarget::Instance(id) => id,
            other => {
                let to = route.to.map(|to| to.to_string()).unwrap_or_default();
                return Err(CloudError::Refused(format!(
                    "{} has a route to {to} that is not to an instance ({other:?}); it is left alone",
                    table.id
                )));
            }
        };
        let filter = InstanceFilter { ids: [id.clone()].into(), ..InstanceFilter::default() };
        let found = self.account.ec2.describe_instances(&filter).await.map_err(failed)?;
        found.iter().try_for_each(|instance| self.check_own(instance))
    }

    async fn make_route(&self, node: &Node, route: &Route) -> Result<(), CloudError> {
        let table = self.table().await?;
        let instance = self.own_instance_of(node).await?;
        let via = RouteTarget::Instance(instance.clone());
        let before = table.routes.iter().find(|has| has.to == Some(route.pods));
        let stays = before.is_some_and(|has| has.via == via && !has.blackhole);
        if let Some(has) = before.filter(|_| !stays) {
            self.check_removable(&table, has).await?;
        }
        self.account.ec2.set_source_dest_check(&instance, false).await.map_err(failed)?;
        if stays {
            return Ok(());
        }
        if before.is_some() {
            self.account.ec2.delete_route(&table.id, route.pods).await.map_err(failed)?;
        }
        self.account.ec2.create_route(&table.id, route.pods, &via).await.map_err(failed)
    }

    async fn drop_route(&self, route: &Route) -> Result<(), CloudError> {
        let table = self.table().await?;
        let Some(has) = table.routes.iter().find(|has| has.to == Some(route.pods)) else { return Ok(()) };
        self.check_removable(&table, has).await?;
        match self.account.ec2.delete_route(&table.id, route.pods).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome.map_err(failed),
        }
    }
}

impl Routes for Aws {
    fn list<'a>(&'a self, nodes: &'a [Arc<Node>]) -> Answer<'a, Vec<Route>> {
        Box::pin(self.routes_there(nodes))
    }

    fn create<'a>(&'a self, node: &'a Node, route: &'a Route) -> Answer<'a, ()> {
        Box::pin(self.make_route(node, route))
    }

    fn delete<'a>(&'a self, route: &'a Route) -> Answer<'a, ()> {
        Box::pin(self.drop_route(route))
    }
}
