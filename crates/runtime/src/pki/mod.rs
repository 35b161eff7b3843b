//! A private certificate authority and what it signs, and the key that signs service account tokens.
//!
//! Called by `up` and `apiserver` at start, and by whoever serves TLS. All keys are ECDSA P-256. Everything is created
//! once and loaded afterwards; a file that is damaged or does not fit is an error that names it, never replaced.

mod authority;
mod bundle;
mod detached;
mod error;
mod identity;
mod pem;
mod pending;
mod purpose;
mod request;
mod rotation;
mod subject;
mod token_key;
mod validity;

pub use authority::Authority;
pub use bundle::Bundle;
pub use detached::{detached_signature, sha256_hex};
pub use error::PkiError;
pub use identity::Identity;
pub use pending::{PendingKey, Wish};
pub use purpose::Purpose;
pub use request::{CertificateRequest, RequestError};
pub use rotation::Rotating;
pub use token_key::TokenKey;
pub use validity::{Validity, rotate_at, rotation_due};

#[cfg(test)]
mod tests;
