//! The loop of an IngressController: admit, apply every object, look at what there is, tell.
//!
//! Early steps end the pass; later ones are collected, so that one that fails does not keep the others from being done.

use super::{
    OperatorOptions,
    admit::{self, Refused},
    cluster::Cluster,
    metrics,
    names::{self, Names, OPERAND_NAMESPACE, OPERATOR_NAMESPACE},
    objects::{
        ApiServerConfig, DnsConfig, DnsRecord, Infrastructure, IngressConfig, IngressController, Network, singleton,
    },
    plan::{Input, deployment, live, proxy_protocol, services, small},
    process::Processes,
    remove,
    status::{
        self, Observed,
        operand::{self, Operand},
    },
};
use api::config::{AwsIpFamily, DnsZone, PublishingKind, Topology};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Namespace, Pod, Service},
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
};
use parking_lot::Mutex;
use runtime::{
    client::Api,
    controller::{Context, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    operator::{
        Children, Discovery,
        discovery::{ApiKind, MUTATING_POLICY, NETWORK_POLICY, SERVICE_MONITOR},
    },
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How often copies of ConfigMaps are compared with their sources.
const COPIES: Duration = Duration::from_secs(300);

/// What is made where the API has it.
const OPTIONAL: &[ApiKind] = &[MUTATING_POLICY, NETWORK_POLICY, SERVICE_MONITOR];

/// How often the default certificate is looked at.
const CERTIFICATE: Duration = Duration::from_secs(12 * 3600);

/// Everything the loop reads and writes through.
pub(super) struct Controllers {
    pub(super) client: Client,
    pub(super) children: Children,
    pub(super) controllers: Store<IngressController>,
    pub(super) records: Store<DnsRecord>,
    pub(super) deployments: Store<Deployment>,
    pub(super) services: Store<Service>,
    config: Config,
    pub(super) events: Events,
    pub(super) options: OperatorOptions,
    pub(super) processes: Processes,
    pub(super) discovery: Discovery,
    pub(super) gauges: Arc<metrics::Gauges>,
}

/// What a pass has come upon.
#[derive(Clone, Copy)]
struct Found<'a> {
    /// The load balancer Service, if it is ours.
    balancer: Option<&'a Service>,
    /// What there is to say against the default certificate.
    certificate: Option<&'a str>,
    failures: &'a [String],
}

/// The cluster's configuration.
#[derive(Clone)]
struct Config {
    infrastructure: Store<Infrastructure>,
    ingress: Store<IngressConfig>,
    dns: Store<DnsConfig>,
    network: Store<Network>,
    api_server: Store<ApiServerConfig>,
    /// The families of load balancers that were logged last.
    logged: Arc<Mutex<Option<AwsIpFamily>>>,
}

/// What is made of it, with the zone of the lab where no other is named.
impl Config {
    fn read(&self, options: &OperatorOptions) -> Cluster {
        let mut cluster = Cluster::read(
            singleton(&self.infrastructure).as_deref(),
            singleton(&self.ingress).as_deref(),
            singleton(&self.dns).as_deref(),
            singleton(&self.network).as_deref(),
            singleton(&self.api_server).as_deref(),
        );
        if cluster.zones.is_empty() {
            cluster.zones.extend(options.own_zone.clone().map(|id| DnsZone { id, ..DnsZone::default() }));
        }
        // Whoever looks for the reason why a family is missing finds here what was read.
        if cluster.is("AWS") && self.logged.lock().replace(cluster.ip_family) != Some(cluster.ip_family) {
            tracing::info!(
                ip_family = cluster.ip_family.name(),
                "the IP family of load balancers was read from the Infrastructure"
            );
        }
        cluster
    }
}

/// Runs the loop.
pub(super) async fn run(context: Context<OperatorOptions>) -> Result<()> {
    super::define(&context.client()).await?;
    let discovery = Discovery::new(context.client(), OPTIONAL).await?;
    let config = Config {
        infrastructure: context.store(),
        ingress: context.store(),
        dns: context.store(),
        network: context.store(),
        api_server: context.store(),
        logged: Arc::default(),
    };
    let controllers = context.store_in::<IngressController>(OPERATOR_NAMESPACE);
    let records = context.store::<DnsRecord>();
    let deployments = context.store_in::<Deployment>(OPERAND_NAMESPACE);
    let services = context.store_in::<Service>(OPERAND_NAMESPACE);
    let queue: Queue<Key> = context.queue("ingress");
    let owner = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(names::OWNING).map(|name| Key::new(OPERATOR_NAMESPACE, name))
    };
    let default = Key::new(OPERATOR_NAMESPACE, names::DEFAULT);
    let everything = {
        let (queue, controllers, default) = (queue.clone(), controllers.clone(), default.clone());
        move || {
            queue.add(default.clone());
            controllers.all().iter().for_each(|controller| queue.add(Key::of(&**controller)));
        }
    };
    let _controllers = controllers.on_change({
        let (queue, everything) = (queue.clone(), everything.clone());
        move |change| {
            queue.add(change.key());
            // A domain that becomes free may be what another one waits for.
            let domain = |one: &Arc<IngressController>| one.status.as_ref().and_then(|status| status.domain.clone());
            if change.old.is_some() && change.old.and_then(domain) != change.new.and_then(domain) {
                everything();
            }
        }
    });
    let _deployments = deployments.on_change({
        let queue = queue.clone();
        move |change| owner(change.object().labels()).into_iter().for_each(|key| queue.add(key))
    });
    let _services = services.on_change({
        let queue = queue.clone();
        move |change| change.both().filter_map(|one| owner(one.labels())).for_each(|key| queue.add(key))
    });
    let _records = records.on_change({
        let queue = queue.clone();
        move |change| owner(change.object().labels()).into_iter().for_each(|key| queue.add(key))
    });
    macro_rules! all_on_change {
        ($($store:ident),*) => { ($(config.$store.on_change({ let all = everything.clone(); move |_| all() })),*) };
    }
    let _config = all_on_change!(infrastructure, ingress, dns, network, api_server);
    context.synced(&[&controllers, &records, &deployments, &services]).await;
    context.synced(&[&config.infrastructure, &config.ingress, &config.dns, &config.network]).await;
    // Not every API has it.
    config.api_server.known().await;
    queue.add(default);
    let processes = context.lasting(Processes::new);
    let _processes = processes.on_change({
        let queue = queue.clone();
        move |name| queue.add(Key::new(OPERATOR_NAMESPACE, name))
    });
    let controller = Controllers {
        client: context.client(),
        children: Children::new(context.client(), super::MANAGER),
        controllers,
        records,
        deployments,
        services,
        config,
        events: context.events("ingress-operator"),
        options: context.options().clone(),
        processes: (*processes).clone(),
        discovery,
        gauges: context.lasting(|_| metrics::Gauges::new(&context.admin().metrics)),
    };
    tokio::select! {
        ended = work(&queue, 1, &controller) => ended,
        () = controller.discovery.follow(everything) => Ok(()),
    }
}

