//! What answers of probes come to: thresholds, and what each kind of probe decides. Pure.

use super::{ProbeFailure, Verdict};
use k8s_openapi::api::core::v1::{Container, Pod, Probe};

/// Which probe of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    pub(super) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }

    /// As upstream begins its sentences.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Readiness => "readiness",
            Self::Liveness => "liveness",
            Self::Startup => "startup",
        }
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Healthy,
    /// It works, and somebody should know something.
    Warning(String),
    Unhealthy(String),
    /// It could not be asked: counts as nothing.
    Unknown(String),
}

/// Answers in a row, until there are enough of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    success: u32,
    failure: u32,
    row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    None,
    Healthy(u32),
    Unhealthy(u32),
}

impl Count {
    pub(super) fn new(probe: &Probe) -> Self {
        let threshold = |given: Option<i32>, usual: u32| {
            given.and_then(|given| u32::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(usual)
        };
        Self {
            success: threshold(probe.success_threshold, 1),
            failure: threshold(probe.failure_threshold, 3),
            row: Row::None,
        }
    }

    /// What holds after one more answer; nothing while there are too few of a kind.
    pub(super) fn add(&mut self, healthy: bool) -> Option<bool> {
        self.row = match (self.row, healthy) {
            (Row::Healthy(count), true) => Row::Healthy(count + 1),
            (_, true) => Row::Healthy(1),
            (Row::Unhealthy(count), false) => Row::Unhealthy(count + 1),
            (_, false) => Row::Unhealthy(1),
        };
        match self.row {
            Row::Healthy(count) if count >= self.success => Some(true),
            Row::Unhealthy(count) if count >= self.failure => Some(false),
            _ => None,
        }
    }
}

/// What is known of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    started: bool,
    ready: bool,
    failed: Option<ProbeFailure>,
}

impl Known {
    /// Before the first answer: what has a probe has not passed it. A container that is older than this kubelet is what its Pod
    /// says, so that a restart of the kubelet takes no Pod out of its Services.
    pub(super) fn new(pod: &Pod, container: &Container, id: &str, older: bool) -> Self {
        let status = pod.status.as_ref().filter(|_| older);
        let all = status
            .into_iter()
            .flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten());
        // `containerd://` and the id.
        let own = all
            .into_iter()
            .find(|one| one.container_id.as_deref().is_some_and(|full| full.ends_with(&format!("://{id}"))));
        let (started, ready) = own.map_or((false, false), |own| (own.started.unwrap_or_default(), own.ready));
        Self {
            started: container.startup_probe.is_none() || started,
            ready: container.readiness_probe.is_none() || ready,
            failed: None,
        }
    }

    pub(super) fn started(&self) -> bool {
        self.started
    }

    pub(super) fn verdict(&self) -> Verdict {
        Verdict { started: self.started, ready: self.started && self.ready, failed: self.failed.clone() }
    }

    /// Takes what a probe has come to. Says whether that changes anything.
    pub(super) fn decide(&mut self, kind: Kind, healthy: bool, message: &str, grace: Option<i64>) -> bool {
        let before = self.clone();
        match (kind, healthy) {
            (Kind::Startup, true) => self.started = true,
            (Kind::Readiness, healthy) => self.ready = healthy,
            (Kind::Liveness, true) => {}
            (Kind::Startup | Kind::Liveness, false) => {
                self.failed = Some(ProbeFailure { probe: kind.name(), message: message.to_owned(), grace });
            }
        }
        *self != before
    }

    /// Whether a probe has something to find out: others wait for the start, and what has failed is left alone until it is replaced.
    pub(super) fn asks(&self, kind: Kind) -> bool {
        self.failed.is_none() && (kind == Kind::Startup) != self.started
    }
}
