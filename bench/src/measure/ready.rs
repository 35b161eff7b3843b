//! Ready from empty: `/readyz` says so, and the namespace `default` is there.

use crate::system::System;
use http::StatusCode;
use std::time::Duration;

/// Waits, and tells how long it took since the start of the process.
pub(super) async fn wait(system: &mut System) -> anyhow::Result<Duration> {
    let target = system.target.clone();
    let is_ready = async || {
        let mut connection = target.connect().await.ok()?;
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let (status, _) = connection.get(path).await.ok()?;
            if status != StatusCode::OK {
                return None;
            }
        }
        Some(())
    };
    system.wait_for("readiness", is_ready).await?;
    Ok(system.started.elapsed())
}
