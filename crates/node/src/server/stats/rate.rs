//! Processor time per time: from one look to the next.

use parking_lot::Mutex;
use std::collections::HashMap;

/// The last two looks at each counter.
#[derive(Default)]
pub(in crate::server) struct Rates {
    known: Mutex<HashMap<String, Looks>>,
}

#[derive(Clone, Copy)]
struct Looks {
    at: i64,
    cpu: u64,
    rate: Option<u64>,
    /// Seen since the last tidying.
    fresh: bool,
}

/// Looks that are nearer to each other say nothing.
const NEAREST: i64 = 1_000_000_000;

impl Rates {
    /// Billionths of a processor since the look before; nothing at the first.
    pub(super) fn rate(&self, id: &str, at: i64, cpu: u64) -> Option<u64> {
        let mut known = self.known.lock();
        let Some(before) = known.get_mut(id) else {
            known.insert(id.to_owned(), Looks { at, cpu, rate: None, fresh: true });
            return None;
        };
        before.fresh = true;
        let passed = at - before.at;
        if passed < NEAREST {
            return before.rate;
        }
        let used = u128::from(cpu.saturating_sub(before.cpu));
        let rate = u64::try_from(used * 1_000_000_000 / u128::from(passed.unsigned_abs())).ok();
        *before = Looks { at, cpu, rate, fresh: true };
        rate
    }

    /// Forgets what was not looked at since the last time.
    pub(super) fn forget_others(&self) {
        self.known.lock().retain(|_, looks| std::mem::take(&mut looks.fresh));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_looks_that_are_apart() {
        let rates = Rates::default();
        let second = 1_000_000_000;
        assert_eq!(rates.rate("a", 0, 0), None);
        assert_eq!(rates.rate("a", 2 * second, 1_000_000_000), Some(500_000_000));
        assert_eq!(rates.rate("a", 2 * second + 5, 1_000_000_900), Some(500_000_000));
        // A counter that began anew.
        assert_eq!(rates.rate("a", 4 * second, 10), Some(0));
        rates.forget_others();
        rates.forget_others();
        assert_eq!(rates.rate("a", 6 * second, 10), None);
    }
}
