//! Bringing plans into the kernel, one room per mechanism.

pub mod iptables;
pub mod ipvs;
pub mod nft;

use crate::{
    plan::{LocalPods, NodePortMatch, ServicePlan},
    track::Name,
};
use net::{Cidr, Family};

/// Why the kernel could not be changed. Always tried again, with everything.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// What a change comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of one family, in whatever the kernel keeps them. They outlive the process, and the next one takes them over
/// without a moment at which there are none.
pub trait Backend: std::fmt::Debug + Send {
    fn family(&self) -> Family;

    /// Whether the next sync must be told about all Services: what the kernel has is not known, or rules that all share
    /// are different.
    fn wants_everything(&self, fixed: &Fixed) -> bool;

    /// Makes `plans` true: all of them when [`wants_everything`](Self::wants_everything), else those that changed; an empty
    /// plan is a Service that is gone. A frontend is in one plan at most, and changes hands within one sync. After an error the next sync wants everything.
    fn sync(&mut self, fixed: &Fixed, plans: &mut dyn Iterator<Item = (Name, ServicePlan)>) -> Result<Done>;

    /// Looks whether the rules are as they were left. When they are not, the next sync wants everything.
    fn check(&mut self) -> Result<bool>;

    /// Removes what nothing leads to any more and could not be removed at once.
    fn tidy(&mut self) -> Result<()>;

    /// Takes nothing for granted from here on: the next sync wants everything.
    fn forget(&mut self);

    /// How many rules there are since the last sync that went well, where that depends on Services.
    fn rules(&self) -> &[RuleCount] {
        &[]
    }
}

/// The rules of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// Its name.
    pub table: &'static str,
    /// As many as there are.
    pub held: usize,
    /// As many as the last sync wrote.
    pub written: usize,
}

/// What all Services of a family share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The bit of a packet's mark that asks for masquerading.
    pub masquerade_mark: u32,
    /// Masquerade everything to cluster IPs.
    pub masquerade_all: bool,
    /// Who is a pod.
    pub local: LocalPods,
    /// Where node ports are open.
    pub node_ports: NodePortMatch,
    /// Where the cluster's Services have their addresses, of this family.
    pub service_cidrs: Vec<Cidr>,
}

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The kernel has it already.
    Nothing,
    /// Elements of some Services.
    Partial,
    /// The whole table.
    Full,
}
