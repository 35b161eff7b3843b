//! Who is asking, and may they: certificates and tokens (`authn`), roles, nodes and reviews (`authz`).
//!
//! [`Access`] is what the engine asks: the chain of authorizers and the indexes they look into.

pub mod authn;
pub mod authz;

use crate::{
    authn::{Impersonation, User},
    authz::{
        Attributes, Authorizer, Chain, Decision, forbidden, impersonate,
        node::NodeAuthorizer,
        pod_graph::PodGraph,
        rbac::{RbacIndex, RbacKind},
    },
};
use api::error::ApiError;
use serde_json::Value;
use std::sync::Arc;

/// Which authorizers are asked (`--authorization-mode`), in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Kubelets, about what their pods need.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Everything is allowed; for tests and closed labs.
    AlwaysAllow,
}

/// Everything is allowed.
struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::Allow("".into())
    }
}

/// The authorizers and what they know.
pub struct Access {
    chain: Chain,
    rbac: Arc<RbacIndex>,
    pods: Arc<PodGraph>,
}

impl Access {
    /// With these authorizers, after the one that lets `system:masters` in.
    pub fn new(modes: &[Mode]) -> Self {
        let rbac = Arc::new(RbacIndex::new());
        let pods = Arc::new(PodGraph::new());
        let chain = Chain::new(modes.iter().map(|mode| -> Arc<dyn Authorizer> {
            match mode {
                Mode::Node => Arc::new(NodeAuthorizer::new(pods.clone())),
                Mode::Rbac => rbac.clone(),
                Mode::AlwaysAllow => Arc::new(AlwaysAllow),
            }
        }));
        Self { chain, rbac, pods }
    }

    /// Refuses what nobody allows.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        match self.chain.authorize(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(forbidden(attributes, &reason)),
        }
    }

    /// The user that a request goes on as.
    pub fn impersonate(&self, user: &User, wish: Impersonation) -> Result<User, ApiError> {
        impersonate::impersonate(user, wish, &self.chain)
    }

    /// The chain, for reviews and admission.
    pub fn chain(&self) -> &dyn Authorizer {
        &self.chain
    }

    /// Roles and bindings.
    pub fn rbac(&self) -> &RbacIndex {
        &self.rbac
    }

    /// Everything below a storage prefix has been read anew; what is not among it is forgotten.
    pub fn replace(&self, storage: &str, objects: &[Value]) {
        match (storage, RbacKind::from_plural(storage)) {
            ("pods", _) => self.pods.replace(objects),
            (_, Some(kind)) => self.rbac.replace(kind, objects),
            _ => {}
        }
    }

    /// An object was stored (`Some`) or removed; the indexes follow.
    pub fn follow(&self, storage: &str, namespace: &str, name: &str, object: Option<&Value>) {
        match (storage, object) {
            ("pods", Some(pod)) => self.pods.set(pod),
            ("pods", None) => self.pods.remove(namespace, name),
            (storage, object) => {
                if let Some(kind) = RbacKind::from_plural(storage) {
                    match object {
                        Some(object) => self.rbac.set(kind, object),
                        None => self.rbac.remove(kind, namespace, name),
                    }
                }
            }
        }
    }
}
