//! `/healthz`, `/livez` and `/readyz` with named checks, in the words of the Kubernetes API server. Served by `admin`.
//!
//! Mirrors `k8s.io/apiserver/pkg/server/healthz`: `ok` unless `?verbose`, the list whenever something fails, the reason
//! only in the log, `?exclude=<check>` as often as needed, and `/readyz/<check>` for one.

mod slis;

use crate::metrics::Metrics;
use parking_lot::RwLock;
use slis::Slis;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Which endpoints a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All three: when it fails, a restart is the remedy.
    Live,
    /// `/readyz` alone: when it fails, nobody should be sent here for now.
    Ready,
    /// Listed in all three and never a failure: something that an administrator should mend while work goes on.
    Advice,
}

/// The three endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status: 200, 404 or 500.
    pub status: u16,
    /// Plain text.
    pub body: String,
}

type Test = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
struct Check {
    name: String,
    scope: Scope,
    test: Test,
}

/// The checks of this process; clones share them. Starts with `ping`, which always passes, and `shutdown`.
#[derive(Clone)]
pub struct Health {
    checks: Arc<RwLock<Vec<Check>>>,
    shutting_down: Arc<AtomicBool>,
    slis: Slis,
}

impl Health {
    /// Healthy and ready until told otherwise.
    #[must_use]
    pub fn new() -> Self {
        let health = Self { checks: Arc::default(), shutting_down: Arc::default(), slis: Slis::new() };
        health.add("ping", Scope::Live, || Ok(()));
        let shutting_down = Arc::clone(&health.shutting_down);
        health.add("shutdown", Scope::Ready, move || match shutting_down.load(Ordering::Relaxed) {
            true => Err("process is shutting down".to_owned()),
            false => Ok(()),
        });
        health
    }

    /// Adds a check, or replaces the one of that name. `test` is called at each request and must not block: what takes
    /// long is done elsewhere and only looked up here.
    pub fn add(&self, name: &str, scope: Scope, test: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let check = Check { name: name.to_owned(), scope, test: Arc::new(test) };
        let mut checks = self.checks.write();
        match checks.iter_mut().find(|old| old.name == name) {
            Some(old) => *old = check,
            None => checks.push(check),
        }
    }

    /// Removes a check; one that is not there is no mistake.
    pub fn remove(&self, name: &str) {
        self.checks.write().retain(|check| check.name != name);
        self.slis.forget(name);
    }

    /// What came of the checks so far, for `/metrics/slis`.
    #[must_use]
    pub fn slis(&self) -> &Metrics {
        &self.slis.metrics
    }

    /// From now on `/readyz` fails, so that load balancers look elsewhere while requests are still answered.
    pub fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    /// The answer to a request, or `None` when `path` is not one of ours. `query` is the raw query of the URL.
    #[must_use]
    pub fn answer(&self, path: &str, query: &str) -> Option<Answer> {
        let path = path.strip_prefix('/')?;
        let (name, one) = path.split_once('/').map_or((path, None), |(name, one)| (name, Some(one)));
        let endpoint = Endpoint::ALL.into_iter().find(|endpoint| endpoint.name() == name)?;
        let checks = self.of(endpoint);
        Some(match one {
            Some(one) if !one.is_empty() => self.answer_one(endpoint, checks.iter().find(|check| check.name == one)),
            _ => self.answer_all(endpoint, &checks, query),
        })
    }

    /// Runs a check and counts what came of it.
    fn outcome(&self, endpoint: Endpoint, check: &Check) -> Result<(), String> {
        let outcome = (check.test)();
        self.slis.note(&check.name, endpoint.name(), outcome.is_ok() || check.scope == Scope::Advice);
        outcome
    }

    fn answer_one(&self, endpoint: Endpoint, check: Option<&Check>) -> Answer {
        let Some(check) = check else { return Answer { status: 404, body: "404 page not found\n".to_owned() } };
        match self.outcome(endpoint, check) {
            Ok(()) => Answer { status: 200, body: "ok".to_owned() },
            Err(reason) if check.scope == Scope::Advice => Answer { status: 200, body: format!("ok, but {reason}\n") },
            Err(reason) => {
                tracing::info!(endpoint = endpoint.name(), check = check.name, reason, "health check failed");
                Answer { status: 500, body: format!("internal server error: {reason}\n") }
            }
        }
    }

    fn answer_all(&self, endpoint: Endpoint, checks: &[Check], query: &str) -> Answer {
        let parameters: Vec<(&str, String)> = query
            .split('&')
            .map(|pair| pair.split_once('=').map_or((pair, String::new()), |(k, v)| (k, decoded(v))))
            .collect();
        let verbose = parameters.iter().any(|(name, _)| *name == "verbose");
        let mut excluded: Vec<&str> = parameters
            .iter()
            .filter(|(name, value)| *name == "exclude" && !value.is_empty())
            .map(|(_, value)| value.as_str())
            .collect();

        let mut list = String::new();
        let mut failed = false;
        for check in checks {
            let name = &check.name;
            let outcome = if excluded.contains(&name.as_str()) { None } else { Some(self.outcome(endpoint, check)) };
            list.push_str(&match outcome {
                None => {
                    excluded.retain(|excluded| excluded != name);
                    format!("[+]{name} excluded: ok\n")
                }
                Some(Ok(())) => format!("[+]{name} ok\n"),
                Some(Err(reason)) if check.scope == Scope::Advice => format!("[!]{name} ok, but {reason}\n"),
                Some(Err(reason)) => {
                    failed = true;
                    tracing::info!(endpoint = endpoint.name(), check = name, reason, "health check failed");
                    // Probes may be open to everyone; reasons may name what is inside.
                    format!("[-]{name} failed: reason withheld\n")
                }
            });
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            list.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        let name = endpoint.name();
        match (failed, verbose) {
            (true, _) => Answer { status: 500, body: format!("{list}{name} check failed\n") },
            (false, true) => Answer { status: 200, body: format!("{list}{name} check passed\n") },
            (false, false) => Answer { status: 200, body: "ok".to_owned() },
        }
    }

    /// A copy, so that no lock is held while checks run.
    fn of(&self, endpoint: Endpoint) -> Vec<Check> {
        let belongs = |check: &&Check| check.scope != Scope::Ready || endpoint == Endpoint::Readyz;
        self.checks.read().iter().filter(belongs).cloned().collect()
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.checks.read().iter().map(|check| check.name.clone()).collect();
        f.debug_struct("Health").field("checks", &names).field("shutting_down", &self.shutting_down).finish()
    }
}

/// Undoes percent signs and pluses of a query value. Checks have plain names; what does not decode matches none of
/// them.
fn decoded(value: &str) -> String {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |high: u8, low: u8| u8::try_from(digit(high)? << 4 | digit(low)?).ok();
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        bytes.push(match (first, tail) {
            (b'%', [high, low, after @ ..]) if let Some(byte) = byte(*high, *low) => {
                rest = after;
                byte
            }
            (b'+', _) => b' ',
            (other, _) => *other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
