//! Shuffle sharding: which few of many queues a flow may use. Two flows seldom have the same hand, so one that fills all its
//! queues leaves nearly everybody else at least one that is empty.

/// The largest hand: sixteen queues and fifteen cards use up the sixty bits of a hash that validation allows.
pub const MOST_CARDS: usize = 15;

/// `hand` different cards of `0..deck`, the same for the same hash.
pub fn deal(mut hash: u64, deck: usize, hand: usize) -> ([usize; MOST_CARDS], usize) {
    let hand = hand.min(deck).min(MOST_CARDS);
    let (mut cards, mut dealt) = ([0; MOST_CARDS], [0; MOST_CARDS]);
    for drawn in 0..hand {
        let left = (deck - drawn) as u64;
        #[allow(clippy::cast_possible_truncation, reason = "less than the deck")]
        let mut card = (hash % left) as usize;
        hash /= left;
        // The n-th card of those that are left: what was drawn before it, in ascending order, is skipped.
        for earlier in &dealt[..drawn] {
            if card >= *earlier {
                card += 1;
            }
        }
        cards[drawn] = card;
        dealt[drawn] = card;
        dealt[..=drawn].sort_unstable();
    }
    (cards, hand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hand_has_different_cards_of_the_deck(hash: u64, deck in 1_usize..600, hand in 1_usize..20) {
            let (cards, count) = deal(hash, deck, hand);
            prop_assert_eq!(count, hand.min(deck).min(MOST_CARDS));
            let mut cards = cards[..count].to_vec();
            prop_assert!(cards.iter().all(|card| *card < deck));
            cards.sort_unstable();
            cards.dedup();
            prop_assert_eq!(cards.len(), count);
        }
    }

    #[test]
    fn every_card_is_dealt_about_as_often() {
        let mut counts = [0_u32; 16];
        for hash in 0..16_000_u64 {
            let (cards, count) = deal(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15), 16, 4);
            for card in &cards[..count] {
                counts[*card] += 1;
            }
        }
        assert!(counts.iter().all(|count| (3600..4400).contains(count)), "{counts:?}");
    }
}
