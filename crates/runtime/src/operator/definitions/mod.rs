//! Definitions of custom resources: made where they are missing, brought up to date where Twinstack made them, waited for.
//!
//! A definition that somebody else made stays as it is, whatever it says. Of ours everything stays that others have put there:
//! how versions are converted, labels, versions in which objects are still stored.

mod step;

pub use step::marked;

use crate::client::Api;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;
use step::{Step, step};

/// The release that a definition is of. What has it is ours.
pub const RELEASE: &str = "twinstack.dev/release";
/// Who writes definitions.
const MANAGER: &str = "twinstack-definitions";
/// Between looks at a definition that is not served yet, and how many.
const PAUSE: Duration = Duration::from_millis(50);
const LOOKS: u32 = 600;
/// How often to start again when somebody else was faster.
const ATTEMPTS: u32 = 5;

/// Why definitions are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The API did not do as it was asked.
    #[error("the definition {name}: {source}")]
    Api { name: String, source: kube::Error },
    /// A newer release has taken away what this one needs.
    #[error(
        "the definition {name} is of release {found} and no longer serves version {version}, which this release ({ours}) needs; \
         run a release that is not older than {found}"
    )]
    Newer { name: String, found: String, ours: &'static str, version: String },
    /// Its names are taken, most likely.
    #[error("the definition {name} is not served: {conditions}")]
    NotServed { name: String, conditions: String },
    /// Somebody changes it all the time.
    #[error("the definition {name} was changed by somebody else at each of {ATTEMPTS} attempts")]
    Contended { name: String },
}

/// Makes definitions that are missing, brings those up to date that are ours, and waits until all are served.
pub async fn install(client: &Client, definitions: &[Value]) -> Result<(), DefinitionError> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    for definition in definitions {
        bring(&api, definition).await?;
    }
    // All are made before the first is waited for: they become established side by side.
    for definition in definitions {
        established(&api, name(definition)).await?;
    }
    Ok(())
}

/// The names of the properties of a field at the top of a definition's version.
pub async fn properties(client: &Client, name: &str, version: &str, field: &str) -> Result<Vec<String>, kube::Error> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let definition = api.get(name).await?;
    let mut versions = definition.data["spec"]["versions"].as_array().into_iter().flatten();
    let found = versions.find(|one| one["name"] == version).map(|one| &one["schema"]["openAPIV3Schema"]["properties"]);
    let properties = found.and_then(|all| all[field]["properties"].as_object());
    Ok(properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect())
}

async fn bring(api: &Api<DynamicObject>, definition: &Value) -> Result<(), DefinitionError> {
    let name = name(definition);
    let refused = |source| DefinitionError::Api { name: name.to_owned(), source };
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    for _ in 0..ATTEMPTS {
        let live = api.get_opt(name).await.map_err(refused)?.map(|live| json!(live));
        let (done, written) = match step(definition, live.as_ref(), crate::version::BUILD.version) {
            Step::Create(new) => ("made", api.create(&parameters, &object(new)).await),
            Step::Replace(new) => ("brought up to date", api.replace(name, &parameters, &object(new)).await),
            Step::Keep => return Ok(()),
            Step::Foreign => {
                tracing::warn!(
                    definition = name,
                    "differs from what this release brings, and somebody else made it: it stays as it is; \
                     the annotation {RELEASE}=0.0.0 hands it over"
                );
                return Ok(());
            }
            Step::Newer { found, missing: None } => {
                tracing::error!(
                    definition = name,
                    found,
                    ours = crate::version::BUILD.version,
                    "the definition is of a newer release than this one, and stays as it is"
                );
                return Ok(());
            }
            Step::Newer { found, missing: Some(version) } => {
                let ours = crate::version::BUILD.version;
                return Err(DefinitionError::Newer { name: name.to_owned(), found, ours, version });
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(definition = name, "{done}");
                return Ok(());
            }
            // Somebody was faster: what is there now decides.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Err(DefinitionError::Contended { name: name.to_owned() })
}

/// Waits until objects of a definition can be written.
async fn established(api: &Api<DynamicObject>, name: &str) -> Result<(), DefinitionError> {
    let mut conditions = Value::Null;
    for _ in 0..LOOKS {
        let live = api.get_opt(name).await;
        let live = live.map_err(|source| DefinitionError::Api { name: name.to_owned(), source })?;
        conditions = live.map(|live| live.data["status"]["conditions"].clone()).unwrap_or_default();
        let mut list = conditions.as_array().into_iter().flatten();
        if list.any(|one| one["type"] == "Established" && one["status"] == "True") {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(DefinitionError::NotServed { name: name.to_owned(), conditions: conditions.to_string() })
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

/// Any JSON object is one.
fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("a definition is an object with metadata")
}
