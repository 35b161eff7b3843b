//! Groups and versions that other servers answer for (APIService): metrics-server and the like.
//!
//! `keep` follows the objects: `index` says which path leads to which server, `plan` and a request to the server itself whether
//! it is there, `documents` what it says of itself, `register` writes down what this server answers for. `handle` asks `remote`
//! once a request is allowed; `proxy` passes it on in the name of its sender, who is believed because of the certificate that
//! `front_proxy` shows. A server that is away answers for nobody else, and nobody else answers for it.

mod backend;
mod documents;
pub mod front_proxy;
mod index;
mod keep;
mod order;
mod plan;
pub(crate) mod proxy;
mod register;

#[cfg(test)]
mod tests;

pub(crate) use documents::Told;
pub use front_proxy::FrontProxy;
pub(crate) use index::Remote;
pub(crate) use keep::{is_settled, prime, run};
pub(crate) use order::{Group, Source, groups};

use crate::{ApiServer, request::info::RequestInfo};
use arc_swap::ArcSwap;
use documents::Documents;
use index::Index;
use runtime::pki::Identity;
use std::sync::Arc;

/// Where APIServices are stored.
pub(crate) const PREFIX: &str = "apiregistration.k8s.io/apiservices/";
const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// What is known of other servers.
#[derive(Default)]
pub struct Aggregation {
    /// Whom they see when they are asked, and whom this server believes in turn.
    pub front_proxy: FrontProxy,
    index: ArcSwap<Index>,
    documents: Documents,
}

impl Aggregation {
    /// With what the administrator said.
    pub fn new(front_proxy: FrontProxy) -> Self {
        Self { front_proxy, ..Self::default() }
    }

    /// Who answers a request, if it is not this server.
    pub(crate) fn remote(&self, info: &RequestInfo) -> Option<Arc<Remote>> {
        let (group, version) = match info {
            RequestInfo::Resource(asked) => (asked.group.as_str(), asked.version.as_str()),
            RequestInfo::Path { path, .. } => match path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice() {
                ["apis", group, version, ..] => (*group, *version),
                ["api", version, ..] => ("", *version),
                _ => return None,
            },
        };
        self.index.load().get(group, version)
    }

    /// Who answers for the OpenAPI document with this key (`apis/GROUP/VERSION`).
    pub(crate) fn documented(&self, parts: &[&str]) -> Option<Arc<Remote>> {
        match parts {
            ["v3", "apis", group, version] => self.index.load().get(group, version),
            ["v3", "api", version] => self.index.load().get("", version),
            _ => None,
        }
    }

    /// All other servers' groups and versions.
    pub(crate) fn remotes(&self) -> Vec<Arc<Remote>> {
        self.index.load().iter().cloned().collect()
    }

    /// The documents of version 3 that other servers have, by key, with where they are.
    pub(crate) fn openapi(&self) -> Vec<(String, String)> {
        let index = self.index.load();
        let told = index.iter().filter(|remote| remote.available).filter_map(|remote| {
            let url = self.told(remote)?.v3.clone()?;
            Some((remote.path().trim_start_matches('/').to_owned(), url))
        });
        told.collect()
    }

    /// What a server says of itself.
    pub(crate) fn told(&self, remote: &Remote) -> Option<Arc<Told>> {
        self.documents.of(&remote.name)
    }

    fn identity(&self) -> Option<&Identity> {
        self.front_proxy.identity.as_ref()
    }
}

/// Who the server is when it asks for itself.
fn myself() -> access::authn::User {
    access::authn::User::new("system:kube-aggregator", ["system:masters"])
}

/// Passes on a request for an OpenAPI document, in the server's own name: who may read one document may read all.
pub(crate) async fn document(
    server: &Arc<ApiServer>,
    remote: &Remote,
    uri: &http::Uri,
    headers: &http::HeaderMap,
) -> http::Response<crate::Body> {
    documents::pass(server, remote, uri, headers).await
}
