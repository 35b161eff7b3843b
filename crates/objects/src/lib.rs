//! Kubernetes objects as types, to and from JSON, compiled once for all components.
//!
//! serde compiles the code of a type anew for each way of reading it (text, bytes, values, the buffers behind `flatten` and tagged
//! enums) and, where code is optimised, in each crate that reads it. A Pod is some two hundred types. So there is one way to
//! read and one to write, [`Decode`] and [`Encode`], and [`table`] compiles both for every kind here and nowhere else.
//! Components call these and never serde's functions on a type of `k8s-openapi` (docs/adr/0011-weight.md).

mod table;

use serde_json::Value;

/// Can be read from JSON.
pub trait Decode: Sized {
    /// Reads a whole text.
    fn decode(json: &str) -> serde_json::Result<Self>;
}

/// Can be written as JSON.
pub trait Encode {
    /// The text.
    fn encode(&self) -> serde_json::Result<Vec<u8>>;
}

/// Compiles [`Decode`] and [`Encode`] of these types into the crate that calls it; for custom resources. With `read` before
/// the types, [`Decode`] alone.
#[macro_export]
macro_rules! json {
    (read $($type:ty),+ $(,)?) => {$(
        impl $crate::Decode for $type {
            #[inline(never)]
            fn decode(json: &str) -> $crate::serde_json::Result<Self> {
                $crate::serde_json::from_str(json)
            }
        }
    )+};
    ($($type:ty),+ $(,)?) => {
        $crate::json!(read $($type),+);
        $(
            impl $crate::Encode for $type {
                #[inline(never)]
                fn encode(&self) -> $crate::serde_json::Result<Vec<u8>> {
                    $crate::serde_json::to_vec(self)
                }
            }
        )+
    };
}

#[doc(hidden)]
pub use serde_json;

/// Reads what is a value already. Not for what happens often: it is written and read again.
pub fn from_value<K: Decode>(value: &Value) -> serde_json::Result<K> {
    K::decode(&value.to_string())
}

/// The value of an object, with the same remark.
pub fn to_value<K: Encode + ?Sized>(object: &K) -> serde_json::Result<Value> {
    serde_json::from_slice(&object.encode()?)
}