impl Reconcile for Controllers {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        if key.namespace != OPERATOR_NAMESPACE {
            return Ok(Next::Done);
        }
        let cluster = self.config.read(&self.options);
        let Some(controller) = self.controllers.get(key) else {
            self.processes.stop(self.options.process.as_ref(), &key.name);
            self.gauges.forget(&key.name);
            return self.create_default(key, &cluster).await;
        };
        if controller.metadata.deletion_timestamp.is_some() {
            return remove::remove(self, &controller).await;
        }
        if let Some(written) = self.children.finalizer(&*controller, names::CONTROLLER_FINALIZER, true).await? {
            self.controllers.remember(written);
        }
        let Some(controller) = self.controllers.get(key) else { return Ok(Next::Done) };
        let others = self.other_domains(&controller);
        let names = Names::of(&controller.name_any());
        match admit::admit(&controller, &others, &cluster) {
            Err(Refused(wrong)) => {
                let status = status::refused(&controller, &wrong, Timestamp::now());
                if self.is_news(&controller, "False", &wrong.join("; ")) {
                    self.events.warning(&reference(&*controller), "Rejected", wrong.join("; ")).await;
                }
                self.children.status(&self.controllers, &controller, &status).await?;
                self.gauges.show(&key.name, &status, false);
                Ok(Next::Done)
            }
            Ok(admission) => {
                let input = Input { controller: &controller, admission: &admission, cluster: &cluster, names: &names };
                self.tell_admission(input).await;
                self.serve(input, &controller).await
            }
        }
    }
}

