//! Pods from files of this machine (`staticPodPath`), and what the API shows of them: their mirrors.

use crate::pods::{
    Index, Pods,
    index::{HASH, MIRROR, SOURCE, is_static},
};
use api::kinds::pod::defaults;
use aws_lc_rs::digest::{SHA256, digest};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use runtime::{
    client::{Api, error_line},
    controller::{Key, Result},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Upstream's annotation of when a file was read.
const SEEN: &str = "kubernetes.io/config.seen";

/// Reads the folder again and again, and keeps the mirrors as they should be. Never ends.
pub(super) async fn follow(
    pods: Arc<Pods>,
    folder: Option<PathBuf>,
    period: Duration,
    node: impl Fn() -> Option<Arc<Node>>,
) {
    loop {
        if let Some(folder) = &folder {
            let (read, complete) = read(folder, &pods.options.node_name);
            // What could not be read may be a file in the middle of being written.
            if complete {
                pods.index.set_files(read).into_iter().for_each(|uid| pods.queue.add(uid));
            }
        }
        if let Err(error) = mirror(&pods, node().as_deref()).await {
            tracing::debug!(
                error = error_line(&*error),
                "mirrors of static pods are not as they should be; tried again"
            );
        }
        tokio::time::sleep(period).await;
    }
}

/// The Pods in the files of a folder, and whether all could be read.
fn read(folder: &Path, node: &str) -> (Vec<Pod>, bool) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // A folder that is not there has no Pods.
        Err(error) => return (Vec::new(), error.kind() == std::io::ErrorKind::NotFound),
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('.') && [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) && file.is_file()
    });
    files.sort();
    let (mut pods, mut complete) = (Vec::new(), true);
    for file in files {
        match fs::read(&file).map_err(|error| error.to_string()).and_then(|text| parse(&text, &file, node)) {
            Ok(pod) => pods.push(pod),
            Err(error) => {
                tracing::warn!(file = %file.display(), error, "this is no pod; nothing changes until it is mended");
                complete = false;
            }
        }
    }
    (pods, complete)
}

/// A Pod of a file: with the node's name in its own, and a uid that changes with its content.
fn parse(text: &[u8], file: &Path, node: &str) -> Result<Pod, String> {
    let (mut value, _) = api::schema::parse_yaml(text).map_err(|error| error.message)?;
    if value["kind"] != "Pod" || value["apiVersion"] != "v1" {
        return Err(format!("kind {} of {} is not accepted; accepted: Pod of v1", value["kind"], value["apiVersion"]));
    }
    let name = value["metadata"]["name"].as_str().filter(|name| !name.is_empty()).ok_or("metadata.name is missing")?;
    let name = format!("{name}-{node}");
    let mut seed = text.to_vec();
    seed.extend(file.as_os_str().as_encoded_bytes());
    seed.extend(node.as_bytes());
    let hash: String = digest(&SHA256, &seed).as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let metadata = &mut value["metadata"];
    metadata["name"] = json!(name);
    metadata["uid"] = json!(hash);
    if metadata["namespace"].as_str().is_none_or(str::is_empty) {
        metadata["namespace"] = json!("default");
    }
    metadata["annotations"][SOURCE] = json!("file");
    metadata["annotations"][HASH] = json!(hash);
    metadata["annotations"][SEEN] = json!(jiff::Timestamp::now().to_string());
    value["spec"]["nodeName"] = json!(node);
    // As upstream does: what the node needs to run is not thrown off it.
    tolerate(&mut value["spec"]);
    value["status"] = json!({"phase": "Pending"});
    defaults::spec(&mut value["spec"]);
    defaults::pod(&mut value);
    objects::from_value(&value).map_err(|error| error.to_string())
}

fn tolerate(spec: &mut Value) {
    let everything = json!({"operator": "Exists", "effect": "NoExecute"});
    match spec["tolerations"].as_array_mut() {
        Some(list) if list.contains(&everything) => {}
        Some(list) => list.push(everything),
        None => spec["tolerations"] = json!([everything]),
    }
}

/// Makes the mirrors that are missing, and deletes those that are not of a file as it is now.
async fn mirror(pods: &Pods, node: Option<&Node>) -> Result<()> {
    for stray in pods.index.stray_mirrors() {
        delete(pods, &stray).await?;
    }
    for pod in static_pods(&pods.index) {
        let key = Key::of(&*pod);
        let Some(known) = pods.index.mirror(&key) else {
            create(pods, &pod, node).await?;
            pods.queue.add(pod.uid().unwrap_or_default());
            continue;
        };
        let current = known.annotations().get(MIRROR) == pod.annotations().get(HASH);
        if !current || known.metadata.deletion_timestamp.is_some() {
            delete(pods, &known).await?;
        }
    }
    Ok(())
}

fn static_pods(index: &Index) -> Vec<Arc<Pod>> {
    index.uids().into_iter().filter_map(|uid| index.pod(&uid)).filter(|pod| is_static(pod)).collect()
}

async fn create(pods: &Pods, pod: &Pod, node: Option<&Node>) -> Result<()> {
    let Some(node) = node else { return Ok(()) };
    let mut mirror = pod.clone();
    mirror.metadata.uid = None;
    mirror.status = None;
    let hash = pod.annotations().get(HASH).cloned().unwrap_or_default();
    mirror.annotations_mut().insert(MIRROR.to_owned(), hash);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    mirror.metadata.owner_references = Some(vec![owner]);
    let api: Api<Pod> = Api::namespaced(pods.client.clone(), &pod.namespace().unwrap_or_default());
    match api.create(&PostParams::default(), &mirror).await {
        Ok(made) => {
            pods.index.put(&Arc::new(made));
            Ok(())
        }
        // The watch is about to bring it.
        Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn delete(pods: &Pods, mirror: &Pod) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(pods.client.clone(), &mirror.namespace().unwrap_or_default());
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    match api.delete(&mirror.name_any(), &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {}
        Err(error) => return Err(error.into()),
    }
    pods.index.take(mirror);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: c, image: localhost/c}]\n";

    #[test]
    fn a_file_is_a_pod_of_this_node() {
        let pod = parse(FILE.as_bytes(), Path::new("/etc/kubernetes/manifests/web.yaml"), "n1").unwrap();
        assert_eq!((pod.name_any(), pod.namespace().as_deref()), ("web-n1".to_owned(), Some("default")));
        let spec = pod.spec.clone().unwrap();
        assert_eq!((spec.node_name.as_deref(), spec.restart_policy.as_deref()), (Some("n1"), Some("Always")));
        assert_eq!(spec.containers[0].termination_message_path.as_deref(), Some("/dev/termination-log"));
        assert!(is_static(&pod));
        let other = parse(
            FILE.replace("localhost/c", "localhost/d").as_bytes(),
            Path::new("/etc/kubernetes/manifests/web.yaml"),
            "n1",
        )
        .unwrap();
        assert_ne!(pod.uid(), other.uid());
    }

    #[test]
    fn a_file_that_is_no_pod_is_told() {
        let error = parse(b"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", Path::new("/x"), "n1").unwrap_err();
        assert_eq!(error, "kind \"Service\" of \"v1\" is not accepted; accepted: Pod of v1");
    }
}
