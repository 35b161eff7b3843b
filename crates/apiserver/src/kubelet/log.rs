//! `pods/NAME/log`: the kubelet's answer as the API gives it.

use super::{exchange, kubelet_trouble, plan::target::Target, reach::Via};
use crate::{Body, call::Call};
use api::error::ApiError;
use futures::StreamExt;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use runtime::http::empty;
use serde_json::json;

/// How much of a kubelet's complaint is read.
const MOST_COMPLAINT: usize = 50_000;

/// Asks for the log and passes it on as it comes.
pub async fn read(call: &Call, target: &Target) -> Result<Response<Body>, ApiError> {
    let answer = exchange::exchange(&call.server.kubelets, target, Via::Kubelet, Request::new(empty())).await;
    let response = answer.map_err(kubelet_trouble)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(ApiError::new(500, "", format!("Get {:?}: redirects forbidden", target.path)));
    }
    if !(StatusCode::OK..=StatusCode::PARTIAL_CONTENT).contains(&status) {
        return Err(refused(status.as_u16(), &complaint(response.into_body()).await, &call.request.name));
    }
    let body = response.into_body();
    // A log that is followed has no end of its own; a whole one must not be cut short as if it were complete.
    let body: Body = match call.query.flag("follow") {
        false => body.map_err(Into::into).boxed_unsync(),
        true => {
            let frames = BodyStream::new(body).map(|frame| frame.map_err(Into::into));
            StreamBody::new(frames.take_until(call.server.stop.clone().cancelled_owned())).boxed_unsync()
        }
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The beginning of what a kubelet says.
async fn complaint(mut body: Incoming) -> String {
    let mut read = Vec::new();
    while read.len() < MOST_COMPLAINT
        && let Some(Ok(frame)) = body.frame().await
    {
        read.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
    }
    read.truncate(MOST_COMPLAINT);
    String::from_utf8_lossy(&read).into_owned()
}

/// A kubelet's refusal as a Status: its own words where upstream passes them on.
fn refused(code: u16, message: &str, pod: &str) -> ApiError {
    let (reason, message) = match code {
        400 => return ApiError::bad_request(message),
        500 => return ApiError::internal(message),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
        403 => ("Forbidden", message.to_owned()),
        404 => ("NotFound", "the server could not find the requested resource".to_owned()),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource".to_owned()),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".to_owned(),
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned(),
        ),
        code if code > 500 => {
            ("InternalError", format!("an error on the server ({message:?}) has prevented the request from succeeding"))
        }
        code => ("", format!("the server responded with the status code {code} but did not return more information")),
    };
    let details = json!({"name": pod, "kind": "pods/log"});
    ApiError::new(code, reason, format!("{message} ( pods/log {pod})")).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelets_refusal_is_told_as_upstream_tells_it() {
        for (code, reason, message) in [
            (400, "BadRequest", "no such file"),
            (500, "InternalError", "Internal error occurred: no such file"),
            (404, "NotFound", "the server could not find the requested resource ( pods/log p)"),
            (403, "Forbidden", "no such file ( pods/log p)"),
            (
                502,
                "InternalError",
                "an error on the server (\"no such file\") has prevented the request from succeeding ( pods/log p)",
            ),
            (
                418,
                "",
                "the server responded with the status code 418 but did not return more information ( pods/log p)",
            ),
        ] {
            let error = refused(code, "no such file", "p");
            assert_eq!((error.code, error.reason, error.message.as_str()), (code, reason, message));
        }
    }
}
