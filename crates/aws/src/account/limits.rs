//! How many calls AWS takes from an account in a region: a bucket for each class of calls, which fills at a rate.
//!
//! From AWS's page on throttling of the ELB API (reads) and of the EC2 API, and for registrations and changes from what the AWS Load Balancer
//! Controller keeps to. Whoever makes calls stays below; tests count calls against it.

/// A bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Calls that it regains each second.
    pub per_second: f64,
    /// Calls that it holds.
    pub burst: f64,
}

impl Limit {
    /// Seconds that so many calls take when they begin with a full bucket.
    pub fn seconds(self, calls: usize) -> f64 {
        (calls as f64 - self.burst).max(0.0) / self.per_second
    }
}

/// The bucket of a call, and what to call it, by the IAM action. Classic and other load balancers have buckets of their own of the same size.
pub fn limit(action: &str) -> (&'static str, Limit) {
    let (service, call) = action.split_once(':').unwrap_or(("", action));
    match (service, call.starts_with("Describe")) {
        ("ec2", true) => ("EC2 reads", Limit { per_second: 20.0, burst: 100.0 }),
        ("ec2", false) => ("EC2 changes", Limit { per_second: 5.0, burst: 50.0 }),
        (_, true) => ("ELB reads", Limit { per_second: 10.0, burst: 40.0 }),
        (_, false) if call.contains("register") || call.starts_with("Register") => {
            ("ELB registrations", Limit { per_second: 4.0, burst: 20.0 })
        }
        (_, false) => ("ELB changes", Limit { per_second: 3.0, burst: 20.0 }),
    }
}
