//! What a container gets of its Pod's volumes: mounts and devices, as the runtime takes them.

use super::{VolumeError, Volumes, claim_of, claims, claims::Source, kind_of, subpath};
use crate::{
    cri::proto::{Device, ImageSpec, Mount, MountPropagation},
    environment::expand,
};
use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};
use std::{path::PathBuf, sync::atomic::Ordering};

/// Where a volume is.
enum Place {
    Path { path: PathBuf, read_only: bool },
    Image(String),
}

impl Volumes {
    /// The mounts of one container. The volumes are there: `mount` has been called.
    pub async fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        variables: &[(String, String)],
    ) -> Result<Vec<Mount>, VolumeError> {
        let mut mounts = Vec::new();
        for (index, wanted) in container.volume_mounts.iter().flatten().enumerate() {
            let mount = self.one(pod, container, (index, wanted), variables).await;
            mounts.push(mount.map_err(|problem| VolumeError(format!("volume {:?} : {problem}", wanted.name)))?);
        }
        Ok(mounts)
    }

    async fn one(
        &self,
        pod: &Pod,
        container: &Container,
        (index, wanted): (usize, &VolumeMount),
        variables: &[(String, String)],
    ) -> Result<Mount, String> {
        let propagation = match wanted.mount_propagation.as_deref() {
            Some("HostToContainer") => MountPropagation::HostToContainer,
            Some("Bidirectional") => MountPropagation::Bidirectional,
            _ => MountPropagation::Private,
        };
        let sub_path = match wanted.sub_path_expr.as_deref().filter(|text| !text.is_empty()) {
            Some(expression) => expanded(expression, variables)?,
            None => wanted.sub_path.clone().unwrap_or_default(),
        };
        let mut mount =
            Mount { container_path: absolute(&wanted.mount_path), propagation: propagation as i32, ..Mount::default() };
        match self.place(pod, volume(pod, &wanted.name)?).await? {
            Place::Image(reference) => {
                mount.image = Some(ImageSpec { image: reference, ..ImageSpec::default() });
                mount.image_sub_path = sub_path;
                mount.readonly = true;
            }
            Place::Path { path, read_only } => {
                mount.readonly = read_only || wanted.read_only.unwrap_or_default();
                let path = if sub_path.is_empty() {
                    path
                } else {
                    self.part(pod, container, (index, wanted), path, sub_path).await?
                };
                mount.host_path = path.display().to_string();
            }
        }
        mount.recursive_read_only = self.recursive(wanted, mount.readonly)?;
        Ok(mount)
    }

    /// A part of a volume, held in a place of its own.
    async fn part(
        &self,
        pod: &Pod,
        container: &Container,
        (index, wanted): (usize, &VolumeMount),
        path: PathBuf,
        sub_path: String,
    ) -> Result<PathBuf, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let target = self.root.sub_path(uid, &wanted.name, &container.name, index);
        let held = target.clone();
        let done = tokio::task::spawn_blocking(move || subpath::hold(&path, &sub_path, &held)).await;
        done.map_err(|error| error.to_string())??;
        Ok(target)
    }

    fn recursive(&self, wanted: &VolumeMount, read_only: bool) -> Result<bool, String> {
        let able = self.recursive_read_only.load(Ordering::Relaxed);
        match wanted.recursive_read_only.as_deref() {
            Some("IfPossible") => Ok(able && read_only),
            Some("Enabled") if !able => {
                Err("recursiveReadOnly: \"Enabled\" is not supported by the container runtime".to_owned())
            }
            Some("Enabled") => Ok(true),
            _ => Ok(false),
        }
    }

    async fn place(&self, pod: &Pod, volume: &Volume) -> Result<Place, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let path = |path: PathBuf| Ok(Place::Path { path, read_only: false });
        if let Some(source) = &volume.host_path {
            return path(source.path.clone().into());
        }
        if let Some(source) = &volume.image {
            return Ok(Place::Image(source.reference.clone().unwrap_or_default()));
        }
        if let Some(source) = &volume.csi {
            let read_only = source.read_only.unwrap_or_default();
            return Ok(Place::Path { path: self.root.published(uid, &volume.name), read_only });
        }
        let Some((claim, made_for, read_only)) = claim_of(pod, volume) else {
            let kind = kind_of(volume);
            let place = self.root.volume(uid, kind, &volume.name);
            return Ok(Place::Path { path: place, read_only: kind != "empty-dir" });
        };
        let found = claims::find(&self.client, pod, &claim, made_for).await?;
        let path = match found.source {
            Source::HostPath { path, .. } => path.into(),
            Source::Local { path } if found.block => path.into(),
            Source::Local { .. } => self.root.volume(uid, "local-volume", &found.name),
            Source::Csi(_) if found.block => self.root.published_device(uid, &found.name),
            Source::Csi(_) => self.root.published(uid, &found.name),
        };
        Ok(Place::Path { path, read_only })
    }

    /// Block devices of one container.
    pub async fn devices(&self, pod: &Pod, container: &Container) -> Result<Vec<Device>, VolumeError> {
        let mut devices = Vec::new();
        for wanted in container.volume_devices.iter().flatten() {
            let wrong = |problem: String| VolumeError(format!("volume {:?} : {problem}", wanted.name));
            let place = self.place(pod, volume(pod, &wanted.name).map_err(wrong)?).await.map_err(wrong)?;
            let Place::Path { path, read_only } = place else { return Err(wrong("an image is no device".to_owned())) };
            let permissions = if read_only { "r" } else { "mrw" };
            devices.push(Device {
                container_path: wanted.device_path.clone(),
                host_path: path.display().to_string(),
                permissions: permissions.to_owned(),
            });
        }
        Ok(devices)
    }

    /// A file in a volume of a Pod, for variables that are read from it; nothing if it is not there.
    pub fn read_file(&self, pod: &Pod, name: &str, path: &str) -> Result<Option<String>, String> {
        let volume = volume(pod, name)?;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if volume.empty_dir.is_none() {
            return Err(format!("volume {name:?} is no emptyDir"));
        }
        subpath::read(&self.root.volume(uid, "empty-dir", name), path)
    }
}

fn volume<'a>(pod: &'a Pod, name: &str) -> Result<&'a Volume, String> {
    let mut all = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    all.find(|volume| volume.name == name).ok_or_else(|| "the Pod has no such volume".to_owned())
}

/// Every variable must be there: a path with a hole in it would be another path.
fn expanded(expression: &str, variables: &[(String, String)]) -> Result<String, String> {
    let known: Vec<(String, String)> = variables.to_vec();
    let text = expand(expression, &known);
    // What is left as it stood was not known.
    let missing = expression.split("$(").skip(1).filter_map(|rest| rest.split(')').next());
    let mut missing = missing.filter(|name| !known.iter().any(|(known, _)| known == name));
    match missing.next().filter(|_| !expression.contains("$$")) {
        Some(name) => Err(format!("missing value for {name:?}")),
        None => Ok(text),
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_needs_all_its_variables() {
        let variables = [("POD".to_owned(), "p-1".to_owned())];
        assert_eq!(expanded("logs/$(POD)", &variables), Ok("logs/p-1".to_owned()));
        assert_eq!(expanded("logs/$(NODE)", &variables), Err("missing value for \"NODE\"".to_owned()));
        assert_eq!(expanded("plain", &variables), Ok("plain".to_owned()));
    }
}
