//! Numbers about questions that others answer and about the files that name them, under upstream's names.

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
};
use runtime::metrics::Metrics;
use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;
type Moment<L> = Family<L, Gauge<f64, AtomicU64>>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reloaded {
    apiserver_id_hash: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    name: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Condition {
    r#type: &'static str,
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfIssuer {
    result: &'static str,
    jwt_issuer_hash: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Fetched {
    result: &'static str,
    jwt_issuer_hash: String,
    apiserver_id_hash: String,
}

/// How the file of one flag is read again.
#[derive(Clone, Debug)]
pub struct ReloadMetrics {
    server: String,
    reloads: Family<Reloaded, Counter>,
    last: Moment<Reloaded>,
    current: Arc<Mutex<Option<String>>>,
}

impl ReloadMetrics {
    /// `what` is `authentication` or `authorization`.
    pub fn new(metrics: &Metrics, what: &str, server: &str) -> Self {
        let name = |rest: &str| format!("apiserver_{what}_config_controller_{rest}");
        let current = Arc::<Mutex<Option<String>>>::default();
        let server = hash(server);
        let info = Info { name: name("last_config_info"), what: what.to_owned(), server: server.clone(), current };
        let made = Self {
            server,
            reloads: metrics.register(
                &name("automatic_reloads"),
                &format!("How often the {what} configuration was read again, by status"),
                Family::default(),
            ),
            last: metrics.register(
                &name("automatic_reload_last_timestamp_seconds"),
                &format!("When the {what} configuration was last read again, by status"),
                Family::default(),
            ),
            current: Arc::clone(&info.current),
        };
        metrics.register_collector(Box::new(info));
        made
    }

    /// This text is in force.
    pub fn in_force(&self, text: &str) {
        *self.current.lock() = Some(hash(text));
    }

    pub fn succeeded(&self, text: &str) {
        self.count("success");
        self.in_force(text);
    }

    pub fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &'static str) {
        let labels = Reloaded { apiserver_id_hash: self.server.clone(), status };
        self.reloads.get_or_create(&labels).inc();
        self.last.get_or_create(&labels).set(now());
    }
}

/// The hash of what is in force; only the newest one is shown.
struct Info {
    name: String,
    what: String,
    server: String,
    current: Arc<Mutex<Option<String>>>,
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Collector for Info {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(current) = self.current.lock().clone() else { return Ok(()) };
        let gauge = ConstGauge::new(1_i64);
        let help = format!("The hash of the {} configuration in force", self.what);
        let mut metric = encoder.encode_descriptor(&self.name, &help, None, gauge.metric_type())?;
        let labels = [("apiserver_id_hash", self.server.as_str()), ("hash", current.as_str())];
        gauge.encode(metric.encode_family(&labels)?)
    }
}

/// How webhooks of authorization answer.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    evaluations: Family<Asked, Counter>,
    durations: Seconds<Asked>,
    fail_open: Family<Asked, Counter>,
    condition_errors: Family<Condition, Counter>,
    condition_exclusions: Family<Condition, Counter>,
    condition_seconds: Seconds<Condition>,
}

impl WebhookMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        let name = |rest: &str| format!("apiserver_authorization_{rest}");
        // Upstream's bounds of both.
        let asked = || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let matched = || Histogram::new([0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25]);
        Self {
            evaluations: metrics.register(
                &name("webhook_evaluations"),
                "Questions to authorization webhooks",
                Family::default(),
            ),
            durations: metrics.register(
                &name("webhook_duration_seconds"),
                "How long authorization webhooks took",
                Seconds::new_with_constructor(asked as fn() -> Histogram),
            ),
            fail_open: metrics.register(
                &name("webhook_evaluations_fail_open"),
                "Questions that were passed on because the webhook did not answer",
                Family::default(),
            ),
            condition_errors: metrics.register(
                &name("match_condition_evaluation_errors"),
                "Match conditions that ended in an error",
                Family::default(),
            ),
            condition_exclusions: metrics.register(
                &name("match_condition_exclusions"),
                "Questions that a webhook was not asked because of its match conditions",
                Family::default(),
            ),
            condition_seconds: metrics.register(
                &name("match_condition_evaluation_seconds"),
                "How long match conditions took",
                Seconds::new_with_constructor(matched as fn() -> Histogram),
            ),
        }
    }

    /// One question to the webhook of this name; `result` is `success`, `timeout` or `error`.
    pub(super) fn asked(&self, name: &str, result: &'static str, took: Duration) {
        let labels = Asked { name: name.to_owned(), result };
        self.evaluations.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn passed_on(&self, name: &str, result: &'static str) {
        self.fail_open.get_or_create(&Asked { name: name.to_owned(), result }).inc();
    }

    pub(super) fn matched(&self, name: &str, result: &Result<bool, String>, took: Duration) {
        let labels = Condition { r#type: "Webhook", name: name.to_owned() };
        self.condition_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let counted = match result {
            Ok(true) => return,
            Ok(false) => &self.condition_exclusions,
            Err(_) => &self.condition_errors,
        };
        counted.get_or_create(&labels).inc();
    }
}

/// How tokens of issuers are checked.
#[derive(Clone, Debug)]
pub struct IssuerMetrics {
    server: String,
    latency: Seconds<OfIssuer>,
    fetched: Moment<Fetched>,
}

impl IssuerMetrics {
    pub fn new(metrics: &Metrics, server: &str) -> Self {
        let bounds = || Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        Self {
            server: hash(server),
            latency: metrics.register(
                "apiserver_authentication_jwt_authenticator_latency_seconds",
                "How long the check of a JSON Web Token took",
                Seconds::new_with_constructor(bounds as fn() -> Histogram),
            ),
            fetched: metrics.register(
                "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
                "When the keys of an issuer were last asked for",
                Family::default(),
            ),
        }
    }

    pub(super) fn checked(&self, issuer: &str, succeeded: bool, took: Duration) {
        let labels = OfIssuer { result: word(succeeded), jwt_issuer_hash: hash(issuer) };
        self.latency.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn fetched(&self, issuer: &str, succeeded: bool) {
        let (jwt_issuer_hash, apiserver_id_hash) = (hash(issuer), self.server.clone());
        let labels = Fetched { result: word(succeeded), jwt_issuer_hash, apiserver_id_hash };
        self.fetched.get_or_create(&labels).set(now());
    }
}

fn word(succeeded: bool) -> &'static str {
    if succeeded { "success" } else { "failure" }
}

fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

/// As upstream writes hashes; nothing has none.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let bytes = digest(&SHA256, text.as_bytes());
    let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
