//! How drivers become known: each leaves a socket in `plugins_registry`, is asked who it is, and is written into the node's CSINode.

use super::{
    Csi,
    proto::{InfoRequest, NodeGetInfoRequest, NodeGetInfoResponse, PluginInfo, RegistrationStatus},
};
use crate::{cri::Runtime, volumes::claims};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use runtime::client::{Api, error_line};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileTypeExt,
    path::PathBuf,
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// How often the folder is looked at: a driver that starts is waited for by nobody in particular.
const LOOK: Duration = Duration::from_secs(2);
/// How long a driver may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);

impl Csi {
    /// Follows drivers as they come and go.
    pub(in crate::volumes) async fn follow(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.discover().await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Looks once.
    pub(super) async fn discover(&self) {
        let found = sockets(&self.root.registrations());
        let (gone, fresh) = {
            let seen = self.seen.lock();
            let is_known =
                |socket: &PathBuf, made: &Option<SystemTime>| seen.get(socket).is_some_and(|(_, known)| known == made);
            let gone: Vec<(PathBuf, String)> = seen
                .iter()
                .filter(|(socket, _)| !found.contains_key(*socket))
                .map(|(socket, (name, _))| (socket.clone(), name.clone()))
                .collect();
            let fresh: Vec<(PathBuf, Option<SystemTime>)> = found
                .iter()
                .filter(|(socket, made)| !is_known(socket, made))
                .map(|(socket, made)| (socket.clone(), *made))
                .collect();
            (gone, fresh)
        };
        for (socket, name) in gone {
            self.seen.lock().remove(&socket);
            self.known.lock().remove(&name);
            if let Err(error) = self.withdraw(&name).await {
                tracing::warn!(driver = name, error, "a driver that is gone stays in the CSINode");
            }
        }
        for (socket, made) in fresh {
            match self.register(&socket).await {
                Ok(Some(name)) => {
                    tracing::info!(driver = name, "a CSI driver has registered");
                    self.seen.lock().insert(socket, (name, made));
                }
                Ok(None) => {
                    self.seen.lock().insert(socket, (String::new(), made));
                }
                // Tried again at the next look.
                Err(error) => tracing::debug!(socket = %socket.display(), error, "a CSI driver has not registered"),
            }
        }
    }

    /// The driver's name, or nothing if it is a plugin of another kind.
    async fn register(&self, socket: &std::path::Path) -> Result<Option<String>, String> {
        let door = Runtime::at(&socket.to_string_lossy()).map_err(|error| error.to_string())?;
        let info: PluginInfo = door.call_within(InfoRequest {}, PATIENCE).await.map_err(|error| error.message)?;
        if info.r#type != "CSIPlugin" {
            return Ok(None);
        }
        let endpoint = if info.endpoint.is_empty() { socket.to_string_lossy().into_owned() } else { info.endpoint };
        let driver = Runtime::at(&endpoint).map_err(|error| error.to_string())?;
        let registered = match driver.call_within(NodeGetInfoRequest {}, PATIENCE).await {
            Ok(node) => self.announce(&info.name, &node).await,
            Err(error) => Err(error.message),
        };
        let status = match &registered {
            Ok(()) => RegistrationStatus { plugin_registered: true, error: String::new() },
            Err(error) => RegistrationStatus { plugin_registered: false, error: error.clone() },
        };
        let heard = door.call_within(status, PATIENCE).await.map_err(|error| error.message);
        registered?;
        heard?;
        self.known.lock().insert(info.name.clone(), driver);
        Ok(Some(info.name))
    }

    fn csi_nodes(&self) -> Api<DynamicObject> {
        let kind = claims::resource("storage.k8s.io", "v1", "CSINode", "csinodes");
        Api::all_with(self.client.clone(), &kind)
    }

    /// Writes the driver into the CSINode of this node. A cluster without that kind is content without.
    async fn announce(&self, name: &str, node: &NodeGetInfoResponse) -> Result<(), String> {
        let api = self.csi_nodes();
        let current = match api.get_opt(&self.node).await {
            Ok(current) => current,
            Err(error) => return Err(error_line(&error)),
        };
        let drivers =
            current.as_ref().and_then(|object| object.data.pointer("/spec/drivers")).and_then(Value::as_array);
        let drivers = with_driver(drivers.map(Vec::as_slice).unwrap_or_default(), name, node);
        let done = match current {
            Some(_) => {
                let patch = json!({"spec": {"drivers": drivers}});
                api.patch(&self.node, &PatchParams::default(), &Patch::Merge(patch)).await
            }
            None => {
                let kind = claims::resource("storage.k8s.io", "v1", "CSINode", "csinodes");
                let object = DynamicObject::new(&self.node, &kind).data(json!({"spec": {"drivers": drivers}}));
                api.create(&PostParams::default(), &object).await
            }
        };
        match done {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tracing::info!(driver = name, "the cluster serves no CSINodes; the driver is used without one");
                Ok(())
            }
            Err(error) => Err(error_line(&error)),
        }
    }

    async fn withdraw(&self, name: &str) -> Result<(), String> {
        let api = self.csi_nodes();
        let Some(current) = api.get_opt(&self.node).await.map_err(|error| error_line(&error))? else { return Ok(()) };
        let drivers = current.data.pointer("/spec/drivers").and_then(Value::as_array);
        let others: Vec<&Value> = drivers.into_iter().flatten().filter(|driver| driver["name"] != name).collect();
        let patch = json!({"spec": {"drivers": others}});
        let done = api.patch(&self.node, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(drop).map_err(|error| error_line(&error))
    }
}

fn sockets(folder: &std::path::Path) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.map(|entry| (entry.path(), entry.metadata().ok().and_then(|metadata| metadata.modified().ok()))).collect()
}

/// The drivers of a node, with this one as it is now.
fn with_driver(drivers: &[Value], name: &str, node: &NodeGetInfoResponse) -> Vec<Value> {
    let keys: Vec<&String> = node.accessible_topology.iter().flat_map(|topology| topology.segments.keys()).collect();
    let mut own = json!({"name": name, "nodeID": node.node_id, "topologyKeys": keys});
    if node.max_volumes_per_node > 0 {
        own["allocatable"] = json!({"count": node.max_volumes_per_node});
    }
    let others = drivers.iter().filter(|driver| driver["name"] != name).cloned();
    others.chain([own]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_replaces_itself_and_leaves_others() {
        let node = NodeGetInfoResponse { node_id: "i-1".into(), max_volumes_per_node: 4, accessible_topology: None };
        let before = [json!({"name": "a"}), json!({"name": "b", "nodeID": "old"})];
        let want = [
            json!({"name": "a"}),
            json!({"name": "b", "nodeID": "i-1", "topologyKeys": [], "allocatable": {"count": 4}}),
        ];
        assert_eq!(with_driver(&before, "b", &node), want);
    }
}
