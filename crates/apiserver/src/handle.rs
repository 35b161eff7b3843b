//! A request from its first header to its answer: the order in which the server's parts have their say.

use crate::{
    ApiServer, Body,
    aggregation::{self, Remote},
    answer::Answer,
    call::Call,
    gzip,
    journal::Journal,
    kubelet, metrics, paths,
    request::{
        accept::Accept,
        body::Whole,
        info::{RequestInfo, ResourceRequest},
        query::Query,
        route,
    },
    subresource,
    turn::{Held, Lasting, Turn},
    verbs::{create, delete, delete_collection, get, list, patch, update, watch, write::Part},
};
use access::{
    authn::{Credentials, Impersonation, User},
    authz::{Attributes, forbidden},
};
use api::{error::ApiError, resource::Verbs};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use runtime::http::{BoxError, Peer, Unhurried, holding};
use std::{convert::Infallible, sync::Arc};

/// The sender of an in-process request, put into its extensions by `client`.
#[derive(Clone)]
pub struct Insider(pub User);

/// Serves one request. Never fails: what goes wrong is a Status.
pub async fn handle<B>(server: Arc<ApiServer>, request: Request<B>) -> Result<Response<Body>, Infallible>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let query = Query::new(request.uri().query());
    let info = RequestInfo::new(request.method(), request.uri().path(), query.flag("watch"));
    let mut journal = Journal::begin(&request, &info);
    let packs = gzip::is_accepted(request.headers());
    let response = match serve(&server, request, query, info, &mut journal).await {
        Ok(response) => response,
        Err(error) => refusal(&error),
    };
    let response = journal.finish(&server, response);
    Ok(if packs { gzip::pack(response) } else { response })
}

async fn serve<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    query: Query,
    info: RequestInfo,
    journal: &mut Journal,
) -> Result<Response<Body>, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let unknown = |_: &ApiError| {
        journal.unknown(server, &credentials(server, &request), &attributes(&User::default(), &info, &query))
    };
    let user = who(server, &request).inspect_err(unknown)?;
    journal.user(server, &attributes(&user, &info, &query));
    let user = match Impersonation::parse(request.headers())? {
        Some(wish) => {
            let user = server.access.impersonate(&user, wish)?;
            journal.impersonated(&user);
            user
        }
        None => user,
    };
    let lasting = match &info {
        RequestInfo::Resource(asked) => lasting(asked, &query),
        RequestInfo::Path { .. } => Lasting::No,
    };
    if lasting == Lasting::No {
        query.timeout(server.config.request_timeout)?;
    }
    let wanted = attributes(&user, &info, &query);
    let turn = Turn::of(server, &wanted, is_mutating(request.method()), lasting);
    journal.flow(turn.flow());
    let decision = server.access.chain().authorize(&wanted);
    journal.decided(&decision);
    if !decision.allowed() {
        return Err(forbidden(&wanted, decision.reason()));
    }
    if let Some(remote) = server.aggregation.remote(&info) {
        return passed_on(server, request, &remote, &user, turn, lasting, journal).await;
    }
    match info {
        RequestInfo::Path { path, .. } => {
            if let Some(remote) = documented(server, &path) {
                let _held = turn.take(server, 1).await?;
                return Ok(aggregation::document(server, &remote, request.uri(), request.headers()).await);
            }
            let held = turn.take(server, 1).await?;
            let with_metrics = path.starts_with("/apis") && metrics::available(server).await;
            Ok(paths::serve(server, &request, &path, &query, with_metrics)?.map(|body| holding(body, held)))
        }
        RequestInfo::Resource(asked) if metrics::is_asked(&asked) => {
            if !metrics::available(server).await {
                return resource(server, request, query, asked, user, turn, journal).await;
            }
            let held = turn.take(server, 1).await?;
            Ok(metrics::serve(server, &asked, &query).await?.map(|body| holding(body, held)))
        }
        RequestInfo::Resource(asked) => resource(server, request, query, asked, user, turn, journal).await,
    }
}

/// Hands a request to the server that answers for its group.
async fn passed_on<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    remote: &Remote,
    user: &User,
    turn: Turn,
    lasting: Lasting,
    journal: &Journal,
) -> Result<Response<Body>, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let query = Query::new(request.uri().query());
    let handed = kubelet::connection::Handed::new(request);
    let lasting = if handed.head.upgrade.is_some() { Lasting::Connection } else { lasting };
    let held = turn.take(server, 1).await?;
    let sender = aggregation::proxy::Sender { user, audit_id: journal.id() };
    let answer = aggregation::proxy::pass(server, remote, handed, sender);
    let answer = match lasting {
        Lasting::No => in_time(server, &query, answer).await?,
        Lasting::Watch | Lasting::Connection => answer.await?,
    };
    Ok(respond(Answer::Handed(answer), held, lasting))
}

