//! `twinstack kubelet`: the Pods of a node, with an address of each family.

pub(crate) mod file;
mod serve;
mod settings;

use super::Command;
use crate::{component, flag::KUBECONFIG};
use node::{
    certificates::{ClientRotation, Files, Rotation, bootstrap},
    kubelet,
};
use runtime::{
    client::{self, Renewable},
    config::Settings,
    controller::Context,
    http::{Limits, Server},
    listen,
};
use std::{path::Path, time::SystemTime};

pub(crate) const CONFIG_DIR: &str = settings::CONFIG_DIR.name;

pub(crate) const COMMAND: Command = Command {
    name: "kubelet",
    about: "run Pods on a node",
    more: "Registers this machine as a Node with its addresses of both families, and runs the Pods that are bound to it through a container runtime \
           (containerd, CRI-O) with the real CNI plugins: every Pod has an address of each family of the node's pod CIDRs. Needs root. \
           Containers go on when it stops; the next start takes them over. Flags are those of upstream's kubelet where it has them; every one can \
           also stand in the file of --config, or in the environment as TWINSTACK_KUBELET_ and its name in capitals.",
    example: "twinstack kubelet --kubeconfig ./node.kubeconfig --node-ip 192.0.2.1,2001:db8::1\n\
              twinstack kubelet --kubeconfig ./node.kubeconfig --cni ptp --image-dir /var/lib/twinstack/images",
    flags: &[&[&KUBECONFIG], settings::FLAGS],
    positional: None,
    long_running: true,
    check: |given| settings::read(given).map(drop),
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, options) = settings.read(|given| Some((component::log(given), settings::read(given)?)))?;
    let settings::Read { kubeconfig, joining, healthz, serving, kubelet } = options;
    component::run(&log, async |admin, tasks| {
        if let Some((hosts, port)) = healthz {
            let listeners = listen::tcp(settings::HEALTHZ_PORT.name, &hosts, port)?;
            let server = Server { listeners, tls: None, limits: Limits::default() };
            let service = admin.clone().service();
            tasks.serve("healthz", |stop| async move { server.run(service, stop).await.map(|_| ()) });
        }
        tracing::info!(node = kubelet.node.name, "kubelet starts");
        if let Some(given) = &joining.bootstrap {
            bootstrap(given).await?;
        }
        let (client, rotation) = connect(kubeconfig.as_deref(), &joining, &kubelet.node.name).await?;
        let mut served = serving.map(|serving| serve::prepare(serving, &kubelet, kubeconfig.as_deref())).transpose()?;
        let rotation = Rotation { client: rotation, serving: served.as_mut().and_then(serve::Prepared::rotation) };
        let context = Context::new(client.clone(), (), &admin, &tasks);
        let serve = |runtime| served.map(|served| served.options(client, runtime));
        kubelet::start(&context, kubelet, rotation, serve).await?;
        Ok(())
    })
}

/// How the API is reached, and what keeps the certificate for that fresh.
async fn connect(
    kubeconfig: Option<&Path>,
    joining: &settings::Joining,
    node: &str,
) -> Result<(kube::Client, Option<ClientRotation>), client::ClientError> {
    const NAME: &str = "twinstack-kubelet";
    match kubeconfig {
        Some(path) if joining.rotate => {
            let files = Files::client(&joining.cert_dir);
            let known = files.current(SystemTime::now());
            let connection = Renewable::read(path, NAME, known.as_ref()).await?;
            Ok((connection.client(), Some(ClientRotation { node: node.to_owned(), files, connection })))
        }
        _ => Ok((client::connect(kubeconfig, NAME).await?, None)),
    }
}
