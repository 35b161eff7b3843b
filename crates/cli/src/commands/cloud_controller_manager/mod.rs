//! `twinstack cloud-controller-manager`: load balancers, routes and nodes of a cloud, against any Kubernetes.

mod account;
pub(super) mod dns;
pub(super) mod plan;

use super::{Command, controller_manager};
use crate::{
    component,
    flag::{DefaultFlag, Flag, KUBECONFIG, cidrs, duration, flags, positive, switch, word},
    gates,
    manager::{Manager, Own},
};
use account::{AccountKind, Opened};
use aws::{
    apply::{Aws, Caution, Leftovers},
    cloud_config,
    cloud_config::CloudConfig,
    model::{self, names::Cluster},
    nodes,
    preflight::{self, ForRoutes},
};
use control::{
    framework::{self, ControllerOptions},
    routes,
    service_lb::{
        self,
        provider::{Provider, Providers},
    },
};
use net::{Cidr, DualStack};
use runtime::{
    config::Settings,
    controller::{self, Controller, Events, Selection, reference},
    task::Tasks,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

pub(super) const COMMAND: Command = Command {
    name: "cloud-controller-manager",
    about: "make load balancers, routes and node facts in AWS",
    more: "Services of type LoadBalancer get network load balancers with security groups, dual-stack where the Service asks for both families, \
           or classic ones. Nodes get their provider id, addresses and zone; pods get routes. Flags are those of cloud-controller-manager where it has \
           them. Region, credentials and endpoints are found as AWS's own tools find them; docs/guide/aws-iam.md lists the permissions. \
           --aws-account example works on an account in memory that refuses what AWS refuses: to try things out.",
    example: "printf '[Global]\\nNLBSecurityGroupMode = Managed\\n' > cloud.conf\n\
              twinstack cloud-controller-manager --kubeconfig ./data/admin.kubeconfig --cloud-config cloud.conf --aws-account example",
    flags: &[&[&KUBECONFIG], FLAGS, &OWN.flags(), gates::FLAGS],
    positional: None,
    long_running: true,
    check: |given| {
        gates::idle(given);
        flags(given).map(drop)
    },
    run,
};

flags! {
    pub(crate) FLAGS:
    CLOUD_PROVIDER: DefaultFlag<()> = Flag::new("cloud-provider", "NAME", "aws", cloud_provider, "the cloud: aws").or("aws");
    CLOUD_CONFIG: Flag<CloudConfig> = Flag::new("cloud-config", "FILE", "a readable cloud-config", cloud_config, "what to know about the account; gcfg or YAML");
    AWS_ACCOUNT: DefaultFlag<AccountKind> = Flag::new("aws-account", "aws|example", "aws, example", aws_account, "where the account is: at AWS, or an example in memory").or("aws");
    CLUSTER_NAME: DefaultFlag<String> = word("cluster-name", "NAME", "a name", "part of the names of security groups").or("kubernetes");
    CONTROLLERS: DefaultFlag<Picked> = Flag::new("controllers", "NAME,...", "", picked, "which to run: * for all that are on by default, a name, -name for not that one").or("*");
    CONCURRENT_SERVICE_SYNCS: DefaultFlag<usize> = controller_manager::CONCURRENT_SERVICE_SYNCS;
    CONFIGURE_CLOUD_ROUTES: DefaultFlag<bool> = switch("configure-cloud-routes", "make routes for pod CIDRs; needs --cluster-cidr").or("true");
    CLUSTER_CIDR: Flag<DualStack<Cidr>> = cidrs("cluster-cidr", "addresses of pods, one range or one of each family; other routes are left alone");
    ROUTE_RECONCILIATION_PERIOD: DefaultFlag<Duration> = controller_manager::ROUTE_RECONCILIATION_PERIOD;
    LEFTOVERS_PERIOD: DefaultFlag<Duration> = duration("leftovers-period", "how often what is left of Services that are gone is looked for").or("10m");
    LEFTOVERS: DefaultFlag<Leftovers> = Flag::new("leftovers", "remove|report", "remove, report", leftovers, "what happens to it: told of and then removed, or told of only").or("remove");
    LEFTOVERS_MIN_AGE: DefaultFlag<Duration> = duration("leftovers-min-age", "how long it is found, and told of, before it is removed").or("1h");
    LEFTOVERS_MAX_REMOVALS: DefaultFlag<usize> = positive("leftovers-max-removals", "how many things are removed at a time").or("20");
}

pub(super) const OWN: Own = Own::new("cloud-controller-manager", "10258").upstreams();
/// Of `control`'s controllers, those that work with a cloud.
const SHARED: &[&str] = &["service-lb-controller", "node-route-controller"];

/// Everything the flags say.
struct Flags {
    manager: Manager,
    config: CloudConfig,
    account_kind: AccountKind,
    cluster_name: String,
    picked: Picked,
    workers: usize,
    clusters: Vec<Cidr>,
    route_period: Duration,
    sweep: Duration,
    caution: Caution,
}

/// `--controllers`, for the two rooms that controllers come from.
pub(crate) struct Picked {
    shared: Selection,
    own: Selection,
}

fn own() -> Vec<&'static Controller<nodes::NodeOptions>> {
    nodes::CONTROLLERS.iter().chain(cloud_config::sync::CONTROLLERS).collect()
}

