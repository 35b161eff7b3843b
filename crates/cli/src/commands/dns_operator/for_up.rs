//! What `up` needs of the operator: its flags, its start, and a word on how to ask.

use super::{super::up::Part, local, options, start};
use api::config::{CLUSTER, ClusterNetwork, NetworkSpec, NetworkStatus};
use dns::operator::{self, Operand, OperatorOptions, Program, Reports};
use net::{Cidr, DualStack, ServiceRange};
use runtime::{
    config::Settings,
    controller::Context,
    listen::{self, Hosts, Machine},
    operator::Network,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

/// The operator and its server in the process of `up`.
pub(crate) struct ForUp {
    options: OperatorOptions,
    /// Where there are nodes: the image of the cluster's servers, which are Pods. The server of this process is then for the machine alone.
    pods: Option<String>,
}

impl ForUp {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings) -> Self {
        // Where its files and its way to the API are is known once the API server runs.
        let local = local(given, None, std::path::PathBuf::new());
        Self { options: options(given, Operand::Process(local)), pods: None }
    }

    /// Has the cluster's servers run as Pods of this image.
    pub(crate) fn run_in_pods(&mut self, image: String) {
        self.pods = Some(image);
    }

    /// Has the server of this machine answer what DNSRecords ask for.
    pub(crate) fn answer_records(&mut self) {
        if let Operand::Process(local) = &mut self.options.operand {
            local.records = true;
        }
    }

    /// The domain of Services.
    pub(crate) fn domain(&self) -> String {
        self.options.cluster_domain.to_string().trim_end_matches('.').to_owned()
    }

    /// Starts both beside what has this context. Their files are beside the kubeconfig.
    pub(crate) fn start<O>(mut self, beside: &Context<O>, kubeconfig: &Path) {
        if let Operand::Process(local) = &mut self.options.operand {
            let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
            local.folder = kubeconfig.with_file_name("dns");
            local.kubeconfig = Some(kubeconfig);
            local.hosts = super::there(&local.hosts);
            let (client, reports) = (beside.client(), self.options.reports.clone());
            operator::start_server(client, local.clone(), reports, beside.admin(), beside.tasks());
        }
        if let Some(image) = self.pods {
            self.options.operand = Operand::Workload { image, program: Program::default() };
            // Pods report for themselves.
            self.options.reports = Reports::default();
        }
        start(&beside.with_options(self.options));
    }

    /// What there is to see of the server, before and after the start.
    pub(crate) fn serving(&self) -> Serving {
        let Operand::Process(local) = &self.options.operand else { return Serving::default() };
        Serving { hosts: Some(local.hosts.clone()), domain: self.domain(), reports: self.options.reports.clone() }
    }
}

/// How far the server has come.
#[derive(Default)]
pub(crate) struct Serving {
    /// As the flag says.
    hosts: Option<Hosts>,
    domain: String,
    reports: Reports,
}

impl Serving {
    /// What of `--dns-bind-address` this machine does not have.
    pub(crate) fn lacking(&self) -> Option<String> {
        self.hosts.as_ref()?.lacking(Machine::look())
    }

    /// Where DNS is answered now, and how to ask.
    pub(crate) fn look(&self) -> (Part, Option<String>) {
        let report = self.reports.all().into_values().next().unwrap_or_default();
        let (Some(hosts), Some(_)) = (&self.hosts, &report.hash) else {
            let why = report.problem.unwrap_or_else(|| "it has not been started yet; the log says more".to_owned());
            return (Part::Missing(why), None);
        };
        // Blocks of a Corefile share addresses, unless each has a free port.
        let mut places = listen::reachable(hosts, &report.addresses, Machine::look());
        let mut seen = BTreeSet::new();
        places.retain(|place| seen.insert(*place));
        let dig = places.first().map(|first| {
            let name = format!("kubernetes.default.svc.{}", self.domain);
            format!("dig @{} -p {} {name} +short", first.ip(), first.port())
        });
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        (Part::Serves(places.join(", ")), dig)
    }
}

/// What operators read: the definitions and the Network of the cluster as the flags of `up` say; nothing where `init` gave a
/// Network already.
pub(crate) fn objects(
    given: &[Value],
    services: &DualStack<ServiceRange>,
    pods: Option<DualStack<Cidr>>,
) -> Vec<Value> {
    if given.iter().any(|object| object["kind"] == "Network") {
        return Vec::new();
    }
    let mut objects = api::config::definitions();
    objects.push(network(services, pods));
    objects
}

fn network(services: &DualStack<ServiceRange>, pods: Option<DualStack<Cidr>>) -> Value {
    let service_network: Vec<String> = services.iter().map(|range| range.cidr().to_string()).collect();
    let range = |cidr: Cidr| ClusterNetwork { cidr: cidr.to_string(), host_prefix: None };
    let cluster_network: Vec<ClusterNetwork> = pods.into_iter().flatten().map(range).collect();
    let spec = NetworkSpec {
        cluster_network: cluster_network.clone(),
        service_network: service_network.clone(),
        network_type: "Twinstack".to_owned(),
        rest: Default::default(),
    };
    let status = NetworkStatus {
        cluster_network,
        service_network,
        network_type: spec.network_type.clone(),
        rest: Default::default(),
    };
    json!(Network::new(None, CLUSTER, spec).with_status(status))
}
