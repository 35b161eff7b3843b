//! `twinstack cloud-config sync`: keeps the ConfigMap that the cloud controller manager reads.

use super::super::Command;
use crate::{
    component,
    flag::{Flag, flag},
    manager::Manager,
};
use aws::cloud_config::sync::ALONE;
use runtime::{
    config::Settings,
    controller::{self, Context, Selection},
};

pub(crate) const COMMAND: Command = Command {
    name: "cloud-config sync",
    about: "keep the cloud-config of a cluster with its defaults",
    more: "Keeps ConfigMap cloud-conf in openshift-cloud-controller-manager: the text of kube-cloud-config in openshift-config-managed, or of the ConfigMap \
           in openshift-config that the Infrastructure names, with what `cloud-config transform` sets. The feature gate is read from the FeatureGate \
           object. A text with mistakes leaves the target as it is and becomes an event of its ConfigMap. Needs no account in AWS.",
    example: "twinstack cloud-config sync --kubeconfig ./data/admin.kubeconfig",
    flags: FLAGS,
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("kubeconfig", "FILE", "", "how to reach the API; the pod's service account when not given"),
    flag("leader-elect", "BOOL", "true", "work only while holding a lease, so that several can run and one works"),
    flag("leader-elect-lease-duration", "DURATION", "15s", "others wait this long after the last sign of life"),
    flag("leader-elect-renew-deadline", "DURATION", "10s", "give up after not having renewed for this long"),
    flag("leader-elect-retry-period", "DURATION", "2s", "time between attempts"),
    flag("leader-elect-resource-name", "NAME", LEASE, "the lease's name"),
    flag("leader-elect-resource-namespace", "NAMESPACE", "kube-system", "the lease's namespace"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "where health and metrics are served, to everyone who can reach it"),
    flag("secure-port", "PORT", "10268", "port for them, HTTPS; 0 serves nothing"),
    flag("tls-cert-file", "FILE", "", "certificate to show there; one is made when not given"),
    flag("tls-private-key-file", "FILE", "", "its key"),
];

const LEASE: &str = "cloud-config-sync";

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, manager) = settings.read(|given| Some((component::log(given), Manager::read(given, LEASE, 10268)?)))?;
    component::run(&log, async |admin, tasks| {
        let client = manager.connect("twinstack-cloud-config", &admin, &tasks).await?;
        let context = Context::new(client.clone(), (), &admin, &tasks);
        manager.lead(client, &tasks, move || {
            let all: Vec<_> = ALONE.iter().collect();
            controller::start(&context, &all, &Selection::default());
        });
        Ok(())
    })
}
