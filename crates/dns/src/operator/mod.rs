//! The operator: the DNS resource becomes a Corefile and the objects that serve it.
//!
//! The way of data: stores -> [`cluster`] and [`check`] -> [`corefile`] and [`objects`] (pure) -> `runtime::operator` -> [`conditions`].
//! What it manages runs either as a DaemonSet or, on a machine without real nodes, in this process (`process`).

pub mod check;
pub mod cluster;
pub mod conditions;
mod controller;
pub mod corefile;
pub mod objects;
mod process;
mod servers;
mod stock;

pub use process::{Local, start as start_server};
pub use servers::{Report, Reports};

use runtime::controller::Controller;
use std::time::Duration;

/// The one DNS resource that is looked at.
pub const DNS: &str = "default";
/// Where servers and what belongs to them live.
pub const NAMESPACE: &str = api::rights::DNS_NAMESPACE;
/// Name of ConfigMap, DaemonSet and Service.
pub const NAME: &str = "dns-default";
/// Where bundles of authorities are read.
pub const CONFIG_NAMESPACE: &str = api::rights::CONFIG_NAMESPACE;
/// Port of servers in Pods.
pub const PORT: u16 = 5353;
/// Whose objects these are.
pub const OWNER_LABEL: &str = "dns.operator.openshift.io/owning-dns";
/// What the Pods of the DaemonSet have in common.
pub const POD_LABEL: &str = "dns.operator.openshift.io/daemonset-dns";
/// In whose name fields are owned and events told.
pub const MANAGER: &str = "dns-operator";

/// What runs the Corefile.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A DaemonSet.
    Workload {
        /// The image of its Pods.
        image: String,
        program: Program,
    },
    /// The server in this process.
    Process(Local),
}

/// A program that executes Corefiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// Our own server.
    #[default]
    Twinstack,
    /// The stock one.
    CoreDns,
}

/// What the flags say.
#[derive(Clone, Debug)]
pub struct OperatorOptions {
    /// What runs the Corefile.
    pub operand: Operand,
    /// The domain of Services.
    pub cluster_domain: crate::wire::Name,
    /// The release whose feature gates count, if it is known.
    pub release: Option<String>,
    /// What servers say they run.
    pub reports: Reports,
    /// How often servers of Pods are asked while one of them lags.
    pub poll: Duration,
}

/// Its controllers: there is one.
pub const CONTROLLERS: &[Controller<OperatorOptions>] = &[Controller {
    name: "dns-operator-controller",
    alias: "dns-operator",
    default_on: true,
    run: |context| Box::pin(controller::run(context)),
}];
