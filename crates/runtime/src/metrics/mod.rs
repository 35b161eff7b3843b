//! Numbers for Prometheus. Every component registers its metrics in one [`Metrics`]; `admin` serves them at `/metrics`.

mod accept;
mod classic;
mod process;

use crate::version::BUILD;
use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::text::encode,
    metrics::info::Info,
    registry::{Metric, Registry},
};
use std::sync::Arc;

/// The process's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
}

/// An answer to a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposition {
    /// For the `Content-Type` header.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// The two text forms a scraper may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' own, older and understood by everything.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The one wanted by an `Accept` header: OpenMetrics if it is preferred to plain text, else classic.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Self {
        accept::preferred(accept.unwrap_or_default())
    }
}

impl Metrics {
    /// Metrics of the process and of the build; a component adds its own.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::empty();
        metrics.register_collector(Box::new(process::Process));
        let build =
            Info::new(vec![("version", BUILD.version), ("git_commit", BUILD.git_commit), ("platform", BUILD.platform)]);
        metrics.registry.write().register("twinstack_build", "The build that is running", build);
        metrics
    }

    /// None at all, for an endpoint that shows something of its own.
    #[must_use]
    pub fn empty() -> Self {
        Self { registry: Arc::default() }
    }

    /// Adds `metric` and hands it back. A counter's `name` goes without `_total`: the text form adds it.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        // The encoder writes help texts as they are, though both forms want these two escaped.
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.registry.write().register(name, help, metric.clone());
        metric
    }

    /// Adds metrics that are gathered when asked for.
    pub fn register_collector(&self, collector: Box<dyn Collector>) {
        self.registry.write().register_collector(collector);
    }

    /// All metrics as text.
    #[must_use]
    pub fn render(&self, format: TextFormat) -> Exposition {
        let mut text = String::new();
        encode(&mut text, &self.registry.read())
            .expect("writing to a string does not fail, and no metric of ours refuses");
        match format {
            TextFormat::Classic => Exposition {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: classic::from_openmetrics(&text),
            },
            TextFormat::OpenMetrics => {
                Exposition { content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8", body: text }
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
