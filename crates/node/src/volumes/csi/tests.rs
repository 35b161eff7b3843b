//! A driver of the test behind a real socket: it registers, stages, publishes, and is told to take back what it gave.

use super::*;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use prost::Message;
use proto::{
    CapabilityRpc, NodeGetCapabilitiesResponse, NodeGetInfoResponse, NodeServiceCapability, Nothing, PluginInfo,
};
use serde_json::json;
use std::convert::Infallible;
use tokio::net::UnixListener;

/// What a driver was asked, one line each.
type Asked = Arc<Mutex<Vec<String>>>;

/// Answers one call, as gRPC frames it.
async fn answer(
    request: Request<Incoming>,
    endpoint: String,
    asked: Asked,
) -> Result<Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>>>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message = body.get(5..).unwrap_or_default();
    let method = path.rsplit('/').next().unwrap_or_default().to_owned();
    let reply = match method.as_str() {
        "GetInfo" => PluginInfo {
            r#type: "CSIPlugin".into(),
            name: "d.example.test".into(),
            endpoint,
            supported_versions: vec!["1.0.0".into()],
        }
        .encode_to_vec(),
        "NodeGetInfo" => {
            NodeGetInfoResponse { node_id: "id-1".into(), ..NodeGetInfoResponse::default() }.encode_to_vec()
        }
        "NodeGetCapabilities" => {
            let rpc = Some(CapabilityRpc { r#type: RpcType::StageUnstageVolume as i32 });
            NodeGetCapabilitiesResponse { capabilities: vec![NodeServiceCapability { rpc }] }.encode_to_vec()
        }
        "NodePublishVolume" => {
            let request = NodePublishVolumeRequest::decode(message).expect("a message");
            fs::create_dir_all(&request.target_path).expect("a folder");
            asked.lock().push(format!("publish {} {:?}", request.volume_id, request.volume_context));
            Nothing {}.encode_to_vec()
        }
        "NodeUnpublishVolume" => {
            let request = NodeUnpublishVolumeRequest::decode(message).expect("a message");
            asked.lock().push(format!("unpublish {}", request.volume_id));
            Nothing {}.encode_to_vec()
        }
        "NodeStageVolume" => {
            let request = NodeStageVolumeRequest::decode(message).expect("a message");
            asked.lock().push(format!("stage {} {:?}", request.volume_id, request.secrets));
            Nothing {}.encode_to_vec()
        }
        "NodeUnstageVolume" => {
            let request = NodeUnstageVolumeRequest::decode(message).expect("a message");
            asked.lock().push(format!("unstage {}", request.volume_id));
            Nothing {}.encode_to_vec()
        }
        _ => {
            asked.lock().push(method);
            Nothing {}.encode_to_vec()
        }
    };
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(reply.len()).expect("a short message"));
    framed.extend_from_slice(&reply);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = stream::iter([Ok(Frame::data(framed.freeze())), Ok(Frame::trailers(trailers))]);
    let mut response = Response::new(StreamBody::new(frames));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Serves until the test ends.
fn driver(socket: &Path, asked: &Asked) {
    let listener = UnixListener::bind(socket).expect("a socket");
    let (endpoint, asked) = (socket.display().to_string(), Arc::clone(asked));
    runtime::task::beside("test", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (endpoint, asked) = (endpoint.clone(), Arc::clone(&asked));
            let service = service_fn(move |request| answer(request, endpoint.clone(), Arc::clone(&asked)));
            let server = http2::Builder::new(TokioExecutor::new());
            runtime::task::beside("test", server.serve_connection(TokioIo::new(stream), service));
        }
    });
}

/// A cluster that knows the driver and a Secret, and takes what is written.
fn cluster() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let path = request.uri().path().to_owned();
        let found = match path.as_str() {
            "/apis/storage.k8s.io/v1/csidrivers/d.example.test" => Some(
                json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.test"},
                            "spec": {"attachRequired": false, "podInfoOnMount": true}}),
            ),
            "/api/v1/namespaces/n/secrets/s" => {
                Some(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dg=="}}))
            }
            "/apis/storage.k8s.io/v1/csinodes" => {
                Some(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"}}))
            }
            _ => None,
        };
        let (code, body) = match found {
            Some(found) => (200, found),
            None => (
                404,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}),
            ),
        };
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
        Ok::<_, Infallible>(response)
    });
    Client::new(service, "default")
}

fn pod(uid: &str) -> Pod {
    objects::from_value(
        &json!({"metadata": {"name": "p", "namespace": "shop", "uid": uid}, "spec": {"containers": []}}),
    )
    .unwrap()
}

#[tokio::test]
async fn a_volume_is_staged_once_published_to_each_pod_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root(folder.path().to_owned());
    prepare(&root).unwrap();
    let asked = Asked::default();
    driver(&root.registrations().join("d-reg.sock"), &asked);
    let client = cluster();
    let tokens = Arc::new(Tokens::new(client.clone()));
    let csi = Csi::new(root.clone(), client, "node-1".to_owned(), tokens);
    let source = json!({"driver": "d.example.test", "volumeHandle": "h-1", "nodeStageSecretRef": {"namespace": "n", "name": "s"}});
    let found = Persistent {
        name: "pv".into(),
        source: claims::Source::Csi(source.clone()),
        block: false,
        access_modes: vec!["ReadWriteOnce".into()],
        mount_options: Vec::new(),
    };
    for uid in ["u-1", "u-2"] {
        let place = csi.publish_persistent(&pod(uid), &found, &source, false).await.unwrap();
        assert_eq!(place, folder.path().join(format!("pods/{uid}/volumes/kubernetes.io~csi/pv/mount")));
    }
    let info = |uid: &str| {
        format!(
            "publish h-1 {{\"csi.storage.k8s.io/ephemeral\": \"false\", \"csi.storage.k8s.io/pod.name\": \"p\", \"csi.storage.k8s.io/pod.namespace\": \"shop\", \
             \"csi.storage.k8s.io/pod.uid\": \"{uid}\", \"csi.storage.k8s.io/serviceAccount.name\": \"\"}}"
        )
    };
    let staged = "stage h-1 {\"k\": \"v\"}".to_owned();
    let want = ["NotifyRegistrationStatus".to_owned(), staged.clone(), info("u-1"), staged, info("u-2")];
    assert_eq!(std::mem::take(&mut *asked.lock()), want);

    // By what lies in the folders alone, and for good only with the last Pod.
    let other = Csi::new(root.clone(), cluster(), "node-1".to_owned(), Arc::new(Tokens::new(cluster())));
    other.unpublish_all("u-1").await.unwrap();
    assert!(root.staged("d.example.test", &digest("h-1")).exists());
    other.unpublish_all("u-2").await.unwrap();
    assert!(!root.staged("d.example.test", &digest("h-1")).exists());
    other.unpublish_all("u-2").await.unwrap();
    let want = ["NotifyRegistrationStatus", "unpublish h-1", "unpublish h-1", "unstage h-1"];
    assert_eq!(*asked.lock(), want);
}

#[tokio::test]
async fn a_driver_that_nobody_knows_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root(folder.path().to_owned());
    let csi = Csi::new(root, cluster(), "node-1".to_owned(), Arc::new(Tokens::new(cluster())));
    let source: CSIVolumeSource = serde_json::from_value(json!({"driver": "d.example.test"})).unwrap();
    let error = csi.publish_inline(&pod("u"), "v", &source).await.unwrap_err();
    assert_eq!(error, "driver name d.example.test not found in the list of registered CSI drivers");
}
