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
pub mod plan;
pub mod proxy;
pub mod reach;
pub mod settings;
pub mod tls;
pub mod upgrade;

pub use connection::{Connection, is_handed_over};
pub use settings::Settings;

use crate::{Body, answer::Answer, call::Call};
use api::error::ApiError;
use connection::{Handed, Head};
use exchange::Trouble;
use http::{HeaderValue, Method, Response, StatusCode, header};
use plan::target::Plan;
use reach::{Filter, Via};
use runtime::{http::empty, pki::PkiError};
use tokio_util::task::TaskTracker;

/// How to reach kubelets, and what is open to them.
pub struct Kubelets {
    settings: Settings,
    clients: tls::Clients,
    /// Connections and tunnels; each ends when one of its ends does, or with the server.
    tasks: TaskTracker,
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

/// Hands a request over and answers with what came back.
pub async fn connect(call: &Call, connection: Connection) -> Result<Answer, ApiError> {
    let Some(Handed { head, body }) = connection.handed() else { return Err(call.not_allowed()) };
    allowed(call, &head)?;
    let response = match choose::plan(call, &head).await? {
        Plan::Nothing => status(StatusCode::NO_CONTENT),
        Plan::Redirect(path) => moved(&path)?,
        Plan::Log(target) => log::read(call, &target).await?,
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
