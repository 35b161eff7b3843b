//! `postStart` and `preStop`: asked like probes, but once, and only whether it could be done counts.

use super::{
    exec::{self, Ended},
    http::{Asker, Question},
    target::Target,
};
use crate::cri::Runtime;
use k8s_openapi::api::core::v1::LifecycleHandler;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Does what a hook says, within `patience`.
pub async fn handle(
    handler: &LifecycleHandler,
    target: &Target<'_>,
    runtime: &Runtime,
    patience: Duration,
) -> Result<(), String> {
    let done = async {
        if let Some(action) = &handler.exec {
            let command = action.command.as_deref().unwrap_or_default();
            return match exec::run(command, target, runtime, patience).await? {
                Ended::Well => Ok(()),
                Ended::Badly(code, output) => {
                    Err(format!("command '{}' exited with {code}: {output}", command.join(" ")))
                }
                Ended::Late => Err(format!("command '{}' timed out after {}s", command.join(" "), patience.as_secs())),
            };
        }
        if let Some(action) = &handler.http_get {
            let question = Question::new(action, target, Asker::Lifecycle)?;
            // Whatever is answered: it has been heard.
            return question.ask().await.map(drop).map_err(|why| format!("Get {:?}: {why}", question.url()));
        }
        if let Some(action) = &handler.sleep {
            sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or_default())).await;
            return Ok(());
        }
        Err("invalid handler: exec, httpGet and sleep are accepted".to_owned())
    };
    timeout(patience, done)
        .await
        .unwrap_or_else(|_| Err(format!("the hook did not end within {}s", patience.as_secs())))
}
