//! How many seats each priority level gets: by its shares, and by what others lend.

/// What a level's configuration says about seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `nominalConcurrencyShares`.
    pub shares: u32,
    /// `lendablePercent`.
    pub lendable: u32,
    /// `borrowingLimitPercent`; none is no limit.
    pub borrowing: Option<u32>,
}

/// The seats of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its own.
    pub nominal: u32,
    /// What nobody can borrow.
    pub least: u32,
    /// With all it may borrow.
    pub most: u32,
}

impl Range {
    /// Before anything is known of the demand: half of what can be lent is.
    pub fn start(&self) -> u32 {
        self.nominal - (self.nominal - self.least) / 2
    }

    /// The most that one request may take, so that a few of them do not take all.
    pub fn widest(&self, hand: usize) -> u32 {
        let part = (f64::from(self.nominal) * 0.15).ceil();
        let per_card = self.nominal / u32::try_from(hand.max(1)).unwrap_or(u32::MAX);
        whole(part).min(per_card).max(1)
    }
}

/// Divides the server's seats by shares.
pub fn ranges(total: u32, claims: &[Claim]) -> Vec<Range> {
    let sum: f64 = claims.iter().map(|claim| f64::from(claim.shares)).sum();
    let percent = |of: u32, percent: u32| whole((f64::from(of) * f64::from(percent) / 100.0).round());
    let range = |claim: &Claim| {
        let part = if sum > 0.0 { f64::from(total) * f64::from(claim.shares) / sum } else { 0.0 };
        let nominal = whole(part.ceil());
        let borrowed = claim.borrowing.map_or(total, |limit| percent(nominal, limit));
        Range {
            nominal,
            least: nominal - percent(nominal, claim.lendable).min(nominal),
            most: nominal.saturating_add(borrowed),
        }
    };
    claims.iter().map(range).collect()
}

/// A level that wants seats: `least` it has to have, `most` it may have, and `target` it could use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// Never below.
    pub least: f64,
    /// Never above.
    pub most: f64,
    /// In proportion to this.
    pub target: f64,
}

/// Divides `total` seats: each gets the same multiple of its target, within its bounds.
pub fn divide(total: f64, wants: &[Want]) -> Vec<u32> {
    let get =
        |want: &Want, multiple: f64| (want.target.max(0.001) * multiple).clamp(want.least, want.most.max(want.least));
    let given = |multiple: f64| wants.iter().map(|want| get(want, multiple)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    while given(high) < total && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if given(middle) < total { low = middle } else { high = middle }
    }
    wants.iter().map(|want| whole(get(want, high).round())).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and never negative")]
fn whole(number: f64) -> u32 {
    number.clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_seats_of_a_server_as_it_comes() {
        // catch-all, system, node-high, leader-election, workload-high, workload-low, global-default.
        let claims = [(5, 0), (30, 33), (40, 25), (10, 0), (40, 50), (100, 90), (20, 50)]
            .map(|(shares, lendable)| Claim { shares, lendable, borrowing: None });
        let ranges = ranges(600, &claims);
        let nominal: Vec<u32> = ranges.iter().map(|range| range.nominal).collect();
        assert_eq!(nominal, [13, 74, 98, 25, 98, 245, 49]);
        let least: Vec<u32> = ranges.iter().map(|range| range.least).collect();
        assert_eq!(least, [13, 50, 73, 25, 49, 24, 24]);
        let start: Vec<u32> = ranges.iter().map(Range::start).collect();
        assert_eq!(start, [13, 62, 86, 25, 74, 135, 37]);
        assert_eq!(ranges.iter().map(|range| range.widest(6)).collect::<Vec<_>>(), [2, 12, 15, 4, 15, 37, 8]);
    }

    #[test]
    fn what_one_does_not_use_another_may_borrow() {
        let idle = Want { least: 20.0, most: 700.0, target: 20.0 };
        let busy = Want { least: 50.0, most: 700.0, target: 500.0 };
        assert_eq!(divide(150.0, &[idle, busy]), [20, 130]);
        let bounded = Want { most: 60.0, ..busy };
        assert_eq!(divide(150.0, &[idle, bounded]), [90, 60], "the rest is nobody else's");
    }

    proptest! {
        #[test]
        fn everybody_stays_within_bounds(wants in proptest::collection::vec((0_u32..100, 0_u32..100, 0_u32..300), 1..8), total in 1_u32..800) {
            let wants: Vec<Want> = wants.into_iter().map(|(least, room, target)| {
                Want { least: f64::from(least), most: f64::from(least + room), target: f64::from(target.max(least)) }
            }).collect();
            let given = divide(f64::from(total), &wants);
            for (given, want) in given.iter().zip(&wants) {
                prop_assert!(f64::from(*given) >= want.least && f64::from(*given) <= want.most);
            }
            let (least, most): (f64, f64) = wants.iter().fold((0.0, 0.0), |(l, m), want| (l + want.least, m + want.most));
            let sum: f64 = given.iter().map(|given| f64::from(*given)).sum();
            let wanted = f64::from(total).clamp(least, most);
            prop_assert!((sum - wanted).abs() <= wants.len() as f64, "{} of {}", sum, wanted);
        }
    }
}
