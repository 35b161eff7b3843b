//! From a request to its answer: who, may they, what.

use super::{
    Served,
    answer::{Problem, exposition, json, json_text},
    log::{self, LogOptions},
    metrics,
    review::Refusal,
    route::{Named, Route, subresources, verb},
    stats::{self, Machine, PodUsage},
    stream::{self, Streams, Wanted},
};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use objects::Encode;
use runtime::http::{Body, Peer, Unhurried};
use serde_json::{Value, json as value};
use std::sync::Arc;

/// Answers one request.
pub(super) async fn handle(served: &Arc<Served>, request: Request<Incoming>) -> Response<Body> {
    match answer(served, request).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    }
}

async fn answer(served: &Arc<Served>, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
    let path = request.uri().path().to_owned();
    let certificate = request.extensions().get::<Peer>().and_then(|peer| peer.certificates.first().cloned());
    let user = served.reviews.user(certificate.as_deref(), request.headers(), &path).await.map_err(refused)?;
    served.reviews.authorize(&user, verb(request.method()), subresources(&path)).await.map_err(refused)?;
    let route = Route::of(&path);
    if route != Route::Unknown && !route.takes(request.method()) {
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"));
    }
    let pairs = stream::pairs(request.uri().query().unwrap_or_default());
    Ok(match route {
        Route::Pods => json_text(pod_list(&served.pods.pods())),
        Route::RunningPods => json(&running(&served.pods.pods())),
        Route::Logs(named) => logs(served, &named, &pairs).await?,
        Route::Exec(named) => {
            let streams = Streams::read(&pairs).map_err(Problem::bad_request)?;
            let command = pairs.into_iter().filter(|(key, _)| key == "command").map(|(_, word)| word).collect();
            stream::pass(served, &named, Wanted::Exec { command, streams }, request).await?
        }
        Route::Attach(named) => {
            let streams = Streams::read(&pairs).map_err(Problem::bad_request)?;
            stream::pass(served, &named, Wanted::Attach(streams), request).await?
        }
        Route::PortForward(named) => {
            let ports = ports(&pairs).map_err(Problem::bad_request)?;
            stream::pass(served, &named, Wanted::PortForward(ports), request).await?
        }
        Route::Summary => {
            let (machine, pods) = measured(served).await?;
            json(&stats::summary(&served.node, &machine, &pods))
        }
        Route::ResourceMetrics => {
            let (machine, pods) = measured(served).await?;
            exposition(metrics::resource(&machine, &pods))
        }
        Route::CadvisorMetrics => {
            let (machine, pods) = measured(served).await?;
            exposition(metrics::cadvisor(&machine, &pods))
        }
        Route::ProbeMetrics => exposition(served.probes.as_ref().map(|probes| probes.exposition()).unwrap_or_default()),
        Route::Config => json(&value!({"kubeletconfig": served.configz})),
        Route::Metrics | Route::Health => {
            served.admin.answer(&request).ok_or_else(|| Problem::not_found("404 page not found"))?
        }
        Route::Checkpoint => {
            let why = "checkpoint: containers are not checkpointed by this kubelet";
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, why));
        }
        Route::Unknown => return Err(Problem::not_found("404 page not found")),
    })
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Unauthorized => Problem::new(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Refusal::Forbidden(message) => Problem::new(StatusCode::FORBIDDEN, message),
        Refusal::Unknown(why) => Problem::internal(format!("the API server cannot be asked who this is: {why}")),
    }
}

/// `port=80,443`; the streams themselves say it too.
fn ports(pairs: &[(String, String)]) -> Result<Vec<i32>, String> {
    let texts = pairs.iter().filter(|(key, _)| key == "port").flat_map(|(_, list)| list.split(','));
    let number = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0).map(i32::from);
    texts
        .map(|text| number(text).ok_or_else(|| format!("port: {text:?} is not accepted; give numbers from 1 to 65535")))
        .collect()
}

async fn measured(served: &Served) -> Result<(Machine, Vec<PodUsage>), Problem> {
    let machine = Machine::look(&served.root, &served.rates);
    let pods = stats::pods(&served.runtime, &served.pods.pods(), served.volumes.as_ref(), &served.rates).await;
    Ok((machine, pods.map_err(|error| Problem::internal(error.message))?))
}

fn pod_list(pods: &[Arc<Pod>]) -> String {
    let texts = pods.iter().filter_map(|pod| String::from_utf8(pod.encode().ok()?).ok());
    let items: Vec<String> = texts.collect();
    format!("{{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"items\":[{}]}}", items.join(","))
}

/// Pods with a container that runs, as little of them as the runtime knows.
fn running(pods: &[Arc<Pod>]) -> Value {
    let one = |pod: &Arc<Pod>| {
        let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
        let runs = statuses.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
        let containers: Vec<Value> =
            runs.map(|status| value!({"name": status.name, "image": status.image, "resources": {}})).collect();
        let metadata = &pod.metadata;
        (!containers.is_empty()).then(|| {
            value!({
                "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
                "spec": {"containers": containers}, "status": {},
            })
        })
    };
    let items: Vec<Value> = pods.iter().filter_map(one).collect();
    value!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

async fn logs(served: &Arc<Served>, named: &Named, pairs: &[(String, String)]) -> Result<Response<Body>, Problem> {
    let Named { namespace, pod: name, container, .. } = named;
    let options = LogOptions::read(pairs, Timestamp::now()).map_err(Problem::bad_request)?;
    let missing = || Problem::not_found(format!("pod {name:?} does not exist"));
    let pod = served.pod(namespace, name).ok_or_else(missing)?;
    let path = served.pods.log_file(namespace, name, container, options.previous);
    let path = match (path, log::unavailable(&pod, container, options.previous)) {
        (Some(path), None) => path,
        (_, Some(why)) => return Err(Problem::bad_request(why)),
        (None, None) => {
            return Err(Problem::bad_request(format!("container {container:?} in pod {name:?} is not available")));
        }
    };
    let goes_on = {
        let (served, named, path) = (Arc::clone(served), named.clone(), path.clone());
        move || log::is_running(served.pods.as_ref(), &named.namespace, &named.pod, &named.container, &path)
    };
    let body = log::stream(path.clone(), options, goes_on, served.stop.clone()).await;
    let body = body.map_err(|error| {
        Problem::internal(format!("failed to open log file {:?}: {error}", path.display().to_string()))
    })?;
    let mut response = Response::new(body);
    response.extensions_mut().insert(Unhurried);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_with_what_is_wrong() {
        let read = |query: &str| ports(&stream::pairs(query));
        assert_eq!(read("port=80%2C443&port=8080"), Ok(vec![80, 443, 8080]));
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("port=0"), Err("port: \"0\" is not accepted; give numbers from 1 to 65535".to_owned()));
    }

    #[test]
    fn running_pods_are_those_with_a_running_container() {
        let pod = |name: &str, state: Value| {
            let status =
                value!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state});
            let pod = value!({"metadata": {"name": name, "namespace": "n", "uid": "u"}, "status": {"containerStatuses": [status]}});
            Arc::new(objects::from_value::<Pod>(&pod).unwrap())
        };
        let pods = [pod("a", value!({"running": {}})), pod("b", value!({"waiting": {"reason": "x"}}))];
        let want = value!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]}, "status": {}});
        assert_eq!(running(&pods)["items"], value!([want]));
        assert!(
            pod_list(&pods[..1])
                .starts_with("{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[{")
        );
    }
}
