//! What one Route, or one path of an Ingress, asks for, after everything in it was checked.

use super::{Certificate, RouteOptions};
use runtime::controller::Key;
use std::fmt;

/// Which sort of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A Route, which is one claim.
    Route,
    /// An Ingress, which is one claim for each of its paths.
    Ingress,
}

/// Which claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub key: Key,
    /// Its sort.
    pub source: Source,
    /// Which path of an Ingress; 0 for a Route.
    pub part: u32,
}

impl Id {
    /// A Route's only claim.
    pub fn route(key: Key) -> Self {
        Self { key, source: Source::Route, part: 0 }
    }
}

/// As names of backends end: names of objects have no colon, so no two claims share one.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { namespace, name } = &self.key;
        match self.source {
            Source::Route => write!(f, "{namespace}:{name}"),
            Source::Ingress => write!(f, "{namespace}:{name}:{}", self.part),
        }
    }
}

/// Who was first: creation, then UID, then name, so that every router decides alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    /// Seconds since 1970; objects without a time are the youngest.
    pub created: i64,
    /// Decides between objects of the same second.
    pub uid: String,
}

/// For which names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// This one, in lower case.
    Exact(String),
    /// Every name directly below this domain.
    Below(String),
    /// Every name that nobody has claimed; only an Ingress can ask for that.
    Any,
}

impl Host {
    /// How keys of maps begin: no host begins with a dot or is a star.
    pub fn map_key(&self) -> String {
        match self {
            Self::Exact(host) => host.clone(),
            Self::Below(domain) => format!(".{domain}"),
            Self::Any => "*".to_owned(),
        }
    }

    /// The domain above the name, in which wildcards and names meet.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Self::Exact(host) => host.split_once('.').map(|(_, domain)| domain),
            Self::Below(domain) => Some(domain),
            Self::Any => None,
        }
    }
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathKind {
    /// A Route's: the path and everything below; one that ends with a slash only what is below.
    Route,
    /// An Ingress's: the path and everything below, with or without a slash at its end.
    Prefix,
    /// Only itself.
    Exact,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathMatch {
    /// Begins with a slash.
    pub text: String,
    /// How it is compared.
    pub kind: PathKind,
}

/// Who ends TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// Nobody: plain HTTP.
    Plain,
    /// The router.
    Edge,
    /// The pod.
    Passthrough,
    /// The router, and again the pod.
    Reencrypt,
}

/// What becomes of plain HTTP when there is TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insecure {
    /// It is not served.
    Refuse,
    /// It is served as well.
    Allow,
    /// It is sent to https.
    Redirect,
}

/// A Service and its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name in the claim's namespace.
    pub service: String,
    /// 0 to 256.
    pub weight: u16,
}

/// Which port of the Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    Name(String),
    /// The number that pods listen on, or the Service's own.
    Number(u16),
}

/// One wish, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose.
    pub id: Id,
    /// How old.
    pub age: Age,
    /// For which names.
    pub host: Host,
    pub path: PathMatch,
    /// Who ends TLS.
    pub termination: Termination,
    /// What becomes of plain HTTP.
    pub insecure: Insecure,
    /// Where to.
    pub targets: Vec<Target>,
    /// Which port there; all when not given.
    pub port: Option<Port>,
    /// Its own certificate.
    pub certificate: Option<Certificate>,
    /// PEM of what pods are checked against.
    pub destination_ca: Option<String>,
    /// Everything else.
    pub options: RouteOptions,
    /// Wishes that cannot be served and that nobody is less safe without, each with its field.
    pub ignored: Vec<String>,
}

impl Claim {
    /// Whether the router ends TLS for it.
    pub fn on_tls(&self) -> bool {
        matches!(self.termination, Termination::Edge | Termination::Reencrypt)
    }
}

/// Why an object is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word, upstream's.
    pub reason: &'static str,
    /// Field, value and what is accepted.
    pub message: String,
}

impl Refusal {
    /// A field whose value cannot be served.
    pub(super) fn field(field: &str, value: &str, accepted: &str) -> Self {
        Self::new(
            "ExtendedValidationFailed",
            format!("{field}: {:?} cannot be served; accepted: {accepted}", shortened(value)),
        )
    }

    /// All that is wrong at once, under the first one's reason.
    pub(super) fn all(mistakes: Vec<Self>) -> Option<Self> {
        let reason = mistakes.first()?.reason;
        let messages: Vec<String> = mistakes.into_iter().map(|mistake| mistake.message).collect();
        Some(Self { reason, message: messages.join("; ") })
    }

    pub(in crate::router) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// Enough of a long value to find it.
fn shortened(value: &str) -> &str {
    value.get(..value.floor_char_boundary(120)).unwrap_or(value)
}
