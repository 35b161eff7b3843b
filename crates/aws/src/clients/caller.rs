//! Makes each call: waits for its turn, tries again where that helps, counts and logs every attempt.

use super::{
    actions::{Access, Action, Service},
    bucket::{Bucket, Rate},
    failure::{Class, Failure, Reach},
};
use crate::account::AwsError;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};
use runtime::{
    backoff::{self, Backoff},
    metrics::Metrics,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Attempts of one call, with the delays of [`BACKOFF`] between them.
const ATTEMPTS: u32 = 6;
/// No attempt begins so long after the first: who called has other work, and comes back by itself.
const PATIENCE: Duration = Duration::from_secs(20);
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(300), cap: Duration::from_secs(5) };

/// Below what AWS allows an account, so that others who use it get their share. EC2's own buckets hold 100 reads, refilled with 20 a second,
/// and 50 writes, refilled with 5; those of load balancers hold 40 reads, refilled with 10, and 20 writes, refilled with 3 (targets with 4);
/// Route53 takes 5 requests a second of an account, whichever they are.
fn rate(service: Service, access: Access) -> Rate {
    let (per_second, burst) = match (service, access) {
        (Service::Ec2, Access::Read) => (15.0, 75.0),
        (Service::Ec2, Access::Write) => (4.0, 30.0),
        (Service::LoadBalancing, Access::Read) => (8.0, 36.0),
        (Service::LoadBalancing, Access::Write) => (2.5, 16.0),
        (Service::Route53, _) => (4.0, 5.0),
        (Service::Sts, _) => (1.0, 5.0),
    };
    Rate { per_second, burst }
}

/// What an attempt brought, with AWS's id of the request.
pub(super) struct Answered<T> {
    pub(super) value: T,
    pub(super) request_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    service: &'static str,
    action: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    service: &'static str,
    action: &'static str,
}

/// Makes calls; clones share limits and counts.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    buckets: Vec<(Service, Access, Bucket)>,
    attempts: Family<Attempt, Counter>,
    seconds: Family<Called, Histogram>,
    backoff: Backoff,
}

fn seconds() -> Histogram {
    Histogram::new([0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

impl Caller {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self::with_backoff(metrics, BACKOFF)
    }

    pub(super) fn with_backoff(metrics: &Metrics, backoff: Backoff) -> Self {
        let now = Instant::now();
        let mut buckets = Vec::new();
        for service in Service::ALL {
            for access in [Access::Read, Access::Write] {
                buckets.push((service, access, Bucket::new(rate(service, access), now)));
            }
        }
        let inner = Inner {
            buckets,
            attempts: metrics.register(
                "twinstack_aws_calls",
                "Attempts of calls of AWS, by how they ended",
                Family::default(),
            ),
            seconds: metrics.register(
                "twinstack_aws_call_seconds",
                "How long attempts of calls of AWS took",
                Family::new_with_constructor(seconds as fn() -> Histogram),
            ),
            backoff,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same without limits.
    pub(super) fn without_limits(&self) -> Self {
        let Inner { attempts, seconds, backoff, .. } = &*self.inner;
        let inner =
            Inner { buckets: Vec::new(), attempts: attempts.clone(), seconds: seconds.clone(), backoff: *backoff };
        Self { inner: Arc::new(inner) }
    }

    /// The bucket of a call. Route53 and STS do not tell reads from writes.
    fn bucket(&self, action: &Action) -> Option<&Bucket> {
        let access = match action.service {
            Service::Route53 | Service::Sts => Access::Read,
            Service::Ec2 | Service::LoadBalancing => action.access,
        };
        let mut all = self.inner.buckets.iter();
        all.find(|(service, kind, _)| (*service, *kind) == (action.service, access)).map(|(_, _, bucket)| bucket)
    }

    /// Makes a call.
    pub(super) async fn call<T, F>(&self, action: Action, attempt: impl Fn() -> F) -> Result<T, AwsError>
    where
        F: Future<Output = Result<Answered<T>, Failure>>,
    {
        let bucket = self.bucket(&action);
        let (mut failures, mut begun) = (0, None);
        loop {
            let wait = bucket.map_or(Duration::ZERO, |bucket| bucket.take(Instant::now()));
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let started = Instant::now();
            let begun = *begun.get_or_insert(started);
            let outcome = attempt().await;
            let seconds = started.elapsed().as_secs_f64();
            let failure = match outcome {
                Ok(Answered { value, request_id }) => {
                    self.note(&action, "ok", seconds);
                    tracing::debug!(call = action.iam(), request_id, seconds, "AWS answered");
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            failures += 1;
            let class = failure.class();
            self.note(&action, outcome_of(&failure, class), seconds);
            let Failure { code, message, request_id, .. } = &failure;
            tracing::debug!(call = action.iam(), request_id, seconds, failures, code, message, "AWS did not do it");
            match class {
                Class::Throttled => bucket.into_iter().for_each(|bucket| bucket.empty(Instant::now())),
                Class::Expired | Class::Passing => {}
                Class::Denied | Class::Final => return Err(failure.into_error(&action)),
            }
            if failures >= ATTEMPTS || begun.elapsed() > PATIENCE {
                return Err(failure.into_error(&action));
            }
            tokio::time::sleep(self.inner.backoff.delay(failures, backoff::random())).await;
        }
    }

    fn note(&self, action: &Action, outcome: &'static str, seconds: f64) {
        let (service, action) = (action.service.prefix(), action.name);
        self.inner.attempts.get_or_create(&Attempt { service, action, outcome }).inc();
        self.inner.seconds.get_or_create(&Called { service, action }).observe(seconds);
    }
}

fn outcome_of(failure: &Failure, class: Class) -> &'static str {
    match (class, failure.reach) {
        (Class::Throttled, _) => "throttled",
        (Class::Denied, _) => "denied",
        (Class::Expired, _) => "expired",
        (_, Reach::NotSent) => "not-sent",
        (_, Reach::NoAnswer) => "no-answer",
        (Class::Passing, Reach::Answered(_)) => "failed",
        (Class::Final, Reach::Answered(_)) => "refused",
    }
}