/// Who has the OpenAPI document at a path, if it is not this server.
fn documented(server: &ApiServer, path: &str) -> Option<Arc<Remote>> {
    let below = path.strip_prefix("/openapi/")?;
    server.aggregation.documented(&below.split('/').collect::<Vec<_>>())
}

fn who<B>(server: &ApiServer, request: &Request<B>) -> Result<User, ApiError> {
    if let Some(Insider(user)) = request.extensions().get() {
        return Ok(user.clone());
    }
    Ok(server.authenticator.authenticate(credentials(server, request), server, server.now())?)
}

fn credentials<'a, B>(server: &ApiServer, request: &'a Request<B>) -> Credentials<'a> {
    let chain = request.extensions().get::<Peer>().map_or(&[][..], |peer| &peer.certificates);
    let leaf = chain.first().map(AsRef::as_ref);
    // Without a front proxy all that was shown is signed by the authority of clients: the handshake knows no other.
    let signed = server.aggregation.front_proxy.signers.as_ref().map(|signers| signers.judge(chain));
    Credentials {
        certificate: leaf.filter(|_| signed.is_none_or(|signed| signed.by_clients_authority)),
        front_proxy: leaf.filter(|_| signed.is_some_and(|signed| signed.by_proxies_authority)),
        headers: request.headers(),
        path: request.uri().path(),
    }
}

fn attributes<'a>(user: &'a User, info: &'a RequestInfo, query: &'a Query) -> Attributes<'a> {
    match info {
        RequestInfo::Path { verb, path } => Attributes::path(user, verb, path),
        RequestInfo::Resource(asked) => Attributes {
            namespace: &asked.namespace,
            version: &asked.version,
            subresource: &asked.subresource,
            name: match asked.verb {
                "list" | "watch" if asked.name.is_empty() => Attributes::selected_name(selector(asked, query)),
                _ => &asked.name,
            },
            field_selector: selector(asked, query),
            ..Attributes::resource(user, asked.verb, &asked.group, &asked.resource)
        },
    }
}

/// The field selector, where it narrows what is read. Upstream does not count it on paths that say the verb themselves.
fn selector<'a>(asked: &ResourceRequest, query: &'a Query) -> &'a str {
    let narrows = matches!(asked.verb, "list" | "watch" | "deletecollection") && !asked.verb_in_path;
    if narrows { query.get("fieldSelector") } else { "" }
}

fn is_mutating(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Requests that last: watches, and connections to nodes.
fn lasting(asked: &ResourceRequest, query: &Query) -> Lasting {
    match asked.subresource.as_str() {
        "exec" | "attach" | "portforward" | "proxy" => Lasting::Connection,
        "log" if query.flag("follow") => Lasting::Connection,
        _ if asked.verb == "watch" => Lasting::Watch,
        _ => Lasting::No,
    }
}

/// How many seats a request needs: more than one only for what reads a collection, also as the beginning of a watch.
fn width(server: &ApiServer, call: &Call) -> u32 {
    let query = &call.query;
    let reads_all = match call.request.verb {
        "list" => true,
        "watch" => query.flag("sendInitialEvents") || matches!(query.get("resourceVersion"), "" | "0"),
        _ => false,
    };
    match &server.fairness {
        Some(fairness) if reads_all && call.request.name.is_empty() => {
            fairness.widths.list(&call.key(), query.get("limit").parse().unwrap_or_default())
        }
        _ => 1,
    }
}

async fn resource<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    query: Query,
    asked: ResourceRequest,
    user: User,
    turn: Turn,
    journal: &mut Journal,
) -> Result<Response<Body>, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let registry = server.registry();
    let Some(found) = registry.get(&asked.group, &asked.version, &asked.resource) else {
        return Ok(no_such_resource(&asked, registry.groups().contains(&asked.group)));
    };
    route::check(found, &asked, request.method())?;
    journal.served(&asked);
    let headers = request.headers();
    let call = Arc::new(Call {
        server: Arc::clone(server),
        resource: Arc::clone(found),
        accept: match kubelet::is_handed_over(&asked) {
            // Whoever answers also decides about the form.
            true => Accept::JSON,
            false if found.verbs == Verbs::CreateOnly => Accept::of_review(text(headers, &header::ACCEPT).as_deref())?,
            false => Accept::new(text(headers, &header::ACCEPT).as_deref(), found.custom)?,
        },
        agent: text(headers, &header::USER_AGENT).unwrap_or_default(),
        content_type: text(headers, &header::CONTENT_TYPE).unwrap_or_default(),
        request: asked,
        query,
        user,
        warnings: parking_lot::Mutex::default(),
        annotations: parking_lot::Mutex::default(),
    });
    call.warn(call.resource.rules.deprecation().map(str::to_owned));
    let (mutating, lasting) = (is_mutating(request.method()), lasting(&call.request, &call.query));
    let (connection, body) = kubelet::Connection::split(&call, request).await?;
    if let Some(body) = &body {
        journal.request_body(&body.bytes, &call.content_type);
    }
    let held = turn.take(server, width(server, &call)).await?;
    let asked = Arc::clone(&call);
    // The place goes along with the work: a write that nobody waits for any more still takes it until it has ended.
    let work = async move { dispatch(asked, connection, body).await.map(|answer| (answer, held)) };
    let answer = match (lasting, mutating) {
        (Lasting::Watch | Lasting::Connection, _) => work.await,
        (Lasting::No, false) => in_time(server, &call.query, work).await,
        // A write goes on to its end even if nobody waits for the answer any more: half a write would leak.
        (Lasting::No, true) => {
            let written = async { server.writes.spawn(work).await.map_err(ApiError::internal)? };
            in_time(server, &call.query, written).await
        }
    };
    let mut response = match answer {
        Ok((answer, held)) => respond(answer, held, lasting),
        Err(error) => refusal(&error),
    };
    journal.annotations(&call.annotations.lock());
    for warning in call.warnings.lock().iter() {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{}\"", quoted(warning))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

