//! A fast hash for names. Its seed is chosen at random for each table, so that who can choose names (every user of a
//! cluster can) does not know which of them meet.

/// The seed of a table. Of foldhash's two kinds the one whose low and high bits are both even: one chooses a shard, the
/// other a place in it.
pub(crate) use foldhash::quality::RandomState as Seed;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, hash::BuildHasher};

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
