//! A private certificate authority and what it signs, and the key that signs service account tokens.
//!
//! Called by `up` and `apiserver` at start, and by whoever serves TLS. All keys are ECDSA P-256. Everything is created
//! once and loaded afterwards; a file that is damaged or does not fit is an error that names it, never replaced.

mod authority;
mod bundle;
mod error;
mod identity;
mod pem;
mod purpose;
mod rotation;
mod subject;
mod token_key;
mod validity;

pub use authority::Authority;
pub use bundle::Bundle;
pub use error::PkiError;
pub use identity::Identity;
pub use purpose::Purpose;
pub use rotation::Rotating;
pub use token_key::TokenKey;
pub use validity::{Validity, rotate_at, rotation_due};

#[cfg(test)]
mod tests;
