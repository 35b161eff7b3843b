//! One audit event in the making: begun when a request is known, filled on the way, written at its stages. Layout is
//! `audit.k8s.io/v1` Event.

use super::policy::{Level, Stage, Verdict, is_sensitive};
use access::{authn::User, authz::Attributes};
use api::object::{Fields, micro_timestamp};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Longer user agents are cut.
const LONGEST_USER_AGENT: usize = 1024;

/// Kinds whose bodies are never recorded, should one arrive under a resource that the policy did not take for sensitive.
const SENSITIVE_KINDS: [&str; 4] = ["Secret", "SecretList", "TokenRequest", "TokenReview"];

/// Refusals that say nothing of the body sent; others may quote a value that is wrong.
const PLAIN_REFUSALS: [u16; 5] = [401, 403, 404, 409, 429];

/// A request as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `Audit-ID`: given by the client or made up.
    pub id: &'a str,
    /// What is asked, by the user who authenticated (not the impersonated one).
    pub attributes: &'a Attributes<'a>,
    /// Path and query.
    pub uri: &'a str,
    /// `User-Agent`.
    pub user_agent: &'a str,
    /// Where it came from, nearest last.
    pub source_ips: &'a [IpAddr],
    /// When it came.
    pub received: Timestamp,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// HTTP status code.
    pub code: u16,
    /// The `Status` of a refusal.
    pub status: Option<&'a Value>,
    /// The object of the answer, if there was one.
    pub object: Option<&'a Value>,
}

/// An event between begin and end.
#[derive(Clone, Debug)]
pub struct Record {
    verdict: Verdict,
    event: Value,
    lasts: bool,
    /// Whether a refusal may quote a secret.
    sensitive: bool,
}

/// Subresources that connect to a node for as long as the client likes.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

impl Record {
    /// Begins an event; none when the verdict is to record nothing.
    pub fn begin(request: Request<'_>, verdict: Verdict) -> Option<Self> {
        if verdict.level == Level::None {
            return None;
        }
        let Request { id, attributes, uri, user_agent, source_ips, received } = request;
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": verdict.level.name(), "auditID": id,
            "requestURI": uri, "verb": attributes.verb, "user": {},
            "sourceIPs": source_ips.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "requestReceivedTimestamp": micro_timestamp(received),
        });
        // Nobody is nameless but who could not be known.
        if !attributes.user.name.is_empty() {
            event["user"] = attributes.user.info();
        }
        if !user_agent.is_empty() {
            event["userAgent"] = shortened(user_agent).into();
        }
        if attributes.path.is_none() {
            event["objectRef"] = reference(attributes);
        }
        let lasts = attributes.verb == "watch" || CONNECTIONS.contains(&attributes.subresource);
        Some(Self { verdict, event, lasts, sensitive: is_sensitive(attributes) })
    }

    /// Whether the answer goes on after it has started: a watch, or a connection to a node.
    pub fn lasts(&self) -> bool {
        self.lasts
    }

    /// Whether the engine should keep the sent object for `request_object`.
    pub fn wants_request(&self) -> bool {
        self.verdict.level >= Level::Request
    }

    /// Whether the engine should keep the answered object for the response.
    pub fn wants_response(&self) -> bool {
        self.verdict.level >= Level::RequestResponse
    }

    /// Notes whom the request goes on as.
    pub fn impersonated(&mut self, user: &User) {
        self.event["impersonatedUser"] = user.info();
    }

    /// Adds an annotation (`authorization.k8s.io/decision`, ...).
    pub fn annotate(&mut self, key: &str, value: &str) {
        self.event["annotations"][key] = value.into();
    }

    /// Notes the object sent: its names always, the whole of it if the level asks for that.
    pub fn request_object(&mut self, object: &Value) {
        self.sensitive |= SENSITIVE_KINDS.contains(&object.str_at("kind"));
        for (field, path) in [
            ("name", "metadata.name"),
            ("namespace", "metadata.namespace"),
            ("uid", "metadata.uid"),
            ("resourceVersion", "metadata.resourceVersion"),
        ] {
            let value = object.str_at(path);
            if !value.is_empty() && self.event["objectRef"].is_object() && self.event["objectRef"][field].is_null() {
                self.event["objectRef"][field] = value.into();
            }
        }
        if self.wants_request() {
            self.put("requestObject", object);
        }
    }

    /// The event of a stage as it is written; none when the policy leaves the stage out.
    pub fn at(&self, stage: Stage, response: Response<'_>, now: Timestamp) -> Option<Value> {
        if self.verdict.omit_stages.contains(&stage) {
            return None;
        }
        let mut done = self.clone();
        done.event["stage"] = stage.name().into();
        done.event["stageTimestamp"] = micro_timestamp(now).into();
        let quotes = self.sensitive && !PLAIN_REFUSALS.contains(&response.code);
        if stage != Stage::RequestReceived {
            let mut status = json!({"metadata": {}, "code": response.code});
            for field in ["status", "message", "reason", "details"] {
                let shown = !quotes || ["status", "reason"].contains(&field);
                if let Some(value) = response.status.and_then(|status| status.get(field)).filter(|_| shown) {
                    status[field] = value.clone();
                }
            }
            done.event["responseStatus"] = status;
        }
        if let Some(object) =
            response.object.filter(|_| self.wants_response() && !quotes && stage == Stage::ResponseComplete)
        {
            done.put("responseObject", object);
        }
        Some(done.event)
    }

    fn put(&mut self, field: &str, object: &Value) {
        if SENSITIVE_KINDS.contains(&object.str_at("kind")) {
            return;
        }
        let mut object = object.clone();
        if self.verdict.omit_managed_fields {
            strip_managed_fields(&mut object);
        }
        self.event[field] = object;
    }
}

fn reference(attributes: &Attributes<'_>) -> Value {
    let mut reference = json!({});
    for (field, value) in [
        ("resource", attributes.resource),
        ("namespace", attributes.namespace),
        ("name", attributes.name),
        ("apiGroup", attributes.group),
        ("apiVersion", attributes.version),
        ("subresource", attributes.subresource),
    ] {
        if !value.is_empty() {
            reference[field] = value.into();
        }
    }
    reference
}

fn strip_managed_fields(object: &mut Value) {
    object.remove("metadata.managedFields");
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(strip_managed_fields);
    }
}

fn shortened(user_agent: &str) -> String {
    match user_agent.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_USER_AGENT) {
        Some(end) => format!("{}...TRUNCATED", &user_agent[..end]),
        None => user_agent.to_owned(),
    }
}
