//! What `up` needs of the operator: its flags, its start, and a word on how to ask.

use super::{local, options, start};
use api::config::{CLUSTER, ClusterNetwork, Network, NetworkSpec, NetworkStatus};
use dns::operator::{self, Operand, Options};
use net::{Cidr, DualStack, ServiceRange};
use runtime::{config::Settings, controller::Context, listen::Hosts};
use serde_json::{Value, json};
use std::path::Path;

/// The operator and its server in the process of `up`.
pub(crate) struct ForUp {
    options: Options,
}

impl ForUp {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings) -> Option<Self> {
        // Where its files and its way to the API are is known once the API server runs.
        let local = local(given, None, std::path::PathBuf::new())?;
        Some(Self { options: options(given, Operand::Process(local))? })
    }

    /// Starts both beside what has this context. Their files are beside the kubeconfig.
    pub(crate) fn start<O>(mut self, beside: &Context<O>, kubeconfig: &Path) {
        if let Operand::Process(local) = &mut self.options.operand {
            let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
            local.folder = kubeconfig.with_file_name("dns");
            local.kubeconfig = Some(kubeconfig);
            let (client, reports) = (beside.client(), self.options.reports.clone());
            operator::start_server(client, local.clone(), reports, beside.admin(), beside.tasks());
        }
        start(&beside.with_options(self.options));
    }

    /// Where DNS is answered, and how to ask.
    pub(crate) fn told(&self) -> (String, String) {
        let Operand::Process(local) = &self.options.operand else { return Default::default() };
        let addresses: Vec<std::net::IpAddr> = match &local.hosts {
            Hosts::Everywhere => net::Family::BOTH.map(net::Family::loopback).to_vec(),
            Hosts::Each(addresses) => addresses.iter().copied().collect(),
        };
        let sockets: Vec<String> =
            addresses.iter().map(|address| std::net::SocketAddr::new(*address, local.port).to_string()).collect();
        let first = addresses.first().map(ToString::to_string).unwrap_or_default();
        let (sockets, port) = match local.port {
            0 => ("on free ports; the log says which".to_owned(), "PORT".to_owned()),
            port => (sockets.join(", "), port.to_string()),
        };
        let domain = self.options.cluster_domain.to_string();
        let dig = format!("dig @{first} -p {port} kubernetes.default.svc.{} +short", domain.trim_end_matches('.'));
        (sockets, dig)
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
    json!(Network::new(api::config::CONFIG, "Network", None, CLUSTER, spec, status))
}