fn shared() -> Vec<&'static framework::Controller> {
    control::controllers().into_iter().filter(|one| SHARED.contains(&one.name)).collect()
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, remarks, flags) =
        settings.read(|given| Some((component::log(given), gates::idle(given), flags(given)?)))?;
    component::remark(&remarks);
    let Flags { manager, config, account_kind, cluster_name, picked, workers, clusters, route_period, sweep, caution } =
        flags;
    component::run(&log, async |admin, tasks| {
        let client = manager.connect("twinstack-cloud-controller-manager", &admin, &tasks).await?;
        let Opened { account, region, cluster } =
            account::open(account_kind, &config, &cluster_name, &admin.metrics).await?;
        let leftovers = nodes::leftovers_metric(&admin.metrics);
        let begin = {
            let (client, tasks) = (client.clone(), tasks.clone());
            move |uid: Option<String>| {
                let table = Some(config.global.route_table.clone()).filter(|table| !table.is_empty());
                let settings = model::Settings::of(&config, Cluster { uid, ..cluster });
                let aws = Arc::new(Aws::new(account, settings).with_route_table(table));
                tell_in_events(&aws, Events::new(client.clone(), "service-controller"), &tasks);
                let routes = if clusters.is_empty() { ForRoutes::NotNeeded } else { ForRoutes::Needed };
                preflight::look(Arc::clone(&aws), routes, client.clone(), &admin, &tasks);
                let provider = Provider::shared(Arc::<Aws>::clone(&aws));
                let options = ControllerOptions {
                    service_lb: service_lb::ServiceLbOptions {
                        providers: Providers { default: Some(provider.clone()), ..Providers::default() },
                        workers,
                    },
                    routes: routes::RouteControllerOptions {
                        provider: Some(provider).filter(|_| !clusters.is_empty()),
                        clusters,
                        period: route_period,
                    },
                    ..ControllerOptions::default()
                };
                let families = config.node_families();
                let own_options = nodes::NodeOptions { provider: aws, families, region, sweep, caution, leftovers };
                let shared_context = framework::Context::new(client, options, &admin, &tasks);
                let own_context = shared_context.with_options(own_options);
                framework::start(&shared_context, &shared(), &picked.shared);
                controller::start(&own_context, &own(), &picked.own);
            }
        };
        manager.lead(client.clone(), &tasks.clone(), move || {
            tasks.once("cluster-identity", |stop| async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    uid = nodes::cluster_uid(&client) => begin(uid),
                }
                Ok::<_, std::convert::Infallible>(())
            });
        });
        tracing::info!("cloud controller manager is ready");
        Ok(())
    })
}

