//! What the servers say they run. Both operands fill in [`Reports`]; the controller reads them.

use super::{NAMESPACE, POD_LABEL};
use crate::fetch;
use futures::{StreamExt, stream};
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
/// Servers that are asked at a time.
const AT_A_TIME: usize = 32;
/// Rounds of silence after which it is not known what a server runs.
const ROUNDS: u32 = 3;

/// What one server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The hash of the Corefile that it runs.
    pub hash: Option<String>,
    /// Why it does not run the newest: it has refused it.
    pub problem: Option<String>,
    /// Why nothing is known of it for now. That is no refusal.
    pub silence: Option<String>,
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

/// What is remembered of servers in Pods from one round of questions to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The hashes that were wanted in the last round.
    wanted: Vec<String>,
    pods: BTreeMap<String, Remembered>,
}

#[derive(Clone, Debug, Default)]
struct Remembered {
    hash: Option<String>,
    /// Corefiles that it had refused when it was given the newest.
    refused: u64,
    /// Rounds without an answer.
    missed: u32,
}

/// What one server answered: its metrics, or why there are none.
type Heard = Result<String, String>;

impl Memory {
    /// What the answers of a round mean, while servers should run one of these hashes.
    pub(super) fn judge(&mut self, heard: BTreeMap<String, Heard>, wanted: &[String]) -> BTreeMap<String, Report> {
        let changed = self.wanted != wanted;
        self.wanted = wanted.to_vec();
        self.pods.retain(|name, _| heard.contains_key(name));
        let judged = heard.into_iter().map(|(name, heard)| {
            let known = self.pods.entry(name.clone()).or_default();
            let report = match heard {
                Ok(metrics) => known.heard(&metrics, wanted, changed),
                Err(why) => known.missed(why),
            };
            (name, report)
        });
        judged.collect()
    }
}

impl Remembered {
    fn heard(&mut self, metrics: &str, wanted: &[String], changed: bool) -> Report {
        let (hash, refused) = (running_hash(metrics), refusals(metrics));
        let runs = hash.as_ref().is_some_and(|hash| wanted.contains(hash));
        // What it refused before concerns another Corefile; a server that began anew counts from nothing.
        if runs || refused < self.refused {
            self.refused = refused;
        }
        let newly = refused > self.refused && !runs && !changed;
        if changed {
            self.refused = refused;
        }
        self.missed = 0;
        self.hash.clone_from(&hash);
        let refusal = "it refused the newest Corefile (coredns_reload_failed_total); its log says why";
        Report { hash, problem: newly.then(|| refusal.to_owned()), ..Report::default() }
    }

    /// For some rounds it is taken to run what it ran.
    fn missed(&mut self, why: String) -> Report {
        self.missed += 1;
        if self.missed >= ROUNDS {
            self.hash = None;
        }
        let silence = (self.missed >= ROUNDS || self.hash.is_none()).then_some(why);
        Report { hash: self.hash.clone(), silence, ..Report::default() }
    }
}

/// Asks every running server Pod.
pub(super) async fn ask(pods: &Store<Pod>) -> BTreeMap<String, Heard> {
    let running = pods.in_namespace(NAMESPACE).into_iter().filter_map(|pod| {
        let labels = pod.metadata.labels.as_ref()?;
        let (name, status) = (pod.metadata.name.clone()?, pod.status.as_ref()?);
        let ours = labels.contains_key(POD_LABEL) && pod.metadata.deletion_timestamp.is_none();
        let running = ours && status.phase.as_deref() == Some("Running");
        let address: IpAddr = status.pod_ip.as_ref()?.parse().ok().filter(|_| running)?;
        Some((name, SocketAddr::new(address, METRICS_PORT)))
    });
    let asked = running.map(|(name, address)| async move {
        let heard = match tokio::time::timeout(PATIENCE, fetch::text(address, "/metrics")).await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(format!("{address} does not answer: {error}")),
            Err(_) => Err(format!("{address} does not answer in time")),
        };
        (name, heard)
    });
    stream::iter(asked).buffer_unordered(AT_A_TIME).collect().await
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

    fn round(memory: &mut Memory, heard: Result<(&str, u64), ()>, wanted: &str) -> String {
        let heard = heard.map_err(|()| "no route".to_owned()).map(|(hash, refused)| {
            format!("coredns_reload_version_info{{hash=\"sha512\",value=\"{hash}\"}} 1\ncoredns_reload_failed_total {refused}\n")
        });
        let reports = memory.judge(BTreeMap::from([("a".to_owned(), heard)]), &[wanted.to_owned()]);
        let Report { hash, problem, silence, .. } = &reports["a"];
        let word = |set: bool, word: &str| if set { format!(" {word}") } else { String::new() };
        let hash = hash.as_deref().unwrap_or("-");
        format!("{hash}{}{}", word(problem.is_some(), "refused"), word(silence.is_some(), "silent"))
    }

    #[test]
    fn silence_is_no_refusal_and_a_refusal_is_seen() {
        let mut memory = Memory::default();
        for (heard, wanted, expected) in [
            // A Pod that is still starting.
            (Err(()), "one", "- silent"),
            (Ok(("one", 0)), "one", "one"),
            // A moment of silence changes nothing; more does.
            (Err(()), "one", "one"),
            (Err(()), "one", "one"),
            (Err(()), "one", "- silent"),
            (Ok(("one", 0)), "one", "one"),
            // A new Corefile is not there yet, then refused, then mended.
            (Ok(("one", 0)), "two", "one"),
            (Ok(("one", 0)), "two", "one"),
            (Ok(("one", 1)), "two", "one refused"),
            (Ok(("one", 1)), "two", "one refused"),
            (Ok(("one", 1)), "three", "one"),
            (Ok(("one", 1)), "three", "one"),
            (Ok(("three", 1)), "three", "three"),
            // It began anew.
            (Ok(("three", 0)), "three", "three"),
            (Ok(("three", 0)), "four", "three"),
            (Ok(("three", 1)), "four", "three refused"),
            (Ok(("four", 1)), "four", "four"),
        ] {
            assert_eq!(round(&mut memory, heard, wanted), expected, "{heard:?} {wanted}");
        }
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
