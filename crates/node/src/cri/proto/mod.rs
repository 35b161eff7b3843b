//! The messages of CRI v1 that a kubelet uses, in the same order as `api.proto`, without what is for Windows alone and what nobody here sets or reads.
//!
//! Checked in so that no build needs protoc; protobuf skips fields that are not named here.

mod container;
mod image;
mod sandbox;
mod stats;
mod status;
mod stream;

pub use container::*;
pub use image::*;
pub use sandbox::*;
pub use stats::*;
pub use status::*;
pub use stream::*;

/// A call: what is sent, where to, what comes back.
pub trait Rpc: prost::Message + 'static {
    /// Service and method.
    const PATH: &'static str;
    type Answer: prost::Message + Default + 'static;
}

macro_rules! rpc {
    ($request:ident -> $answer:ident, $path:literal) => {
        impl super::Rpc for $request {
            const PATH: &'static str = $path;
            type Answer = $answer;
        }
    };
}
use rpc;
