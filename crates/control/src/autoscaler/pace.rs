//! How fast a target grows and shrinks: what was recommended lately, and how many pods came and went in a policy's period. Pure.

use api::object::Fields;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The longest time that anything is remembered for: the longest window there is.
const LONGEST: SignedDuration = SignedDuration::from_secs(3600);

/// What has been recommended and done for one autoscaler.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommended: Vec<(Timestamp, i32)>,
    /// Changes, positive and negative.
    changes: Vec<(Timestamp, i32)>,
}

/// Bounds of an autoscaler and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: i32,
    pub(super) most: i32,
    pub(super) current: i32,
}

/// Why a count is what it is: the reasons and messages of the conditions AbleToScale and ScalingLimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paced {
    pub(super) replicas: i32,
    pub(super) able: (&'static str, &'static str),
    /// Whether the count is another than what was recommended, and why.
    pub(super) limited: (bool, &'static str, &'static str),
}

const STEADY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

impl History {
    /// The first look at a target recommends what it has.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommended.is_empty() {
            self.recommended.push((now, current));
        }
    }

    /// The target was scaled.
    pub(super) fn note_change(&mut self, from: i32, to: i32, now: Timestamp) {
        self.changes.push((now, to - from));
    }

    /// What becomes of a recommendation. `behavior` is that of the autoscaler, `window` how long the past counts on the way down.
    pub(super) fn pace(
        &mut self,
        desired: i32,
        bounds: Bounds,
        behavior: &Value,
        window: SignedDuration,
        now: Timestamp,
    ) -> Paced {
        let stable = self.stabilized(desired, bounds.current, behavior, window, now);
        self.recommended.push((now, desired));
        self.recommended.retain(|(at, _)| *at >= now - LONGEST);
        self.changes.retain(|(at, _)| *at >= now - LONGEST);
        let able = match () {
            () if stable == desired => STEADY,
            () if behavior.is_object() && desired >= bounds.current => UP_STABILIZED,
            () => DOWN_STABILIZED,
        };
        let (replicas, why) = if behavior.is_object() {
            self.by_rules(stable, bounds, behavior, now)
        } else {
            by_default(stable, bounds)
        };
        Paced { replicas, able, limited: (replicas != stable, why.0, why.1) }
    }

    fn stabilized(&self, desired: i32, current: i32, behavior: &Value, window: SignedDuration, now: Timestamp) -> i32 {
        let since = |window: SignedDuration, strict: bool| {
            let cutoff = now - window;
            let recent = move |at: Timestamp| if strict { at > cutoff } else { at >= cutoff };
            self.recommended.iter().filter(move |(at, _)| recent(*at)).map(|(_, count)| *count)
        };
        if !behavior.is_object() {
            return since(window, false).fold(desired, i32::max);
        }
        let seconds = |direction: &str| {
            let given = behavior.at(direction).int_at("stabilizationWindowSeconds");
            given.map(SignedDuration::from_secs)
        };
        let up = since(seconds("scaleUp").unwrap_or_default(), true).fold(desired, i32::min);
        let down = since(seconds("scaleDown").unwrap_or(window), true).fold(desired, i32::max);
        current.max(up).min(down)
    }

    fn by_rules(
        &self,
        desired: i32,
        bounds: Bounds,
        behavior: &Value,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        let Bounds { least, most, current } = bounds;
        if desired > current {
            let limit = self.limit(current, behavior.at("scaleUp"), Direction::Up, now).max(current);
            let (allowed, why) = if most > limit { (limit, UP_LIMIT) } else { (most, TOO_MANY) };
            if desired > allowed {
                return (allowed, why);
            }
        } else if desired < current {
            let limit = self.limit(current, behavior.at("scaleDown"), Direction::Down, now).min(current);
            let (allowed, why) = if least < limit { (limit, DOWN_LIMIT) } else { (least, TOO_FEW) };
            if desired < allowed {
                return (allowed, why);
            }
        }
        (desired, WITHIN)
    }

    /// As far as the policies of one direction allow.
    fn limit(&self, current: i32, rules: &Value, direction: Direction, now: Timestamp) -> i32 {
        let select = rules.str_at("selectPolicy");
        if select == "Disabled" {
            return current;
        }
        let limits = rules.list_at("policies").iter().map(|policy| {
            let period = SignedDuration::from_secs(policy.int_at("periodSeconds").unwrap_or_default());
            let changed: i32 =
                self.changes.iter().filter(|(at, _)| *at > now - period).map(|(_, change)| *change).sum();
            let start = current - changed;
            let value = i32::try_from(policy.int_at("value").unwrap_or_default()).unwrap_or(i32::MAX);
            let percent = f64::from(start) * f64::from(value) / 100.0;
            #[allow(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
            match (policy.str_at("type"), direction) {
                ("Pods", Direction::Up) => start.saturating_add(value),
                ("Pods", Direction::Down) => start.saturating_sub(value),
                (_, Direction::Up) => (f64::from(start) + percent).ceil() as i32,
                (_, Direction::Down) => (f64::from(start) - percent) as i32,
            }
        });
        // The least change is the lower limit on the way up, and the higher on the way down.
        let lower = (select == "Min") == (direction == Direction::Up);
        if lower { limits.min() } else { limits.max() }.unwrap_or(current)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Without a behavior: at most twice as many at a time, or four.
fn by_default(desired: i32, bounds: Bounds) -> (i32, (&'static str, &'static str)) {
    let limit = bounds.current.saturating_mul(2).max(4);
    let (allowed, why) = if bounds.most > limit { (limit, UP_LIMIT) } else { (bounds.most, TOO_MANY) };
    match () {
        () if desired < bounds.least => (bounds.least, TOO_FEW),
        () if desired > allowed => (allowed, why),
        () => (desired, WITHIN),
    }
}
