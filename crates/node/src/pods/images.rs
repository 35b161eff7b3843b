//! Images: present, from an archive, or pulled, as a container's policy says.

use super::{
    archives::{Archives, full_name},
    security::ImageUser,
};
use crate::cri::{
    CriError, Runtime,
    proto::{AuthConfig, Image, ImageSpec, ImageStatusRequest, PullImageRequest},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// A pull may take as long as the network does.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long the runtime may take to show what it was given.
const IMPORT: Duration = Duration::from_secs(10);

/// The images of a node.
#[derive(Clone, Debug)]
pub struct Images {
    runtime: Runtime,
    archives: Arc<Archives>,
}

/// An image that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// As the runtime names it.
    pub id: String,
    pub user: ImageUser,
    /// What the events say.
    pub note: Option<String>,
}

/// Why there is no image, in upstream's words for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullError {
    pub reason: &'static str,
    pub message: String,
}

impl Images {
    #[must_use]
    pub fn new(runtime: Runtime, archives: Arc<Archives>) -> Self {
        Self { runtime, archives }
    }

    pub fn archives(&self) -> &Arc<Archives> {
        &self.archives
    }

    /// The image if the runtime has it.
    pub async fn find(&self, image: &str) -> Result<Option<Image>, CriError> {
        let spec = ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
        let answer = self.runtime.call(ImageStatusRequest { image: Some(spec), verbose: false }).await?;
        Ok(answer.image.filter(|image| !image.id.is_empty()))
    }

    /// Brings an image about. `pulling` is called before anything is fetched.
    pub async fn ensure(
        &self,
        image: &str,
        policy: &str,
        secrets: &[Arc<Secret>],
        pulling: impl Future<Output = ()>,
    ) -> Result<Ready, PullError> {
        let inspect = |error: CriError| PullError {
            reason: "ImageInspectError",
            message: format!("Failed to inspect image \"{image}\": {error}"),
        };
        let present = self.find(image).await.map_err(inspect)?;
        if let Some(found) = present.as_ref().filter(|_| policy != "Always") {
            return Ok(ready(found, Some(format!("Container image \"{image}\" already present on machine"))));
        }
        if policy == "Never" {
            let message = format!("Container image \"{image}\" is not present with pull policy of Never");
            return Err(PullError { reason: "ErrImageNeverPull", message });
        }
        if let Some(found) = self.in_archive(image).await? {
            let note = format!("Container image \"{image}\" is in the image folder of this machine");
            return Ok(ready(&found, Some(note)));
        }
        pulling.await;
        let started = std::time::Instant::now();
        let failed = |error: CriError| PullError { reason: "ErrImagePull", message: error.message };
        self.pull(image, secrets).await.map_err(failed)?;
        let found = self.find(image).await.map_err(inspect)?;
        let found = found.ok_or_else(|| PullError {
            reason: "ErrImagePull",
            message: format!("image \"{image}\" was pulled and is not there"),
        })?;
        let took = format!("{}ms", started.elapsed().as_millis());
        let note = format!(
            "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {} bytes.",
            found.size
        );
        Ok(ready(&found, Some(note)))
    }

    async fn in_archive(&self, image: &str) -> Result<Option<Image>, PullError> {
        let broken = |message: String| PullError { reason: "ErrImagePull", message };
        let (archives, name) = (Arc::clone(&self.archives), image.to_owned());
        let given = tokio::task::spawn_blocking(move || archives.import_image(&name)).await;
        let given = given.map_err(|error| broken(error.to_string()))?.map_err(|error| broken(error.to_string()))?;
        if !given {
            return Ok(None);
        }
        // containerd's CRI hears of it by an event.
        let shown = tokio::time::timeout(IMPORT, async {
            loop {
                if let Ok(Some(found)) = self.find(image).await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        shown.await.map(Some).map_err(|_| broken(format!("image \"{image}\" was imported and does not appear")))
    }

    /// With each credential that is for its registry, then without.
    async fn pull(&self, image: &str, secrets: &[Arc<Secret>]) -> Result<(), CriError> {
        let mut logins: Vec<_> = credentials(image, secrets).into_iter().map(Some).collect();
        logins.push(None);
        let mut last = None;
        for auth in logins {
            let spec = ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
            let request = PullImageRequest { image: Some(spec), auth, ..PullImageRequest::default() };
            match self.runtime.call_within(request, PATIENCE).await {
                Ok(_) => return Ok(()),
                // What the first credential came to says most.
                Err(error) => last = last.or(Some(error)),
            }
        }
        last.map_or(Ok(()), Err)
    }
}

fn ready(image: &Image, note: Option<String>) -> Ready {
    let uid = image.uid.as_ref().map(|uid| uid.value);
    Ready { id: image.id.clone(), user: ImageUser { uid, name: image.username.clone() }, note }
}

/// The logins in these secrets for the registry of an image, the most exact first.
fn credentials(image: &str, secrets: &[Arc<Secret>]) -> Vec<AuthConfig> {
    let full = full_name(image);
    let mut found: Vec<(usize, AuthConfig)> = Vec::new();
    for secret in secrets {
        let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
        let modern = data(".dockerconfigjson").and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let old = data(".dockercfg").and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        for auths in [modern.map(|all| all["auths"].clone()), old].into_iter().flatten() {
            let Value::Object(auths) = auths else { continue };
            for (registry, login) in auths {
                let place = registry_place(&registry);
                if full == place || full.strip_prefix(&place).is_some_and(|rest| rest.starts_with('/')) {
                    found.extend(login_of(&login).map(|auth| (place.len(), auth)));
                }
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, auth)| auth).collect()
}

/// `https://index.docker.io/v1/` and the like, as names of images begin.
fn registry_place(registry: &str) -> String {
    let place = registry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let place = place.trim_end_matches("/v1").trim_end_matches("/v2");
    if place == "index.docker.io" { "docker.io".to_owned() } else { place.to_owned() }
}

fn login_of(login: &Value) -> Option<AuthConfig> {
    let text = |key: &str| login[key].as_str().unwrap_or_default().to_owned();
    let (mut username, mut password) = (text("username"), text("password"));
    if let Some(pair) = login["auth"].as_str().and_then(|text| BASE64_STANDARD.decode(text.trim()).ok()) {
        let pair = String::from_utf8(pair).ok()?;
        let (name, secret) = pair.split_once(':')?;
        (username, password) = (name.to_owned(), secret.trim_end_matches('\0').to_owned());
    }
    let identity_token = text("identitytoken");
    (!username.is_empty() || !identity_token.is_empty()).then(|| AuthConfig {
        username,
        password,
        identity_token,
        ..AuthConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_most_exact_login_comes_first() {
        let config = json!({"auths": {
            "registry.example.com": {"auth": BASE64_STANDARD.encode("all:a")},
            "registry.example.com/team": {"username": "team", "password": "b"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "c"},
        }});
        let data = json!({".dockerconfigjson": BASE64_STANDARD.encode(config.to_string())});
        let secret: Secret = objects::from_value(&json!({"metadata": {"name": "s"}, "data": data})).unwrap();
        let secrets = [Arc::new(secret)];
        let users = |image| credentials(image, &secrets).into_iter().map(|auth| auth.username).collect::<Vec<_>>();
        assert_eq!(users("registry.example.com/team/app:1"), ["team", "all"]);
        assert_eq!(users("registry.example.com/teams/app:1"), ["all"]);
        assert_eq!(users("busybox"), ["hub"]);
        assert!(users("registry.example.community/app").is_empty());
    }
}
