//! What is remembered of a request: a metric always, an audit event on request, never a secret.

use crate::{
    ApiServer, Body,
    audit::{Open, Request as Audited},
    fairness::Flow,
    request::{
        body,
        info::{RequestInfo, ResourceRequest},
    },
};
use access::{
    authn::{Credentials, User},
    authz::{Attributes, Decision},
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use runtime::{http::Peer, metrics::Metrics};
use std::{collections::BTreeMap, net::IpAddr};

/// Labels of a request; the path of an object is not among them, so that they stay few.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Labels {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

/// Counts requests, under upstream's name.
#[derive(Clone, Debug)]
pub struct RequestMetrics(Family<Labels, Counter>);

impl RequestMetrics {
    /// Registers the counter.
    pub fn new(metrics: &Metrics) -> Self {
        Self(metrics.register("apiserver_request", "requests by verb, resource and answer code", Family::default()))
    }
}

/// One request.
pub(crate) struct Journal {
    id: String,
    uri: String,
    agent: String,
    source: Option<IpAddr>,
    received: jiff::Timestamp,
    labels: Labels,
    record: Option<Open>,
    flow: Option<Flow>,
}

impl Journal {
    /// Notes what is known before anybody looked at it.
    pub(crate) fn begin<B>(request: &Request<B>, info: &RequestInfo) -> Self {
        let header = |name: &str| {
            request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let given = header("audit-id");
        let verb = match info {
            RequestInfo::Path { verb, .. } => verb,
            RequestInfo::Resource(asked) => asked.verb,
        };
        // What is asked for becomes a label only when it exists: others could make any number of them.
        let labels = Labels { verb: verb.to_ascii_uppercase(), ..Labels::default() };
        Self {
            id: if given.is_empty() || given.len() > 64 { uuid::Uuid::new_v4().to_string() } else { given },
            uri: request.uri().to_string(),
            agent: header("user-agent"),
            source: request.extensions().get::<Peer>().map(|peer| peer.address.ip()),
            received: jiff::Timestamp::now(),
            labels,
            record: None,
            flow: None,
        }
    }

    /// The number of the request in the audit log.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Notes that the resource exists.
    pub(crate) fn served(&mut self, asked: &ResourceRequest) {
        self.labels.group.clone_from(&asked.group);
        self.labels.resource.clone_from(&asked.resource);
        self.labels.subresource.clone_from(&asked.subresource);
    }

    /// Notes who asks; from here on the audit policy can decide.
    pub(crate) fn user(&mut self, server: &ApiServer, attributes: &Attributes<'_>) {
        let source_ips: Vec<IpAddr> = self.source.into_iter().collect();
        self.record = server.auditor.as_ref().and_then(|auditor| auditor.begin(self.audited(attributes, &source_ips)));
    }

    /// Notes that nobody knows who asks.
    pub(crate) fn unknown(&self, server: &ApiServer, credentials: &Credentials<'_>, attributes: &Attributes<'_>) {
        let source_ips: Vec<IpAddr> = self.source.into_iter().collect();
        if let Some(auditor) = &server.auditor {
            auditor.unknown(self.audited(attributes, &source_ips), &credentials.shown());
        }
    }

    fn audited<'a>(&'a self, attributes: &'a Attributes<'a>, source_ips: &'a [IpAddr]) -> Audited<'a> {
        Audited {
            id: &self.id,
            attributes,
            uri: &self.uri,
            user_agent: &self.agent,
            source_ips,
            received: self.received,
        }
    }

    /// Notes whether the request may run, and why.
    pub(crate) fn decided(&mut self, decision: &Decision) {
        if let Some(record) = &mut self.record {
            record.annotate("authorization.k8s.io/decision", if decision.allowed() { "allow" } else { "forbid" });
            record.annotate("authorization.k8s.io/reason", decision.reason());
        }
    }

    /// Notes what admission said.
    pub(crate) fn annotations(&mut self, annotations: &BTreeMap<String, String>) {
        if let Some(record) = &mut self.record {
            for (key, value) in annotations {
                record.annotate(key, value);
            }
        }
    }

    /// Notes which flow it belongs to.
    pub(crate) fn flow(&mut self, flow: Option<&Flow>) {
        self.flow = flow.cloned();
    }

    /// Notes whom the request goes on as.
    pub(crate) fn impersonated(&mut self, user: &User) {
        if let Some(record) = &mut self.record {
            record.impersonated(user);
        }
    }

    /// Notes the body, as much of it as the policy wants.
    pub(crate) fn request_body(&mut self, bytes: &Bytes, content_type: &str) {
        let Some(record) = self.record.as_mut().filter(|_| !bytes.is_empty()) else { return };
        // A patch has a content type of its own and is JSON as well.
        let parsed = body::parse(bytes, content_type).ok().map(|parsed| parsed.value);
        if let Some(object) = parsed.or_else(|| serde_json::from_slice(bytes).ok()) {
            record.request_object(&object);
        }
    }

    /// Notes the answer.
    pub(crate) fn finish(mut self, server: &ApiServer, mut response: Response<Body>) -> Response<Body> {
        self.labels.code = response.status().as_u16();
        server.requests.0.get_or_create(&self.labels).inc();
        if let Some(record) = self.record.take() {
            response = record.finish(response);
        }
        if let Some(flow) = &self.flow {
            flow.mark(response.headers_mut());
        }
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert("audit-id", id);
        }
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        response
    }
}
