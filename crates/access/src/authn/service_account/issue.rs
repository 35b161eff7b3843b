//! Issues tokens: the answer to `create serviceaccounts/token`. Rules as upstream's TokenRequest; the engine calls `issue`
//! after admission (`authz::node_restriction`) and before anything is logged.

use super::{
    ObjectKind, Objects, Settings,
    claims::{Claims, Private, Ref},
    jws,
    keys::SigningKey,
};
use crate::authn::user::service_account_name;
use api::{
    error::{ApiError, FieldError},
    object::{Fields, timestamp},
    path::Path,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{fmt, sync::Arc};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;
const DEFAULT: i64 = 60 * 60;
/// What admission asks for in the volumes it adds, and nobody else does: an hour and a little.
const ADMISSIONS_OWN: i64 = 60 * 60 + 7;
/// A year, for programs that never read their token again.
const EXTENDED: i64 = 365 * 24 * 60 * 60;

/// Makes tokens with one key, in the name of the first issuer.
#[derive(Debug)]
pub struct Issuer {
    key: SigningKey,
    settings: Settings,
}

/// What somebody asks a token for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Namespace of the account, from the path.
    pub namespace: &'a str,
    /// Name of the account, from the path.
    pub name: &'a str,
    /// The TokenRequest.
    pub request: &'a Value,
}

/// An issued token. `Debug` hides it.
pub struct Issued {
    /// The TokenRequest with its status; carries the token.
    pub answer: Value,
    /// Names the token in audit annotations (`authentication.kubernetes.io/issued-credential-id`).
    pub credential_id: String,
    /// For Warning headers.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issued({}, ***)", self.credential_id)
    }
}

impl Issuer {
    /// An issuer with a key.
    pub fn new(key: SigningKey, settings: Settings) -> Self {
        Self { key, settings }
    }

    /// The key that checks what this issuer signs.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Issuers, audiences, lifetimes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Answers a TokenRequest. `id` becomes the token's `jti` and must never come twice (a random UUID).
    pub fn issue(&self, asked: Asked<'_>, objects: &dyn Objects, now: Timestamp, id: &str) -> Result<Issued, ApiError> {
        let Asked { namespace, name, request } = asked;
        matches_path(asked)?;
        let account = objects
            .get(ObjectKind::ServiceAccount, namespace, name)
            .ok_or_else(|| ApiError::not_found("serviceaccounts", "", name))?;
        let uid = account.str_at("metadata.uid");
        let given = request.str_at("metadata.uid");
        if !given.is_empty() && given != uid {
            let why =
                format!("the UID in the token request ({given}) does not match the UID of the service account ({uid})");
            return Err(ApiError::conflict(KIND, GROUP, name, why));
        }
        let mut seconds = request.int_at("spec.expirationSeconds").unwrap_or(DEFAULT);
        let mistakes = validate(request, seconds);
        if !mistakes.is_empty() {
            return Err(ApiError::invalid(KIND, GROUP, "", &mistakes));
        }
        let bound = Bound::find(asked, objects)?;
        let mut warnings = Vec::new();
        if let Some(most) = self.settings.max_expiration.filter(|most| seconds > *most) {
            warnings.push(format!("requested expiration of {seconds} seconds shortened to {most} seconds"));
            seconds = most;
        }
        let audiences = audiences(request).unwrap_or_else(|| self.settings.audiences.clone());
        let after = |seconds: i64| {
            let moment = now.checked_add(SignedDuration::from_secs(seconds));
            moment
                .map_err(|_| ApiError::bad_request(format!("expirationSeconds {seconds} reaches beyond the calendar")))
        };
        let expires = after(seconds)?;
        let Bound { pod, secret, node } = bound;
        let extended = self.settings.extend_expiration
            && pod.is_some()
            && seconds == ADMISSIONS_OWN
            && audiences.iter().all(|audience| self.settings.audiences.contains(audience));
        let dies = if extended { after(EXTENDED)? } else { expires };
        let claims = Claims {
            aud: audiences.clone(),
            exp: dies.as_second().into(),
            iat: Some(now.as_second().into()),
            iss: self.settings.issuer.clone(),
            jti: id.to_owned(),
            kubernetes: Private {
                namespace: namespace.to_owned(),
                node,
                pod,
                secret,
                serviceaccount: Ref { name: name.to_owned(), uid: uid.to_owned() },
                warnafter: extended.then(|| expires.as_second().into()),
            },
            nbf: Some(now.as_second().into()),
            sub: service_account_name(namespace, name),
        };
        let token = jws::sign(&self.key, &claims).map_err(ApiError::internal)?;
        let mut answer = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": KIND,
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        });
        answer["spec"]["boundObjectRef"] = request.at("spec.boundObjectRef").clone();
        Ok(Issued { answer, credential_id: format!("JTI={id}"), warnings })
    }
}