/// Notes about a Service become events of it, one after the other and beside the work on Services.
fn tell_in_events(aws: &Aws, events: Events, tasks: &Tasks) {
    let (sender, mut notes) = mpsc::unbounded_channel();
    aws.report_notes_to(Box::new(move |service, note| {
        // Fails only while the process ends.
        let _ = sender.send((reference(service), note.clone()));
    }));
    tasks.once("events", |stop| async move {
        let write = async {
            while let Some((object, note)) = notes.recv().await {
                events.warning(&object, note.reason, note.message).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = write => {}
        }
        Ok::<_, std::convert::Infallible>(())
    });
}

fn flags(given: &mut Settings) -> Option<Flags> {
    given.get(&CLOUD_PROVIDER);
    let routes = given.get(&CONFIGURE_CLOUD_ROUTES);
    let clusters = given.optional(&CLUSTER_CIDR).filter(|_| routes);
    Some(Flags {
        manager: Manager::read(given, &OWN),
        config: given.optional(&CLOUD_CONFIG).unwrap_or_default(),
        account_kind: given.get(&AWS_ACCOUNT),
        cluster_name: given.get(&CLUSTER_NAME),
        picked: given.get(&CONTROLLERS),
        workers: given.get(&CONCURRENT_SERVICE_SYNCS),
        clusters: clusters.map(|pair| pair.into_iter().collect()).unwrap_or_default(),
        route_period: given.get(&ROUTE_RECONCILIATION_PERIOD),
        sweep: given.get(&LEFTOVERS_PERIOD),
        caution: Caution {
            leftovers: given.get(&LEFTOVERS),
            age: given.get(&LEFTOVERS_MIN_AGE),
            most: given.get(&LEFTOVERS_MAX_REMOVALS),
        },
    })
}

fn cloud_provider(text: &str) -> Result<(), String> {
    if text == "aws" { Ok(()) } else { Err(format!("there is no provider {text:?} here")) }
}

fn leftovers(text: &str) -> Result<Leftovers, String> {
    match text {
        "remove" => Ok(Leftovers::Remove),
        "report" => Ok(Leftovers::Report),
        other => Err(format!("leftovers are not {other:?} here")),
    }
}

fn aws_account(text: &str) -> Result<AccountKind, String> {
    match text {
        "aws" => Ok(AccountKind::Aws),
        "example" => Ok(AccountKind::Example),
        other => Err(format!("there is no account {other:?} here")),
    }
}

fn cloud_config(path: &str) -> Result<CloudConfig, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (config, warnings) = CloudConfig::parse(&text).map_err(|error| error.to_string())?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {path}: {warning}");
    }
    Ok(config)
}

/// Each word goes to the room that knows it; `*` to both.
fn picked(text: &str) -> Result<Picked, String> {
    let (known_shared, known_own) = (shared(), own());
    let (mut for_shared, mut for_own) = (Vec::new(), Vec::new());
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches('-');
        let is = |one: &str, alias: &str| one == name || alias == name;
        let to_shared = name == "*" || known_shared.iter().any(|one| is(one.name, one.alias));
        let to_own = name == "*" || known_own.iter().any(|one| is(one.name, one.alias));
        if to_shared {
            for_shared.push(word);
        }
        if to_own {
            for_own.push(word);
        }
        if !to_shared && !to_own {
            let names = known_shared.iter().map(|one| one.name).chain(known_own.iter().map(|one| one.name));
            return Err(format!("{word:?} is no controller; there are {}", names.collect::<Vec<_>>().join(", ")));
        }
    }
    let (list_shared, list_own) = (for_shared.join(","), for_own.join(","));
    Ok(Picked {
        shared: Selection::parse(&list_shared, &known_shared).map_err(|error| error.to_string())?,
        own: Selection::parse(&list_own, &known_own).map_err(|error| error.to_string())?,
    })
}
