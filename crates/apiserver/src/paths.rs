//! Everything that is not an object: discovery, OpenAPI, version, health, metrics, token keys.

use crate::{ApiServer, Body, aggregation, discovery, handle, metrics, request::query::Query};
use access::authn::service_account;
use api::error::ApiError;
use http::{Method, Request, Response, StatusCode, header};
use runtime::version::BUILD;
use serde_json::{Value, json};

/// GET of such a path.
pub(crate) fn serve<B>(
    server: &ApiServer,
    request: &Request<B>,
    path: &str,
    query: &Query,
    with_metrics: bool,
) -> Result<Response<Body>, ApiError> {
    let (method, headers) = (request.method(), request.headers());
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::new(405, "MethodNotAllowed", format!("{method} is not supported on {path}")));
    }
    let registry = server.registry();
    let listed = || aggregation::groups(&registry, &server.aggregation.remotes());
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let answer = match parts.as_slice() {
        [] => root(&listed()),
        ["api"] | ["apis"] if wants_aggregated(accept).is_some() => {
            let version = wants_aggregated(accept).unwrap_or("v2");
            let document = discovery::aggregated(server, &listed(), parts == ["api"], version);
            let document = if with_metrics { metrics::groups(document) } else { document };
            let kind = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
            return Ok(handle::full(200, &kind, document.to_string().into()));
        }
        ["api"] => discovery::core_versions(&server.config.server_address),
        ["apis"] if with_metrics => metrics::groups(discovery::groups(&listed())),
        ["apis"] => discovery::groups(&listed()),
        ["apis", metrics::GROUP] if with_metrics => metrics::one_group(),
        ["apis", metrics::GROUP, metrics::VERSION] if with_metrics => metrics::resources(),
        ["apis", group] => match discovery::group(&listed(), group) {
            Some(found) => found,
            None => return Ok(not_found()),
        },
        ["api", version] => discovery::resources(&registry, "", version).ok_or_else(ApiError::no_such_path)?,
        ["apis", group, version] => match discovery::resources(&registry, group, version) {
            Some(found) => found,
            None => return Ok(not_found()),
        },
        ["version"] => version(),
        ["openapi", rest @ ..] => {
            let others = server.aggregation.openapi();
            return server
                .documents
                .serve(&registry, &others, rest, headers, query)
                .map_or_else(|| Ok(not_found()), Ok);
        }
        ["openid", "v1", "jwks"] => {
            let keys = server
                .authenticator
                .service_accounts
                .as_ref()
                .map(|verifier| verifier.keys().to_vec())
                .unwrap_or_default();
            return Ok(handle::full(200, "application/jwk-set+json", service_account::jwks(&keys).to_string().into()));
        }
        [".well-known", "openid-configuration"] => match (&server.issuer, &server.authenticator.service_accounts) {
            (Some(issuer), Some(verifier)) => {
                service_account::openid_configuration(issuer.settings(), &server.config.jwks_uri, verifier.keys())
            }
            _ => return Ok(not_found()),
        },
        // The API says which Kubernetes it speaks, so this one stands before the admin endpoints' own /version.
        _ => return Ok(server.admin.answer(request).unwrap_or_else(not_found)),
    };
    Ok(handle::full(200, "application/json", answer.to_string().into()))
}

/// Nobody is there.
pub(crate) fn not_found() -> Response<Body> {
    runtime::http::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn root(groups: &[aggregation::Group]) -> Value {
    let mut paths = vec!["/.well-known/openid-configuration".to_owned(), "/api".to_owned(), "/apis".to_owned()];
    for aggregation::Group { name, versions } in groups {
        for (version, _) in versions {
            paths.push(if name.is_empty() { format!("/api/{version}") } else { format!("/apis/{name}/{version}") });
        }
        if !name.is_empty() {
            paths.push(format!("/apis/{name}"));
        }
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/metrics/slis",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]
        .map(String::from),
    );
    paths.sort();
    json!({"paths": paths})
}

/// kubectl from 1.26 on asks for everything at once, in one of two versions.
fn wants_aggregated(accept: &str) -> Option<&'static str> {
    accept.split(',').find_map(|entry| {
        let has = |part: &str| entry.split(';').any(|found| found.trim() == part);
        let asked = has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io");
        match (asked, has("v=v2"), has("v=v2beta1")) {
            (true, true, _) => Some("v2"),
            (true, _, true) => Some("v2beta1"),
            _ => None,
        }
    })
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "37", "gitVersion": format!("v1.37.0+twinstack.{}", BUILD.version),
        "gitCommit": BUILD.git_commit, "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": BUILD.platform,
        "emulationMajor": "1", "emulationMinor": "37", "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
    })
}