impl Controllers {
    pub(super) fn api(&self) -> Api<IngressController> {
        Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE)
    }

    fn other_domains(&self, controller: &IngressController) -> Vec<(String, String)> {
        let admitted = |one: &&Arc<IngressController>| {
            let status = one.status.as_ref();
            one.name_any() != controller.name_any()
                && status.is_some_and(|status| {
                    status.conditions.iter().any(|condition| condition.kind == "Admitted" && condition.status == "True")
                })
        };
        let all = self.controllers.all();
        let domain = |one: &Arc<IngressController>| Some((one.name_any(), one.status.as_ref()?.domain.clone()?));
        all.iter().filter(admitted).filter_map(domain).collect()
    }

    /// Whether the Admitted condition is about to change.
    fn is_news(&self, controller: &IngressController, status: &str, message: &str) -> bool {
        let conditions = controller.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let known = conditions.iter().find(|condition| condition.kind == "Admitted");
        known.is_none_or(|known| known.status != status || known.message != message)
    }

    async fn tell_admission(&self, input: Input<'_>) {
        let before = input.controller.status.as_ref().and_then(|status| status.endpoint_publishing_strategy.as_ref());
        if !before.is_some_and(proxy_protocol::is_chosen)
            && let Some(warning) = proxy_protocol::warning(input)
        {
            self.events.warning(&reference(input.controller), "ProxyProtocolFromEverybody", warning).await;
        }
        let message = input.admission.without_effect.join("; ");
        if !self.is_news(input.controller, "True", &message) {
            return;
        }
        let object = reference(input.controller);
        self.events.normal(&object, "Admitted", "the IngressController is served").await;
        if !message.is_empty() {
            self.events.warning(&object, "NoEffect", message).await;
        }
        if input.admission.foreign_domain && input.admission.strategy.kind == PublishingKind::LoadBalancerService {
            let note = format!(
                "the domain {:?} is not below the base domain {:?}; its records are left to somebody else",
                input.admission.domain, input.cluster.base_domain
            );
            self.events.warning(&object, "DomainNotMatching", note).await;
        }
    }

    /// The default IngressController, if the cluster is to have one and it is not there.
    async fn create_default(&self, key: &Key, cluster: &Cluster) -> Result<Next> {
        let wanted = key.name == names::DEFAULT
            && cluster.platform.is_some()
            && !cluster.domain.is_empty()
            && cluster.control_plane != Topology::External;
        if !wanted {
            return Ok(Next::Done);
        }
        let namespace =
            || Ok(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}));
        self.children.create_once::<Namespace>(None, OPERATOR_NAMESPACE, namespace).await?;
        let mut new = IngressController::new(Some(OPERATOR_NAMESPACE), names::DEFAULT, Default::default());
        new.spec.replicas = Some(cluster.replicas());
        if cluster.is("AWS") && cluster.balancer == Some(api::config::LoadBalancerKind::Nlb) {
            // Said outright, so that the Ingress configuration may change later without changing this one.
            let mut strategy = super::strategy::wanted(None, None, cluster, true);
            if let Some(aws) = strategy.aws_mut() {
                aws.network_load_balancer = None;
            }
            new.spec.endpoint_publishing_strategy = Some(strategy);
        }
        match self.api().create(&PostParams::default(), &new).await {
            Ok(created) => self.controllers.remember(created),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }

    async fn serve(&self, input: Input<'_>, object: &Arc<IngressController>) -> Result<Next> {
        self.base().await?;
        let mut failures: Vec<String> = Vec::new();
        let mut note = |what: &str, outcome: Result<()>| {
            if let Err(error) = outcome {
                failures.push(format!("{what}: {error}"));
            }
        };
        // Routers must agree with the load balancer that stands in front of them now.
        let live = self.service(&input.names.router).filter(|live| live::is_owned(live, &input.names.controller));
        // Routers are not told to read what is not there.
        let mut certificate = None;
        let prepared = match self.certificate(input).await {
            Ok(complaint) => {
                certificate = complaint;
                self.copies(input).await
            }
            Err(error) => Err(error),
        };
        match prepared {
            Ok(()) => note("routers", self.operand(input, live.as_deref()).await),
            missing => note("routers", missing),
        }
        note("published certificate", self.publish_certificate(input).await);
        note("load balancer Service", self.balancer(input).await);
        let live = self.service(&input.names.router).filter(|live| live::is_owned(live, &input.names.controller));
        note("DNSRecord", self.record(input, live.as_deref()).await);
        note("NodePort Service", self.plain(input, &input.names.node_port, services::node_port(input)).await);
        note("internal Service", self.plain(input, &input.names.internal, Some(services::internal(input))).await);
        note("endpoints", self.processes.endpoints(&self.children, &self.options, input, &self.services).await);
        note("disruption budget", self.budget(input).await);
        note("network policies", self.network_policies(input).await);
        note("metrics", self.monitor(input).await);
        note("IngressClass", self.class(input).await);
        let found = Found { balancer: live.as_deref(), certificate: certificate.as_deref(), failures: &failures };
        self.report(input, object, found).await
    }

    async fn report(
        &self,
        input: Input<'_>,
        object: &Arc<IngressController>,
        Found { balancer: live, certificate, failures }: Found<'_>,
    ) -> Result<Next> {
        let wanted = deployment::replicas(input);
        let operand = match self.options.process.is_some() {
            true => self.processes.operand(&input.names.controller),
            false => match self.deployments.get(&Key::new(OPERAND_NAMESPACE, &input.names.router)) {
                Some(deployment) => self.with_homeless(input, Operand::of(&deployment)).await,
                None => Operand::nothing(wanted),
            },
        };
        let complaint = self.complaint(live).await;
        let record = self.records.get(&Key::new(OPERATOR_NAMESPACE, &input.names.record));
        let observed = Observed {
            operand: &operand,
            balancer: live,
            complaint: complaint.as_deref(),
            record: record.as_deref(),
            certificate,
            failures,
        };
        let (status, look_again) = status::status(input, observed, Timestamp::now());
        self.children.status(&self.controllers, object, &status).await?;
        self.gauges.show(&input.names.controller, &status, metrics::hairpin_risk(input));
        // Nobody tells when the source of a copy changes, or when a certificate is about to end.
        let copied = (!small::copies(input).is_empty()).then_some(COPIES);
        let look_again = look_again.into_iter().chain(copied).chain([CERTIFICATE]).min();
        match failures.is_empty() {
            true => Ok(look_again.map_or(Next::Done, |after| Next::After(after + Duration::from_secs(1)))),
            false => Err(failures.join("; ").into()),
        }
    }

    /// Adds what the scheduler says of routers that no node takes, while there are too few.
    async fn with_homeless(&self, input: Input<'_>, mut operand: Operand) -> Operand {
        if operand.available >= operand.least() {
            return operand;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let ours = ListParams::default().labels(&format!("{}={}", names::DEPLOYMENT, input.names.controller));
        // What cannot be asked is not said.
        let pods = pods.list(&ours).await.map(|list| list.items).unwrap_or_default();
        operand.homeless = pods.iter().filter_map(operand::homeless).collect();
        operand
    }

    /// What the service controller last said about a load balancer that is not there.
    async fn complaint(&self, service: Option<&Service>) -> Option<String> {
        let service = service?;
        let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
        if ingress.is_some_and(|list| !list.is_empty()) {
            return None;
        }
        let uid = service.uid()?;
        let events: Api<Event> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid},reason=SyncLoadBalancerFailed"));
        // What cannot be asked is not said.
        let list = events.list(&about).await.ok()?;
        list.items
            .into_iter()
            .max_by_key(|event| event.last_timestamp.clone().map(|time| time.0))
            .and_then(|event| event.message)
    }
}
