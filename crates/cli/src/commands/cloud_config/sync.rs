//! `twinstack cloud-config sync`: keeps the ConfigMap that the cloud controller manager reads.

use super::super::Command;
use crate::{
    component,
    flag::{KUBECONFIG, RELEASE_VERSION},
    manager::{Manager, Own},
};
use aws::cloud_config::sync::{ALONE, SyncOptions};
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
    flags: &[&[&KUBECONFIG, &RELEASE_VERSION], &OWN.flags()],
    positional: None,
    long_running: true,
    check: |given| flags(given).map(drop),
    run,
};

pub(crate) const OWN: Own = Own::new("cloud-config-sync", "10268");

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, (manager, release)) = settings.read(|given| Some((component::log(given), flags(given)?)))?;
    component::run(&log, async |admin, tasks| {
        let client = manager.connect("twinstack-cloud-config", &admin, &tasks).await?;
        let context = Context::new(client.clone(), SyncOptions { release }, &admin, &tasks);
        manager.lead(client, &tasks, move || {
            let all: Vec<_> = ALONE.iter().collect();
            controller::start(&context, &all, &Selection::default());
        });
        Ok(())
    })
}

fn flags(given: &mut Settings) -> Option<(Manager, Option<String>)> {
    let release = given.optional(&RELEASE_VERSION);
    Some((Manager::read(given, &OWN), release))
}
