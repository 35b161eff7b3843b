//! `twinstack apiserver`: a Kubernetes API server with its own store, or on etcd.

mod idle;
mod settings;

use super::Command;
use crate::{component, gates};
use runtime::config::Settings;

pub(crate) use settings::{BIND_ADDRESS, DATA_DIR, FLAGS, SECURE_PORT, SERVICE_CLUSTER_IP_RANGE, read};

pub(super) const COMMAND: Command = Command {
    name: "apiserver",
    about: "serve the Kubernetes API",
    more: "State is kept in the data folder, or in etcd when --etcd-servers is given; keys and values are those of Kubernetes. \
           Certificates, a signing key and an administrator's kubeconfig are made when there are none. Flags are those of \
           kube-apiserver where it has them; every one can also stand in the file of --config, or in the environment as \
           TWINSTACK_APISERVER_ and its name in capitals.",
    example: "twinstack apiserver --data-dir ./data --service-cluster-ip-range 10.96.0.0/16,fd00:10:96::/112\n\
              kubectl --kubeconfig ./data/admin.kubeconfig get namespaces",
    flags: &[FLAGS, idle::FLAGS, gates::FLAGS],
    positional: None,
    long_running: true,
    check: |given| {
        remarks(given);
        read(given).map(drop)
    },
    run,
};

/// What was given and changes nothing.
fn remarks(given: &mut Settings) -> Vec<String> {
    let mut lines = given.idle(idle::FLAGS);
    lines.extend(gates::idle(given));
    lines
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, remarks, options) = settings.read(|given| Some((component::log(given), remarks(given), read(given)?)))?;
    component::remark(&remarks);
    let writes_kubeconfig = options.writes_kubeconfig;
    component::run(&log, async |admin, tasks| {
        let started = apiserver::launch::start(options, admin, &tasks).await?;
        for address in &started.addresses {
            tracing::info!(%address, "listening");
        }
        match writes_kubeconfig {
            true => tracing::info!(kubeconfig = %started.kubeconfig.display(), "API server is ready"),
            false => tracing::info!("API server is ready"),
        }
        Ok(())
    })
}
