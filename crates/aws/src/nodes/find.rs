//! Which instance a node is.

use crate::{
    account::{AwsError, Instance, InstanceFilter},
    apply::Aws,
    model::nodes,
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

impl Aws {
    /// The instance of a node, in whatever state it is: by its provider id, else by its name, which is the instance's id or its private name.
    /// Of several with that name one that runs.
    pub(crate) async fn find_instance(&self, node: &Node) -> Result<Option<Instance>, AwsError> {
        let name = node.name_any();
        let filter = match nodes::instance_of(node).or_else(|| nodes::instance_id(&name)) {
            Some(id) => InstanceFilter { ids: [id.to_owned()].into(), ..InstanceFilter::default() },
            None => InstanceFilter {
                vpc: Some(self.settings.cluster.vpc.clone()),
                private_dns: [name].into(),
                ..InstanceFilter::default()
            },
        };
        let found = self.account.ec2.describe_instances(&filter).await?;
        Ok(found.into_iter().min_by_key(|instance| instance.state != "running"))
    }
}
