//! Random numbers for choices that need no secrecy, without asking the kernel each time.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = Cell::new(getrandom::u64().unwrap_or(0x9e37_79b9_7f4a_7c15) | 1);
}

/// The next number (xorshift64*).
pub(crate) fn next() -> u64 {
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

/// A number below `bound`, which is not 0.
pub(crate) fn below(bound: usize) -> usize {
    ((u128::from(next()) * bound as u128) >> 64) as usize
}
