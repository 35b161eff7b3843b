//! Connections to nodes: logs, exec, attach, port-forward and proxied requests are not answered here but handed over to the
//! node's kubelet, or to the Pod, Service or node behind `proxy`.
//!
//! `Connection::split` keeps a request as it is, `choose` finds out where it goes (`plan` holds the rules), `exchange` sends
//! it there. Redirects are never followed, and credentials of the client stay here.

pub mod choose;
pub mod connection;
pub mod dial;
pub mod exchange;
pub mod headers;
pub mod location;
pub mod log;
mod page;
pub mod plan;
pub mod proxy;
pub mod reach;
pub mod settings;
mod summary;
pub mod tls;
pub mod upgrade;
mod websocket;

pub(crate) use choose::{service_endpoints, slices};
pub use connection::{Connection, is_handed_over};
pub(crate) use exchange::chain;
pub use reach::Via;
pub use settings::Settings;
pub(crate) use summary::{Summary, summary};

use crate::{Body, admission, answer::Answer, call::Call};
use api::error::ApiError;
use connection::{Handed, Head};
use exchange::Trouble;
use http::{HeaderValue, Method, Response, StatusCode, header};
pub(crate) use plan::target::{Endpoint, Host};
use plan::{
    query::Parameters,
    target::{Plan, Security, Target},
};
use reach::Filter;
use runtime::{http::empty, pki::PkiError};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

/// How to reach kubelets, and what is open to them.
pub struct Kubelets {
    settings: Settings,
    clients: tls::Clients,
    /// Connections and tunnels; each ends when one of its ends does, or with the server.
    pub(crate) tasks: TaskTracker,
}

impl Kubelets {
    /// With what the administrator said.
    pub fn new(settings: Settings) -> Result<Self, PkiError> {
        Ok(Self { clients: tls::Clients::new(&settings)?, settings, tasks: TaskTracker::new() })
    }

    fn filter(&self) -> Filter {
        Filter { reach: self.settings.reach, own_port: self.settings.own_port }
    }
}

impl Default for Kubelets {
    fn default() -> Self {
        Self::new(Settings::default()).expect("the defaults name no certificate that could be bad")
    }
}

/// A plain connection to the first of several endpoints that answers.
pub(crate) async fn open(server: &crate::ApiServer, to: Vec<Endpoint>, via: Via) -> Result<Box<dyn dial::Io>, String> {
    let target = Target { to, security: Security::Plain, path: String::new() };
    dial::dial(&server.kubelets, &target, via).await.map(|(stream, _)| stream).map_err(|trouble| match trouble {
        Trouble::NotAllowed(why) | Trouble::Unreachable(why) | Trouble::Broken(why) => why,
    })
}

/// Hands a request over and answers with what came back.
pub async fn connect(call: &Call, connection: Connection) -> Result<Answer, ApiError> {
    let Some(Handed { head, body }) = connection.handed() else { return Err(call.not_allowed()) };
    allowed(call, &head)?;
    if call.request.subresource != "log" {
        admission::connect(call, options(call, &head)).await?;
    }
    let response = match choose::plan(call, &head).await? {
        Plan::Nothing => status(StatusCode::NO_CONTENT),
        Plan::Redirect(path) => moved(&path)?,
        Plan::Log(target) => {
            let log = log::read(call, &target).await?;
            match head.upgrade {
                Some(upgrade) => websocket::send(call, upgrade, &head.headers, log)?,
                None => log,
            }
        }
        Plan::Stream(target) => {
            let request = head.for_kubelet();
            upgrade::pass(call, head.upgrade, request, &target, Via::Kubelet).await?
        }
        Plan::Proxy { target, prefix } => proxy::pass(call, Handed { head, body }, &target, &prefix).await?,
    };
    Ok(Answer::Handed(response))
}

/// Whether the method fits, and whether the caller may do this by any method: who opens a stream with GET, as browsers do for
/// WebSockets, must be allowed to create one.
fn allowed(call: &Call, head: &Head) -> Result<(), ApiError> {
    let asked = &call.request;
    let fits = match asked.subresource.as_str() {
        "log" => head.method == Method::GET,
        "proxy" => proxy::METHODS.contains(&head.method),
        _ => matches!(head.method, Method::GET | Method::POST),
    };
    if !fits {
        return Err(call.not_allowed());
    }
    if !call.query.get("dryRun").is_empty() && asked.subresource != "log" {
        return Err(ApiError::bad_request("dryRun is not supported"));
    }
    if matches!(asked.subresource.as_str(), "exec" | "attach" | "portforward") && asked.verb != "create" {
        call.authorize("create")?;
    }
    Ok(())
}

/// What is asked for, as the kind that upstream has for it.
fn options(call: &Call, head: &Head) -> Value {
    let (asked, query) = (&call.request, &call.query);
    let of = if asked.subresource == "proxy" { call.resource.kind.as_str() } else { "Pod" };
    let what = match asked.subresource.as_str() {
        "exec" => "Exec",
        "attach" => "Attach",
        "portforward" => "PortForward",
        _ => "Proxy",
    };
    let mut options = json!({"kind": format!("{of}{what}Options"), "apiVersion": "v1"});
    let parameters = Parameters::new(head.uri.query().unwrap_or_default());
    match what {
        "Exec" | "Attach" => {
            for flag in ["stdin", "stdout", "stderr", "tty"] {
                if query.flag(flag) {
                    options[flag] = true.into();
                }
            }
            if !query.get("container").is_empty() {
                options["container"] = query.get("container").into();
            }
            let command: Vec<&str> = parameters.all("command").collect();
            if !command.is_empty() {
                options["command"] = command.into();
            }
        }
        "PortForward" => {
            let ports: Vec<i64> = parameters.all("ports").filter_map(|port| port.parse().ok()).collect();
            if !ports.is_empty() {
                options["ports"] = ports.into();
            }
        }
        _ => options["path"] = format!("/{}", asked.rest.trim_start_matches('/')).into(),
    }
    options
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = status;
    response
}

fn moved(path: &str) -> Result<Response<Body>, ApiError> {
    let mut response = status(StatusCode::MOVED_PERMANENTLY);
    let location = HeaderValue::from_str(path).map_err(ApiError::internal)?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// Trouble with a kubelet, as upstream tells it: an error without a reason.
fn kubelet_trouble(trouble: Trouble) -> ApiError {
    let text = match trouble {
        Trouble::NotAllowed(why) | Trouble::Unreachable(why) => format!("error dialing backend: {why}"),
        Trouble::Broken(why) => format!("error sending request: {why}"),
    };
    ApiError::new(500, "", text)
}
