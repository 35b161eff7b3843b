//! How shares of Services become weights of servers.

/// A Service's share and how many servers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) weight: u16,
    pub(super) servers: usize,
}

/// The weight of each server of each Service. One Service alone shares evenly; of several the largest share of a server is
/// 256 and the others in proportion, at least 1. A Service with weight 0 has 0.
pub(super) fn weights(shares: &[Share]) -> Vec<u16> {
    let is_active = |share: &&Share| share.weight > 0 && share.servers > 0;
    let active = shares.iter().filter(is_active).count();
    let each = |share: &Share| f64::from(share.weight) / share.servers.max(1) as f64;
    let largest = shares.iter().filter(is_active).map(each).fold(0.0, f64::max);
    let weight = |share: &Share| match (share.weight, active) {
        (0, _) => 0,
        (_, 0 | 1) => 1,
        // Between 1 and 256 by construction.
        _ => (each(share) * 256.0 / largest).clamp(1.0, 256.0) as u16,
    };
    shares.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_weights() {
        for (name, shares, expected) in [
            ("nothing", &[][..], &[][..]),
            ("one Service", &[(100, 3)], &[1]),
            ("one Service with weight 0", &[(0, 3)], &[0]),
            ("one of two sleeps", &[(100, 2), (0, 2)], &[1, 0]),
            ("one of two has no pod", &[(100, 2), (100, 0)], &[1, 1]),
            ("equal shares, equal pods", &[(100, 1), (100, 1)], &[256, 256]),
            ("equal shares, more pods", &[(100, 1), (100, 2)], &[256, 128]),
            ("shares 3:1", &[(3, 1), (1, 1)], &[256, 85]),
            ("shares 3:1 with pods 3:1", &[(3, 3), (1, 1)], &[256, 256]),
            ("a tiny share is not lost", &[(256, 1), (1, 10)], &[256, 1]),
            ("a tinier one neither", &[(256, 1), (1, 1000)], &[256, 1]),
            ("four Services", &[(1, 1), (2, 1), (3, 1), (4, 1)], &[64, 128, 192, 256]),
            ("none has pods", &[(1, 0), (2, 0)], &[1, 1]),
            ("one Service with the largest weight", &[(256, 1)], &[1]),
            ("one Service with many pods", &[(1, 500)], &[1]),
            ("both sleep", &[(0, 1), (0, 1)], &[0, 0]),
            ("one sleeps and has no pod", &[(100, 2), (0, 0)], &[1, 0]),
            ("one sleeps, the other has no pod", &[(0, 2), (100, 0)], &[0, 1]),
            ("largest shares", &[(256, 1), (256, 1)], &[256, 256]),
            ("smallest shares", &[(1, 1), (1, 1)], &[256, 256]),
            ("equal shares, many pods", &[(1, 100), (1, 100)], &[256, 256]),
            ("9:1 as for a trial", &[(90, 3), (10, 1)], &[256, 85]),
            ("99:1 with equal pods", &[(99, 4), (1, 4)], &[256, 2]),
            ("three, of which one sleeps", &[(50, 1), (50, 1), (0, 1)], &[256, 256, 0]),
            ("three, of which one has no pod", &[(50, 1), (25, 1), (25, 0)], &[256, 128, 128]),
            ("more pods than shares", &[(1, 3), (2, 3)], &[128, 256]),
        ] {
            let shares: Vec<Share> = shares.iter().map(|&(weight, servers)| Share { weight, servers }).collect();
            assert_eq!(weights(&shares), expected, "{name}");
        }
    }
}
