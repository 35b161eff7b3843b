//! What a Service takes from the cluster's pools while it is written: held until the write succeeds, given back if it does not.

use crate::{call::Call, request::query::DryRun};
use api::error::ApiError;
use serde_json::Value;

/// The pools.
#[derive(Default)]
pub struct Services {}

/// What one write has taken. Dropped without `commit`, everything goes back.
#[must_use]
pub struct Reserved {}

impl Reserved {
    /// Nothing was needed.
    pub fn none() -> Self {
        Self {}
    }
    /// The write succeeded.
    pub fn commit(self) {}
}

impl Services {
    /// A new object.
    pub fn create(&self, _call: &Call, _object: &mut Value, _dry_run: DryRun) -> Result<Reserved, ApiError> {
        Ok(Reserved::none())
    }
    /// A changed one.
    pub fn update(&self, _call: &Call, _object: &mut Value, _old: &Value, _dry_run: DryRun) -> Result<Reserved, ApiError> {
        Ok(Reserved::none())
    }
    /// A deleted one.
    pub fn deleted(&self, _call: &Call, _old: &Value, _dry_run: DryRun) {}
}