/// Warning texts go into a quoted string of printable ASCII.
fn quoted(text: &str) -> String {
    let printable: String = text.chars().map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' }).collect();
    printable.replace('\\', "\\\\").replace('"', "\\\"")
}

async fn in_time<T>(
    server: &ApiServer,
    query: &Query,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let late = || ApiError::timeout("request did not complete within the allotted timeout");
    let time = query.timeout(server.config.request_timeout)?;
    tokio::time::timeout(time, work).await.map_err(|_| late())?
}

async fn dispatch(call: Arc<Call>, connection: kubelet::Connection, body: Option<Whole>) -> Result<Answer, ApiError> {
    let bytes = body.as_ref().map_or(&[][..], |body| &body.bytes[..]);
    let one = !call.request.name.is_empty();
    if !call.request.subresource.is_empty() {
        return subresource::serve(call, connection, bytes).await;
    }
    if call.resource.verbs == Verbs::CreateOnly && call.request.verb != "create" {
        return Err(call.not_allowed());
    }
    match call.request.verb {
        "get" => get::get(&call).await,
        "list" => list::list(&call).await,
        "watch" => watch::watch(call).await,
        "create" if !one => create::create(&call, bytes).await,
        "update" if one => update::update(&call, Part::Main, bytes).await,
        "patch" if one => patch::patch(&call, Part::Main, bytes).await,
        "delete" => delete::delete(&call, bytes).await,
        "deletecollection" if call.resource.verbs == Verbs::All => {
            delete_collection::delete_collection(&call, bytes).await
        }
        _ => Err(call.not_allowed()),
    }
}

/// In a known group a missing resource is a Status; elsewhere there is nobody to write one, as upstream has it.
fn no_such_resource(asked: &ResourceRequest, group_known: bool) -> Response<Body> {
    if group_known || asked.group.is_empty() {
        return refusal(&ApiError::no_such_path());
    }
    paths::not_found()
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

pub fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = full(error.code, "application/json", error.status().to_string().into());
    if let Some(seconds) = error.details.get("retryAfterSeconds").and_then(serde_json::Value::as_u64) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A whole body.
pub fn full(status: u16, content_type: &str, body: Bytes) -> Response<Body> {
    let mut response = with_body(status, content_type, runtime::http::full(body.clone()));
    response.extensions_mut().insert(gzip::Whole(body));
    response
}

fn with_body(status: u16, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The answer with what its request holds, which goes when the answer has.
fn respond(answer: Answer, held: Held, lasting: Lasting) -> Response<Body> {
    match answer {
        Answer::Full { status, content_type, body } => {
            let mut response = with_body(status, content_type, holding(Full::new(body.clone()), held));
            response.extensions_mut().insert(gzip::Whole(body));
            response
        }
        Answer::Handed(mut response) if lasting != Lasting::No => {
            response.extensions_mut().insert(Unhurried);
            response
        }
        Answer::Handed(response) => response.map(|body| holding(body, held)),
        Answer::Stream { content_type, stream } => {
            // Only the beginning of a watch costs anything.
            drop(held);
            let frames = stream.map(|bytes| Ok::<_, BoxError>(http_body::Frame::data(bytes)));
            let mut response = Response::new(http_body_util::StreamBody::new(frames).boxed_unsync());
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
            response
        }
    }
}