/// Name and namespace in the body, if any, must be those of the path.
fn matches_path(asked: Asked<'_>) -> Result<(), ApiError> {
    for (field, wanted) in [("name", asked.name), ("namespace", asked.namespace)] {
        let path = Path::new("metadata").child(field);
        let given = asked.request.str_at(path.as_str());
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {field} if specified");
            return Err(ApiError::invalid(KIND, GROUP, asked.name, &[FieldError::invalid(&path, given, why)]));
        }
    }
    Ok(())
}

fn validate(request: &Value, seconds: i64) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut mistakes = Vec::new();
    if seconds < SHORTEST {
        let why = "may not specify a duration less than 10 minutes";
        mistakes.push(FieldError::invalid(&spec.child("expirationSeconds"), seconds, why));
    }
    if seconds > LONGEST {
        let why = "may not specify a duration larger than 2^32 seconds";
        mistakes.push(FieldError::invalid(&spec.child("expirationSeconds"), seconds, why));
    }
    let attestations = request.at("spec.attestations");
    if attestations.as_object().is_some_and(|map| !map.is_empty()) {
        let why = "attestations may only be specified with a webhook bound object reference";
        mistakes.push(FieldError::invalid(&spec.child("attestations"), attestations.clone(), why));
    }
    mistakes
}

/// The audiences asked for; none when the server's own are meant.
fn audiences(request: &Value) -> Option<Vec<String>> {
    let list = request.list_at("spec.audiences");
    (!list.is_empty()).then(|| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The objects a token dies with (a pod's node is told along).
#[derive(Default)]
struct Bound {
    pod: Option<Ref>,
    secret: Option<Ref>,
    node: Option<Ref>,
}

impl Bound {
    fn find(asked: Asked<'_>, objects: &dyn Objects) -> Result<Self, ApiError> {
        let wanted = asked.request.at("spec.boundObjectRef");
        if wanted.is_null() {
            return Ok(Self::default());
        }
        let (api_version, kind, name) = (wanted.str_at("apiVersion"), wanted.str_at("kind"), wanted.str_at("name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (what, plural, namespace) = match (group, kind) {
            ("", "Pod") => (ObjectKind::Pod, "pods", asked.namespace),
            ("", "Secret") => (ObjectKind::Secret, "secrets", asked.namespace),
            ("", "Node") => (ObjectKind::Node, "nodes", ""),
            _ => {
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(ApiError::bad_request(message));
            }
        };
        let object = objects.get(what, namespace, name).ok_or_else(|| ApiError::not_found(plural, "", name))?;
        if what == ObjectKind::Pod && object.str_at("spec.serviceAccountName") != asked.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                asked.name
            )));
        }
        let uid = object.str_at("metadata.uid");
        let given = wanted.str_at("uid");
        if !given.is_empty() && given != uid {
            let why = format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(kind, "", name, why));
        }
        let reference = Some(Ref { name: name.to_owned(), uid: uid.to_owned() });
        Ok(match what {
            ObjectKind::Pod => Self { pod: reference, node: node_of(&object, objects), ..Self::default() },
            ObjectKind::Secret => Self { secret: reference, ..Self::default() },
            ObjectKind::Node | ObjectKind::ServiceAccount => Self { node: reference, ..Self::default() },
        })
    }
}

/// The node a pod runs on; without uid when the Node object is gone.
fn node_of(pod: &Arc<Value>, objects: &dyn Objects) -> Option<Ref> {
    let name = pod.str_at("spec.nodeName");
    let node = objects.get(ObjectKind::Node, "", name);
    let uid = node.as_ref().map_or("", |node| node.str_at("metadata.uid"));
    (!name.is_empty()).then(|| Ref { name: name.to_owned(), uid: uid.to_owned() })
}
