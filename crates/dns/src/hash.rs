//! A fast hash for names. Its seed is chosen at random for each table, so that who can choose names (every user of a
//! cluster can) does not know which of them meet.

use std::hash::{BuildHasher, Hasher};

/// An odd number without a pattern: the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(crate::random::next())
    }
}

impl BuildHasher for Seed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Multiplies to twice the width and folds the halves together, eight bytes at a time.
#[derive(Debug)]
pub(crate) struct Folding(u64);

impl Folding {
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length as well: a name is not the same as one with zeros at its end.
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u16(&mut self, number: u16) {
        self.fold(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.fold(FACTOR.rotate_left(32));
        last.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_spread_over_all_places_whatever_the_seed() {
        for _ in 0..8 {
            let seed = Seed::default();
            let names: Vec<String> = (0..65_536).map(|n| format!("service-{n}.namespace-{}", n % 7)).collect();
            let hashes: HashSet<u64> = names.iter().map(|name| seed.hash_one(name.as_bytes())).collect();
            assert_eq!(hashes.len(), names.len());
            // Low bits choose a shard, high bits a place in it: both must be even.
            for shift in [0, 56] {
                let mut counts = [0u32; 256];
                hashes.iter().for_each(|hash| counts[(hash >> shift & 255) as usize] += 1);
                assert!(counts.iter().all(|count| (128..=384).contains(count)), "{counts:?}");
            }
        }
    }

    #[test]
    fn what_differs_in_length_alone_differs() {
        let seed = Seed::default();
        let zeros = [0u8; 40];
        let hashes: HashSet<u64> = (0..40).map(|length| seed.hash_one(&zeros[..length])).collect();
        assert_eq!(hashes.len(), 40);
        assert_ne!(Seed::default().hash_one(b"a"), Seed::default().hash_one(b"a"));
    }
}
