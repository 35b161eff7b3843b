//! Questions by a program in the container: it ends well or not.

use super::{state::Answer, target::Target};
use crate::cri::{Runtime, proto::ExecSyncRequest};
use k8s_openapi::api::core::v1::ExecAction;
use std::time::Duration;
use tonic::Code;

/// As much of what it prints as is shown.
const LONGEST_OUTPUT: usize = 10 * 1024;

/// How a program ended.
pub(super) enum Ended {
    Well,
    /// With what it printed.
    Badly(i32, String),
    Late,
}

pub(super) async fn run(
    command: &[String],
    target: &Target<'_>,
    runtime: &Runtime,
    patience: Duration,
) -> Result<Ended, String> {
    let seconds = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX).max(1);
    let request =
        ExecSyncRequest { container_id: target.container_id.to_owned(), cmd: command.to_vec(), timeout: seconds };
    // The runtime ends the program in time; a little more is for its answer.
    match runtime.call_within(request, patience + Duration::from_secs(2)).await {
        Ok(answer) if answer.exit_code == 0 => Ok(Ended::Well),
        Ok(answer) => {
            let mut output = [answer.stdout, answer.stderr].concat();
            output.truncate(LONGEST_OUTPUT);
            Ok(Ended::Badly(answer.exit_code, String::from_utf8_lossy(&output).into_owned()))
        }
        Err(error) if error.code == Code::DeadlineExceeded => Ok(Ended::Late),
        Err(error) => Err(error.message),
    }
}

pub(super) async fn probe(action: &ExecAction, target: &Target<'_>, runtime: &Runtime, patience: Duration) -> Answer {
    let command = action.command.as_deref().unwrap_or_default();
    match run(command, target, runtime, patience).await {
        Ok(Ended::Well) => Answer::Healthy,
        Ok(Ended::Badly(_, output)) => Answer::Unhealthy(output),
        Ok(Ended::Late) => Answer::Unhealthy(format!(
            "command timed out: {:?} timed out after {}s",
            command.join(" "),
            patience.as_secs()
        )),
        Err(why) => Answer::Unknown(why),
    }
}
