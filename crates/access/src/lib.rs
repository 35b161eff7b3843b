//! Who is asking, and may they: certificates and tokens (`authn`), roles, nodes and reviews (`authz`).
//!
//! [`Access`] is what the engine asks: the chain of authorizers and the indexes they look into.

pub mod authn;
pub mod authz;

use crate::{
    authn::{Impersonation, User},
    authz::{
        Attributes, Authorizer, Chain, Decision, Rules, forbidden, impersonate,
        node::NodeAuthorizer,
        pod_graph::PodGraph,
        rbac::{RbacIndex, RbacKind},
    },
};
use api::error::ApiError;
use arc_swap::ArcSwap;
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
    /// Nothing is.
    AlwaysDeny,
}

/// One of several authorizers.
#[derive(Clone)]
pub enum Layer {
    /// One of this crate.
    Mode(Mode),
    /// Another one: a webhook.
    Other(Arc<dyn Authorizer>),
}

/// Nothing is allowed that nobody before allowed.
struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::NoOpinion("Everything is forbidden.".into())
    }
}

/// Everything is allowed.
struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::Allow("".into())
    }
}

/// The chain in force. Another takes its place while requests go on.
struct Current(ArcSwap<Chain>);

impl Authorizer for Current {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.0.load().authorize(attributes)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.0.load().rules_for(user, namespace)
    }
}

/// The authorizers and what they know.
pub struct Access {
    chain: Current,
    rbac: Arc<RbacIndex>,
    pods: Arc<PodGraph>,
}

impl Access {
    /// With these authorizers, after the one that lets `system:masters` in.
    pub fn new(modes: &[Mode]) -> Self {
        Self::layered(modes.iter().copied().map(Layer::Mode))
    }

    /// The same with authorizers of other crates among them.
    pub fn layered(layers: impl IntoIterator<Item = Layer>) -> Self {
        let access = Self {
            chain: Current(ArcSwap::from_pointee(Chain::new([]))),
            rbac: Arc::new(RbacIndex::new()),
            pods: Arc::new(PodGraph::new()),
        };
        access.replace_layers(layers);
        access
    }

    /// From now on these are asked, with the same roles, bindings and pods.
    pub fn replace_layers(&self, layers: impl IntoIterator<Item = Layer>) {
        let chain = Chain::new(layers.into_iter().map(|layer| -> Arc<dyn Authorizer> {
            match layer {
                Layer::Mode(Mode::Node) => Arc::new(NodeAuthorizer::new(self.pods.clone())),
                Layer::Mode(Mode::Rbac) => self.rbac.clone(),
                Layer::Mode(Mode::AlwaysAllow) => Arc::new(AlwaysAllow),
                Layer::Mode(Mode::AlwaysDeny) => Arc::new(AlwaysDeny),
                Layer::Other(other) => other,
            }
        }));
        self.chain.0.store(Arc::new(chain));
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
            ("persistentvolumes", _) => self.pods.replace_volumes(objects),
            ("volumeattachments", _) => self.pods.replace_attachments(objects),
            (_, Some(kind)) => self.rbac.replace(kind, objects),
            _ => {}
        }
    }

    /// An object was stored (`Some`) or removed; the indexes follow.
    pub fn follow(&self, storage: &str, namespace: &str, name: &str, object: Option<&Value>) {
        match (storage, object) {
            ("pods", Some(pod)) => self.pods.set(pod),
            ("pods", None) => self.pods.remove(namespace, name),
            ("persistentvolumes", volume) => self.pods.set_volume(name, volume),
            ("volumeattachments", attachment) => self.pods.set_attachment(name, attachment),
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
