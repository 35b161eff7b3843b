//! `twinstack apiserver` in an empty folder.

use super::{SERVICE_RANGES, System, free_addresses, wait_for};
use crate::{client::Target, credentials::Credentials, process::Process};
use std::{path::Path, time::Instant};

/// The administrator's, in the folder of the system.
pub(crate) const KUBECONFIG: &str = "data/admin.kubeconfig";

/// Starts it and waits for the kubeconfig, which it writes before it listens.
pub(crate) async fn start(program: &Path) -> anyhow::Result<System> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let [address] = free_addresses()?;
    let port = address.port().to_string();
    let data_text = data.display().to_string();
    let arguments = [
        "apiserver",
        "--data-dir",
        &data_text,
        "--secure-port",
        &port,
        "--bind-address",
        "127.0.0.1",
        "--service-cluster-ip-range",
        SERVICE_RANGES,
    ];
    let started = Instant::now();
    let mut processes = vec![Process::start(program, arguments, folder.path())?];
    let kubeconfig = folder.path().join(KUBECONFIG);
    let text = wait_for(&mut processes, "admin.kubeconfig", async || std::fs::read_to_string(&kubeconfig).ok()).await?;
    let target = Target { address, tls: Credentials::from_kubeconfig(&text)?.tls()? };
    Ok(System { name: "twinstack", target, started, processes, folder })
}
