//! `twinstack router`: Routes and Ingresses, served by HAProxy.

use super::Command;
use crate::{
    component::{self, Log},
    flag::{Flag, flag},
    kubeconfig, read,
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
    flags: &[&[kubeconfig::FLAG], FLAGS],
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("haproxy", "FILE", "haproxy", "HAProxy's program, 2.6 or newer"),
    flag("working-dir", "FOLDER", "/var/lib/twinstack/router", "where HAProxy's files and sockets are kept"),
    flag("haproxy-user", "USER|UID[:GID]|none", "haproxy, or 65533 where there is no such user", "who HAProxy becomes, in a folder with its sockets alone, when the router is root; none: the router's own user"),
    flag("keep-haproxy", "BOOL", "false", "leave HAProxy serving when this is told to stop"),
];

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, kubeconfig, options) =
        settings.read(|given| Some((component::log(given), kubeconfig::read(given), options(given))))?;
    let settings = RouterSettings::from_environment(std::env::vars())
        .map_err(|mistakes| anyhow::anyhow!("the environment cannot be used:\n  {}", mistakes.join("\n  ")))?;
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

fn options(given: &mut Settings) -> RouterOptions {
    let text = |text: &str| Ok::<_, String>(text.to_owned());
    RouterOptions {
        haproxy: given.or("haproxy", "haproxy".to_owned(), "a program", text),
        folder: given.or("working-dir", PathBuf::from("/var/lib/twinstack/router"), "a folder", read::path),
        user: given.or(
            "haproxy-user",
            User::default(),
            "a user other than root, UID, UID:GID, or none",
            str::parse::<User>,
        ),
        keep_haproxy: given.or("keep-haproxy", false, "true, false", str::parse::<bool>),
    }
}
