//! Which group and version leads to which server, read from the stored APIServices.

use crate::{
    kubelet::tls::{speaking_http1, unverified},
    webhook::trusting,
};
use api::{kinds::api_service::available_condition, object::Fields};
use runtime::pki::Identity;
use rustls::{ClientConfig, sign::SingleCertAndKey};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Another server that answers for a group and version.
pub(crate) struct Remote {
    /// Of the APIService.
    pub(crate) name: String,
    uid: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    pub(crate) service: ServiceRef,
    /// As the condition says; without it nothing is passed on.
    pub(crate) available: bool,
    trust: Trust,
    /// How to talk to it, or why that cannot be.
    pub(super) tls: Result<Arc<ClientConfig>, String>,
}

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl ServiceRef {
    /// The name that its certificate is for.
    pub(super) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

/// Whose word is taken for who answers there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trust {
    /// Anybody's (`insecureSkipTLSVerify`).
    Anybody,
    /// That of a `caBundle`, base64 of PEM; empty is what the machine trusts.
    Bundle(String),
}

impl Remote {
    /// From a stored object; none when it is served here. What has not changed since `before` is taken from it.
    fn read(object: &Value, before: Option<&Arc<Self>>, identity: Option<&Identity>) -> Option<Self> {
        let (spec, service) = (object.at("spec"), object.at("spec.service"));
        if !service.is_object() {
            return None;
        }
        let trust = match spec.is_true("insecureSkipTLSVerify") {
            true => Trust::Anybody,
            false => Trust::Bundle(spec.str_at("caBundle").to_owned()),
        };
        let tls = match before.filter(|before| before.trust == trust) {
            Some(before) => before.tls.clone(),
            None => client(&trust, identity),
        };
        Some(Self {
            name: object.str_at("metadata.name").to_owned(),
            uid: object.str_at("metadata.uid").to_owned(),
            group: spec.str_at("group").to_owned(),
            version: spec.str_at("version").to_owned(),
            group_priority: spec.int_at("groupPriorityMinimum").unwrap_or_default(),
            version_priority: spec.int_at("versionPriority").unwrap_or_default(),
            service: ServiceRef {
                namespace: service.str_at("namespace").to_owned(),
                name: service.str_at("name").to_owned(),
                port: service.int_at("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
            },
            available: available_condition(object).is_some_and(|condition| condition.str_at("status") == "True"),
            trust,
            tls,
        })
    }

    /// Whether what was learned of one holds for the other: the same object that leads to the same place.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        (&self.uid, &self.service, &self.trust) == (&other.uid, &other.service, &other.trust)
    }

    /// `/apis/GROUP/VERSION`.
    pub(super) fn path(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

fn client(trust: &Trust, identity: Option<&Identity>) -> Result<Arc<ClientConfig>, String> {
    let mut config = match trust {
        Trust::Anybody => Arc::unwrap_or_clone(unverified(None)),
        Trust::Bundle(bundle) => Arc::unwrap_or_clone(trusting(bundle, None)?),
    };
    if let Some(identity) = identity {
        let shown = identity.certified_key().map_err(|error| error.to_string())?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
    }
    Ok(speaking_http1(config))
}

/// All of them.
#[derive(Default)]
pub(super) struct Index(BTreeMap<(String, String), Arc<Remote>>);

impl Index {
    pub(super) fn read(objects: &[Value], before: &Self, identity: Option<&Identity>) -> Self {
        let remotes = objects.iter().filter_map(|object| {
            let (group, version) = (object.str_at("spec.group"), object.str_at("spec.version"));
            let before = before.0.get(&(group.to_owned(), version.to_owned()));
            // The way back: what says who answers for a group is answered here.
            if group == api::kinds::api_service::GROUP {
                return None;
            }
            let remote = Arc::new(Remote::read(object, before, identity)?);
            Some(((remote.group.clone(), remote.version.clone()), remote))
        });
        Self(remotes.collect())
    }

    pub(super) fn get(&self, group: &str, version: &str) -> Option<Arc<Remote>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(group.to_owned(), version.to_owned())).cloned()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.0.values()
    }
}
