//! Every kind that the API serves, built in or defined by users. Used where content goes without anybody knowing its kind.

use crate::framework::Result;
use kube::{
    Client,
    api::{ApiResource, DynamicObject},
    discovery::{Discovery, Scope},
};
use runtime::client::Api;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    verbs: Vec<String>,
}

impl Kind {
    #[cfg(test)]
    pub(crate) fn new(resource: ApiResource, namespaced: bool) -> Self {
        Self { resource, namespaced, verbs: ["list", "watch", "delete"].map(str::to_owned).into() }
    }

    /// `deployments.apps`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The API of one namespace, or of the cluster for kinds that have none.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// All kinds that can be listed and deleted, each in its most stable version.
pub(crate) async fn kinds(client: &Client) -> Result<Vec<Arc<Kind>>> {
    let found = Discovery::new(client.clone()).run().await?;
    let all = found.groups().flat_map(|group| group.resources_by_stability());
    let kinds = all.map(|(resource, capabilities)| {
        Arc::new(Kind { resource, namespaced: capabilities.scope == Scope::Namespaced, verbs: capabilities.operations })
    });
    Ok(kinds.filter(|kind| kind.can("list") && kind.can("delete")).collect())
}
