//! Gives back what a Pod had on this machine, and tells the API that it is gone.

use super::{Pods, config::uid};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
};
use runtime::{client::Api, controller::Result};
use std::{fs, io};

impl Pods {
    /// Gives back volumes and cgroup of a Pod that has ended. Its logs stay.
    pub(super) async fn release(&self, uid: &str) -> Result<()> {
        self.probes.keep(uid, &[]);
        self.host_ports.clear(uid)?;
        self.volumes.unmount(uid).await?;
        for (of, path) in self.options.hierarchy.pods(&self.options.folders.cgroup) {
            if of == uid {
                self.options
                    .hierarchy
                    .remove(&path)
                    .map_err(|error| format!("cannot remove the cgroup {path}: {error}"))?;
            }
        }
        self.sources.forget(uid);
        Ok(())
    }

    /// Removes all traces of a Pod, and then the Pod.
    pub(super) async fn bury(&self, id: &str, pod: Option<&Pod>) -> Result<()> {
        self.release(id).await?;
        self.remove_logs(id)?;
        if let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
            self.confirm(pod).await?;
        }
        self.index.forget(id);
        self.memory.lock().remove(id);
        Ok(())
    }

    fn remove_logs(&self, uid: &str) -> io::Result<()> {
        let end = format!("_{uid}");
        let entries = fs::read_dir(&self.options.folders.logs).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(&end)) {
            fs::remove_dir_all(entry.path())?;
        }
        Ok(())
    }

    /// Deletes a Pod for good: everything that it had on this node is gone.
    pub(super) async fn confirm(&self, pod: &Pod) -> Result<()> {
        let preconditions = Preconditions { uid: Some(uid(pod)), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        match api.delete(&pod.name_any(), &params).await {
            Ok(_) => Ok(()),
            // Somebody was faster, or there is another of its name already.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The uids that have something on this machine: folders, logs or cgroups. For those that nobody knows after a restart.
    pub fn left_behind(&self) -> Vec<String> {
        let mut found = self.volumes.uids();
        let logs = fs::read_dir(&self.options.folders.logs).into_iter().flatten().flatten();
        let names = logs.filter_map(|entry| entry.file_name().into_string().ok());
        found.extend(names.filter_map(|name| name.rsplit_once('_').map(|(_, uid)| uid.to_owned())));
        found.extend(self.options.hierarchy.pods(&self.options.folders.cgroup).into_iter().map(|(uid, _)| uid));
        found.sort();
        found.dedup();
        found
    }
}
