//! `twinstack router`: Routes and Ingresses, served by HAProxy.

use super::Command;
use crate::{
    component::{self, Log},
    flag::{DefaultFlag, Flag, KUBECONFIG, flags, folder, switch, text},
    read,
};
use ingress::router::{self, RouterOptions, haproxy::User, settings::Settings as RouterSettings};
use runtime::{client, config::Settings, watch::report};
use std::path::PathBuf;

pub(super) const COMMAND: Command = Command {
    name: "router",
    about: "serve Routes and Ingresses through HAProxy",
    more: "Watches Routes, Ingresses, Services and EndpointSlices and drives HAProxy, which it starts. What OpenShift's router \
           reads from the environment (ROUTER_*, STATS_*, ROUTE_LABELS and so on) it reads too; the guide lists what is \
           honoured. HAProxy goes on serving when the router dies, and the next one takes it over without a gap.",
    example: "ROUTER_IP_V4_V6_MODE=v4v6 ROUTER_SERVICE_HTTP_PORT=8080 ROUTER_SERVICE_HTTPS_PORT=8443 \\\n  \
              twinstack router --kubeconfig ./admin.kubeconfig --working-dir /tmp/router",
    flags: &[&[&KUBECONFIG], FLAGS],
    positional: None,
    long_running: true,
    check: |given| asked(given).map(drop),
    run,
};

flags! {
    FLAGS:
    HAPROXY: DefaultFlag<String> = text("haproxy", "FILE", "a program", "HAProxy's program, 2.6 or newer").or_else("haproxy on the PATH or in /usr/sbin", haproxy);
    WORKING_DIR: DefaultFlag<PathBuf> = folder("working-dir", "where HAProxy's files and sockets are kept").or("/var/lib/twinstack/router");
    HAPROXY_USER: DefaultFlag<User> = Flag::new("haproxy-user", "USER|UID[:GID]|none", "a user other than root, UID, UID:GID, or none", read::parsed, "who HAProxy becomes, in a folder with its sockets alone, when the router is root; none: the router's own user").or_else("haproxy, or 65533 where there is no such user", User::default);
    KEEP_HAPROXY: DefaultFlag<bool> = switch("keep-haproxy", "leave HAProxy serving when this is told to stop").or("false");
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, (kubeconfig, options)) = settings.read(|given| Some((component::log(given), asked(given)?)))?;
    let settings = RouterSettings::from_environment(std::env::vars()).map_err(|mistakes| {
        let lines: String = mistakes.iter().map(|mistake| format!("\n  {mistake}")).collect();
        anyhow::anyhow!("the environment cannot be used:{lines}")
    })?;
    serve(&log, kubeconfig, settings, options)
}

fn serve(
    log: &Log,
    kubeconfig: Option<PathBuf>,
    settings: RouterSettings,
    options: RouterOptions,
) -> anyhow::Result<()> {
    let grace = router::grace(&settings);
    component::run_within(log, grace, async |admin, tasks| {
        let client = client::connect(kubeconfig.as_deref(), "twinstack-router").await?;
        component::report(client.clone(), "router", report::NAMESPACE.to_owned(), &tasks);
        tracing::info!(router = settings.name, ?settings.listen, "router starts");
        router::start(client, settings, options, &admin, &tasks).map_err(|error| anyhow::anyhow!("{error}"))
    })
}

/// An ordinary user's PATH does not lead to it where Debian has it.
fn haproxy() -> String {
    lab::program("haproxy").map_or_else(|| "haproxy".to_owned(), |path| path.display().to_string())
}

fn asked(given: &mut Settings) -> Option<(Option<PathBuf>, RouterOptions)> {
    let options = RouterOptions {
        haproxy: given.get(&HAPROXY),
        folder: given.get(&WORKING_DIR),
        user: given.get(&HAPROXY_USER),
        keep_haproxy: given.get(&KEEP_HAPROXY),
    };
    Some((given.optional(&KUBECONFIG), options))
}
