//! A cluster that can be built: what both sorts of files are read into, checked, with every default decided.

use api::config::{AwsIpFamily, AwsResourceTag, FeatureSet, LoadBalancerKind, Scope, ServiceEndpoint, Topology};
use net::{Cidr, DualStack, Family, HasFamily, NodeBlocks, ServiceRange};
use std::{collections::BTreeMap, net::IpAddr};

/// Everything the plan needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub name: String,
    /// Name and suffix that mark everything of it in an account, at most 27 characters.
    pub infrastructure_name: String,
    /// Domain of Services and Pods.
    pub dns_domain: String,
    /// Domain under which it is known outside.
    pub base_domain: String,
    /// Ranges for Services, the default family first.
    pub services: DualStack<ServiceRange>,
    /// Ranges for Pods.
    pub pods: Option<DualStack<Cidr>>,
    /// How they are cut for nodes; absent when that is another's work.
    pub blocks: Option<DualStack<NodeBlocks>>,
    /// Which mask sizes the file gives, by family; the others are defaults.
    pub given_masks: Vec<Family>,
    /// Network plugin.
    pub network_type: String,
    /// Addresses of the API server.
    pub advertise: Option<DualStack<IpAddr>>,
    pub port: u16,
    /// Name or address, and port, that stands for all API servers.
    pub endpoint: Option<(String, u16)>,
    /// The same for nodes, where that differs.
    pub internal_endpoint: Option<(String, u16)>,
    /// Further names in its certificate.
    pub certificate_names: Vec<String>,
    /// Further addresses in it.
    pub certificate_addresses: Vec<IpAddr>,
    /// Where certificates are kept on the control plane.
    pub certificates_dir: String,
    /// Image of the static pods.
    pub image: String,
    /// etcd of one's own; without it state is kept beside the API server.
    pub etcd: Option<Etcd>,
    /// Arguments that the file adds, by component.
    pub extra_args: BTreeMap<&'static str, Vec<Arg>>,
    pub node: Node,
    /// How Services are carried: the proxy's mode, if the file has one.
    pub proxy_mode: Option<String>,
    /// Where it runs.
    pub platform: Platform,
    /// Replicas of what runs on control plane nodes.
    pub control_plane: Topology,
    /// Replicas of what runs elsewhere.
    pub infrastructure: Topology,
    /// Set of feature gates.
    pub feature_set: FeatureSet,
    /// Gates one by one, for the custom set.
    pub gates: BTreeMap<String, bool>,
}

impl Cluster {
    /// The family of Services that do not ask for one.
    pub fn primary(&self) -> Family {
        self.services.primary().family()
    }

    /// The address of the API server on its own machine.
    pub fn local(&self) -> IpAddr {
        self.advertise.map_or_else(|| self.primary().loopback(), |addresses| *addresses.primary())
    }
}

/// An etcd that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// URLs.
    pub servers: Vec<String>,
    /// Who signs its certificates.
    pub ca_file: Option<String>,
    /// Certificate and key to show.
    pub identity: Option<(String, String)>,
}

/// An argument of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Name without dashes.
    pub name: String,
    /// Its text.
    pub value: String,
    /// What happens to the value that is there without it.
    pub merge: Merge,
}

/// What an argument does to the one of the same name that the plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Takes its place.
    Replace,
    /// Stands before it, with a comma between them.
    Prepend,
    /// Stands after it, with a comma between them.
    Append,
}

/// The node that the file is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// Socket of the container runtime.
    pub cri_socket: Option<String>,
    /// `key=value:effect`.
    pub taints: Option<Vec<String>>,
}

/// Where a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Platform {
    /// On machines that nobody manages.
    None,
    Aws(Aws),
}

/// An AWS account as far as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aws {
    pub region: String,
    /// Families.
    pub ip_family: AwsIpFamily,
    /// Load balancers of routers.
    pub load_balancer: LoadBalancerKind,
    /// Who can reach them.
    pub scope: Scope,
    /// Addresses instead of the public ones.
    pub endpoints: Vec<ServiceEndpoint>,
    /// Tags for everything that is made.
    pub tags: Vec<AwsResourceTag>,
    /// Zone of the cluster in the VPC, by id; found by tags when not given.
    pub private_zone: Option<String>,
    /// ARN of the role to take on for that zone, if it is in another account.
    pub private_zone_role: Option<String>,
}
