//! Addresses, CIDRs and pools for two IP families. Every other crate may call it; its README follows.
#![doc = include_str!("../README.md")]

mod address;
mod address_error;
mod cidr;
mod cidr_text;
mod dual_stack;
mod family;
pub mod flags;
pub mod legacy;
mod mistakes;
mod node_blocks;
mod pool;
mod port_range;
mod service_range;
mod text;

pub use address::{is_canonical, parse_ip};
pub use address_error::{AddressError, AddressProblem};
pub use cidr::Cidr;
pub use cidr_text::{CidrError, CidrProblem};
pub use dual_stack::{DualStack, HasFamily, NotDualStack, SameFamily};
pub use family::{Families, FamiliesError, Family, UnknownFamily};
pub use mistakes::Mistakes;
pub use node_blocks::{MaskError, NodeBlocks, NodeMaskFlags, default_node_mask, node_blocks};
pub use pool::{
    Audit, NodeCidrPool, NodePortPool, Pool, Reservation, ReserveError, RestoreError, ServiceIpPool, Snapshot, Space,
    Span,
};
pub use port_range::{PortRange, PortRangeError};
pub use service_range::{ServiceRange, ServiceRangeError};
