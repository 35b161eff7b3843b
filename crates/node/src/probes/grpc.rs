//! Questions by gRPC's health protocol, always to the Pod's own address.

use super::{
    state::Answer,
    target::{Target, host_port},
};
use http::uri::PathAndQuery;
use k8s_openapi::api::core::v1::GRPCAction;
use prost::Message;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Request, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;

pub(super) async fn probe(action: &GRPCAction, target: &Target<'_>, patience: Duration) -> Answer {
    let place = target.address().and_then(|address| {
        let port = u16::try_from(action.port).map_err(|_| format!("invalid port number: {}", action.port))?;
        Ok(host_port(&address.to_string(), port))
    });
    let place = match place {
        Ok(place) => place,
        Err(why) => return Answer::Unknown(why),
    };
    let service = action.service.clone().unwrap_or_default();
    let late =
        || Answer::Unhealthy(format!("timeout: failed to connect service {place:?} within {}s", patience.as_secs()));
    match timeout(patience, ask(&place, service, patience)).await {
        Ok(Ok(SERVING)) => Answer::Healthy,
        Ok(Ok(status)) => {
            let name =
                ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"].get(status as usize).unwrap_or(&"UNKNOWN");
            Answer::Unhealthy(format!("service unhealthy (responded with {name:?})"))
        }
        Ok(Err(status)) => match status.code() {
            Code::Unimplemented => Answer::Unhealthy(format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                status.message()
            )),
            Code::DeadlineExceeded | Code::Unavailable => late(),
            _ => Answer::Unhealthy(format!("error: health rpc failed: {}", status.message())),
        },
        Err(_) => late(),
    }
}

async fn ask(place: &str, service: String, patience: Duration) -> Result<i32, tonic::Status> {
    let broken = |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{place}")).map_err(broken)?;
    let endpoint = endpoint.connect_timeout(patience).user_agent("kube-probe/1.37").map_err(broken)?;
    let mut grpc = Grpc::new(endpoint.connect().await.map_err(broken)?);
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<HealthCheckRequest, HealthCheckResponse> = ProstCodec::default();
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let answer = grpc.unary(Request::new(HealthCheckRequest { service }), path, codec).await?;
    Ok(answer.into_inner().status)
}
