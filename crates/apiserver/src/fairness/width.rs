//! How many seats a request needs: one, or for a list one for every hundred objects it reads, as upstream counts them.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Objects that are read for one seat.
const OBJECTS: usize = 100;
/// No list is taken to be more than this many times as dear as anything else.
const MOST: u32 = 10;

/// How many objects there were where somebody looked. Only places with many are remembered.
#[derive(Default)]
pub struct Widths(Mutex<HashMap<String, usize>>);

impl Widths {
    /// Somebody read so many objects below a prefix.
    pub fn note(&self, prefix: &str, objects: usize) {
        let mut known = self.0.lock();
        if objects > OBJECTS {
            match known.get_mut(prefix) {
                Some(count) => *count = objects,
                None => drop(known.insert(prefix.to_owned(), objects)),
            }
        } else {
            known.remove(prefix);
        }
    }

    /// The seats for reading what is below a prefix, or at most `limit` of it (0 is all).
    pub fn list(&self, prefix: &str, limit: usize) -> u32 {
        let stored = self.0.lock().get(prefix).copied().unwrap_or_default();
        let read = if limit == 0 { stored } else { stored.min(limit) };
        u32::try_from(read.div_ceil(OBJECTS)).unwrap_or(MOST).clamp(1, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_list_is_dear_and_a_page_of_it_less() {
        let widths = Widths::default();
        assert_eq!(widths.list("pods/", 0), 1, "nothing is known");
        widths.note("pods/", 250);
        for (limit, seats) in [(0, 3), (100, 1), (101, 2), (500, 3)] {
            assert_eq!(widths.list("pods/", limit), seats, "{limit}");
        }
        widths.note("pods/", 100_000);
        assert_eq!(widths.list("pods/", 0), MOST);
        widths.note("pods/", 5);
        assert!(widths.0.lock().is_empty());
    }
}
