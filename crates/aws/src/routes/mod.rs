//! Routes of a VPC: one per pod CIDR of each family, to the instance that the node is.

#[cfg(test)]
mod tests;

use crate::{
    account::{AwsError, RouteTable, RouteTarget},
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
    async fn table(&self) -> Result<RouteTable, CloudError> {
        let cluster = &self.settings.cluster;
        let mut tables = self.account.describe_route_tables(&cluster.vpc).await.map_err(failed)?;
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

    /// The id of a node's instance; AWS is only asked for it when the node does not say it.
    async fn instance_of(&self, node: &Node) -> Result<String, CloudError> {
        if let Some(id) = nodes::instance_of(node) {
            return Ok(id.to_owned());
        }
        let found = self.find_instance(node).await.map_err(failed)?;
        let running = found.filter(|instance| instance.state == "running");
        running.map(|instance| instance.id).ok_or_else(|| CloudError::Later {
            reason: format!("node {} has no provider id, and no instance has its name", node.name_any()),
            after: std::time::Duration::from_secs(10),
        })
    }

    async fn make_route(&self, node: &Node, route: &Route) -> Result<(), CloudError> {
        let table = self.table().await?;
        let instance = self.instance_of(node).await?;
        self.account.set_source_dest_check(&instance, false).await.map_err(failed)?;
        let via = RouteTarget::Instance(instance);
        match table.routes.iter().find(|has| has.to == Some(route.pods)) {
            Some(has) if has.via == via && !has.blackhole => return Ok(()),
            Some(has) if has.blackhole || matches!(has.via, RouteTarget::Instance(_)) => {
                self.account.delete_route(&table.id, route.pods).await.map_err(failed)?;
            }
            Some(has) => {
                return Err(CloudError::Refused(format!(
                    "{} has a route to {} that is not to an instance ({:?}); it is left alone",
                    table.id, route.pods, has.via
                )));
            }
            None => {}
        }
        self.account.create_route(&table.id, route.pods, &via).await.map_err(failed)
    }

    async fn drop_route(&self, route: &Route) -> Result<(), CloudError> {
        let table = self.table().await?;
        match self.account.delete_route(&table.id, route.pods).await {
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
