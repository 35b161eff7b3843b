//! A size or a cost that lies between two bounds, in arithmetic that stops at the largest number.

/// From least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Range {
    pub(super) const NOTHING: Self = Self::exactly(0);
    pub(super) const ONE: Self = Self::exactly(1);
    /// Anything at all.
    pub(super) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    pub(super) const fn exactly(size: u64) -> Self {
        Self { least: size, most: size }
    }

    pub(super) const fn up_to(most: u64) -> Self {
        Self { least: 0, most }
    }

    /// Both, one after the other.
    pub(super) fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    /// One for each of the other.
    pub(super) fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    /// By a factor, rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { least: scale(self.least, factor), most: scale(self.most, factor) }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// A conversion from a double stops at the largest number by itself.
fn scale(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn bounds_stop_at_the_largest_number() {
        assert_eq!(Range::UNKNOWN.scaled(0.1).most, 1_844_674_407_370_955_264);
        assert_eq!(Range::UNKNOWN.scaled(2.0), Range::UNKNOWN);
        assert_eq!(Range::UNKNOWN.plus(Range::ONE), Range { least: 1, most: u64::MAX });
        assert_eq!(Range::exactly(21).scaled(0.1), Range::exactly(3));
        assert_eq!(Range::exactly(2).or(Range::exactly(5)), Range { least: 2, most: 5 });
    }
}
