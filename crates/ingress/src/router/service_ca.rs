//! The authority that certificates of Services are checked against where a Route names none.

use super::model;
use runtime::pki::Authority;
use std::{fs, path::Path, time::SystemTime};

/// The file's content. None while it is not there, is empty or cannot be read: what was read last stays good.
pub(super) fn read(file: &Path) -> Option<String> {
    let pem = fs::read_to_string(file).ok()?;
    match model::authorities(&pem) {
        Ok(pem) => Some(pem),
        Err(problem) => {
            if !pem.trim().is_empty() {
                tracing::warn!(file = %file.display(), problem, "authorities of Services stay as they were");
            }
            None
        }
    }
}

/// An authority that has signed nothing and whose key nobody has: until the real one comes, no pod passes for a Service's.
pub(super) fn nobody() -> Result<String, String> {
    let authority = Authority::create("no authority yet", SystemTime::now()).map_err(|error| error.to_string())?;
    Ok(authority.certificate_pem().to_owned())
}
