//! CustomResourceDefinitions at work: what they define is served while they exist.

use crate::ApiServer;

/// Publishes the resources of all definitions.
pub fn publish(_server: &ApiServer) {}
