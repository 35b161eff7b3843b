//! Where the search for a free place begins.

use super::space::Span;

/// How a pool chooses among free places.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// From a random point, so that a released address is rarely the next one given. The state of a SplitMix64.
    Random(u64),
    /// On from the last one given, so that a released block rests as long as it can.
    RoundRobin {
        /// Where the search goes on.
        next: u64,
    },
}

impl Order {
    /// Where to begin within the span.
    pub(crate) fn start(&mut self, span: Span<u64>) -> u64 {
        match self {
            Self::Random(state) => {
                let length = u128::from(span.last - span.first) + 1;
                // Scales a 64-bit number down to the length; the bias is below length / 2^64.
                span.first + ((u128::from(split_mix(state)) * length) >> 64) as u64
            }
            Self::RoundRobin { next } => (*next).clamp(span.first, span.last),
        }
    }

    /// Takes note of the place that was given. The first one follows the last.
    pub(crate) fn given(&mut self, index: u64, last: u64) {
        if let Self::RoundRobin { next } = self {
            *next = if index == last { 0 } else { index + 1 };
        }
    }
}

/// The next number of the SplitMix64 sequence (Steele, Lea and Flood, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
