//! What becomes of values on their way between memory and where they last: in memory they are always plain.
//!
//! Every value that an engine writes or reads goes through the one `Transform` it was made with. The API server encrypts there.

use std::{borrow::Cow, fmt};

/// What stands before the keys of an embedded file when a value is bound to its place: as if it were in etcd, so that values
/// mean the same in both.
pub(crate) const EMBEDDED_PREFIX: &str = "/registry/";

/// Where a value is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorageKey<'a> {
    /// What stands before every key of this store, such as `/registry/`.
    pub prefix: &'a str,
    pub key: &'a str,
}

impl fmt::Display for StorageKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.key)
    }
}

/// A value that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plain<'a> {
    pub value: Cow<'a, [u8]>,
    /// Whether writing it again would give it another form, such as that of a newer key.
    pub stale: bool,
}

/// The way there and back.
pub trait Transform: Send + Sync + fmt::Debug {
    /// The stored form of a value, or why there is none now.
    fn seal<'a>(&self, storage_key: StorageKey<'_>, value: &'a [u8]) -> Result<Cow<'a, [u8]>, String>;

    /// The value of a stored form, or why it cannot be read.
    fn open<'a>(&self, storage_key: StorageKey<'_>, stored: &'a [u8]) -> Result<Plain<'a>, String>;
}

/// Values are stored as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsItIs;

impl Transform for AsItIs {
    fn seal<'a>(&self, _: StorageKey<'_>, value: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        Ok(Cow::Borrowed(value))
    }

    fn open<'a>(&self, _: StorageKey<'_>, stored: &'a [u8]) -> Result<Plain<'a>, String> {
        Ok(Plain { value: Cow::Borrowed(stored), stale: false })
    }
}
