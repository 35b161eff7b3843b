//! Which calls were made, and when.

use super::call::Api;
use std::time::{Duration, Instant};

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub api: Api,
    /// `CreateListener`.
    pub action: String,
    /// Whether it could change something.
    pub write: bool,
    /// When it came.
    pub at: Instant,
}

impl Made {
    /// `Elbv2 CreateListener`.
    pub fn name(&self) -> String {
        format!("{:?} {}", self.api, self.action)
    }

    /// The permission that it needs: `elasticloadbalancing:CreateListener`.
    pub fn iam(&self) -> String {
        let (_, scope) = self.api.version_and_scope();
        format!("{scope}:{}", self.action)
    }
}

/// How far calls exceed a token bucket that holds `burst` and gets `per_second` back: 0 when they fit. The bucket is full at first.
pub fn excess<'a>(calls: impl IntoIterator<Item = &'a Made>, burst: u32, per_second: f64) -> u32 {
    let mut tokens = f64::from(burst);
    let mut last: Option<Instant> = None;
    let mut excess = 0;
    for call in calls {
        let passed = last.map_or(Duration::ZERO, |last| call.at.saturating_duration_since(last));
        last = Some(call.at);
        tokens = (tokens + passed.as_secs_f64() * per_second).min(f64::from(burst));
        if tokens < 1.0 {
            excess += 1;
        } else {
            tokens -= 1.0;
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beyond_the_bucket_are_counted() {
        let start = Instant::now();
        let call = |ms: u64| Made {
            api: Api::Ec2,
            action: "DescribeSubnets".to_owned(),
            write: false,
            at: start + Duration::from_millis(ms),
        };
        let quick: Vec<Made> = (0..10).map(|_| call(0)).collect();
        assert_eq!(excess(&quick, 10, 1.0), 0);
        assert_eq!(excess(&quick, 7, 1.0), 3);
        let steady: Vec<Made> = (0..30).map(|number| call(number * 500)).collect();
        assert_eq!(excess(&steady, 1, 2.0), 0);
        assert!(excess(&steady, 1, 1.0) > 10);
    }
}
