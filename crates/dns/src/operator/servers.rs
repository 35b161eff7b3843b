//! What the servers say they run. Both operands fill in [`Reports`]; the controller reads them.

use super::{NAMESPACE, POD_LABEL};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use runtime::controller::Store;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// Where servers in Pods show their metrics.
const METRICS_PORT: u16 = 9153;
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes of metrics that are read.
const LARGEST: usize = 8 << 20;
/// Servers that are asked at a time.
const AT_A_TIME: usize = 32;

/// What one server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The hash of the Corefile that it runs.
    pub hash: Option<String>,
    /// Why it does not run the newest.
    pub problem: Option<String>,
    /// Where it answers, as far as that is known.
    pub addresses: Vec<SocketAddr>,
}

/// What all servers say, by name; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    inner: Arc<(Mutex<BTreeMap<String, Report>>, Notify)>,
}

impl Reports {
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Report> {
        self.inner.0.lock().clone()
    }

    /// In the place of what was there.
    pub fn set(&self, reports: BTreeMap<String, Report>) {
        let mut known = self.inner.0.lock();
        if *known != reports {
            *known = reports;
            self.inner.1.notify_one();
        }
    }

    /// Waits for a change. For one listener.
    pub async fn changed(&self) {
        self.inner.1.notified().await;
    }
}

/// Asks every running server Pod.
pub(super) async fn ask(pods: &Store<Pod>) -> BTreeMap<String, Report> {
    let running = pods.in_namespace(NAMESPACE).into_iter().filter_map(|pod| {
        let labels = pod.metadata.labels.as_ref()?;
        let (name, status) = (pod.metadata.name.clone()?, pod.status.as_ref()?);
        let ours = labels.contains_key(POD_LABEL) && pod.metadata.deletion_timestamp.is_none();
        let running = ours && status.phase.as_deref() == Some("Running");
        let address: IpAddr = status.pod_ip.as_ref()?.parse().ok().filter(|_| running)?;
        Some((name, SocketAddr::new(address, METRICS_PORT)))
    });
    let asked = running.map(|(name, address)| async move {
        let report = match tokio::time::timeout(PATIENCE, metrics(address)).await {
            Ok(Ok(text)) => Report { hash: running_hash(&text), ..Report::default() },
            Ok(Err(error)) => failed(format!("{address} does not answer: {error}")),
            Err(_) => failed(format!("{address} does not answer in time")),
        };
        (name, report)
    });
    stream::iter(asked).buffer_unordered(AT_A_TIME).collect().await
}

fn failed(problem: String) -> Report {
    Report { problem: Some(problem), ..Report::default() }
}

async fn metrics(address: SocketAddr) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request =
        http::Request::get("/metrics").header(http::header::HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let asked = async move {
        let response = sender.send_request(request).await?;
        let body = Limited::new(response.into_body(), LARGEST).collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    // Dropped together: the connection ends with the answer.
    let mut connection = std::pin::pin!(connection);
    let mut asked = std::pin::pin!(asked);
    tokio::select! {
        answer = &mut asked => answer,
        ended = &mut connection => {
            ended?;
            asked.await
        }
    }
}

/// The hash in a text of metrics.
pub(super) fn running_hash(metrics: &str) -> Option<String> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix("coredns_reload_version_info{"));
    let mut values = lines.filter_map(|line| {
        let (labels, value) = line.rsplit_once('}')?;
        let hash = labels.split(',').find_map(|label| label.strip_prefix("value=\"")?.strip_suffix('"'))?;
        (value.trim().split(' ').next() == Some("1")).then(|| hash.to_owned())
    });
    values.next_back()
}

/// The number of Corefiles that were refused, in a text of metrics.
pub(super) fn refusals(metrics: &str) -> u64 {
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix("coredns_reload_failed_total "));
    values.next().and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_hash_is_found_in_metrics() {
        let text = "# TYPE coredns_reload_version_info gauge\n\
                    coredns_reload_version_info{hash=\"sha512\",value=\"aa\"} 0\n\
                    coredns_reload_version_info{hash=\"sha512\",value=\"bb\"} 1\n\
                    coredns_reload_failed_total 3\n";
        assert_eq!(running_hash(text).as_deref(), Some("bb"));
        assert_eq!(refusals(text), 3);
        assert_eq!(running_hash("coredns_panics_total 0\n"), None);
        assert_eq!(refusals(""), 0);
    }

    #[tokio::test]
    async fn a_change_of_reports_is_told_once() {
        let reports = Reports::default();
        let one = BTreeMap::from([("a".to_owned(), Report::default())]);
        reports.set(one.clone());
        reports.changed().await;
        reports.set(one);
        assert!(tokio::time::timeout(Duration::from_millis(20), reports.changed()).await.is_err());
    }
}
