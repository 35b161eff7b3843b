//! An allocator that counts, for tests of paths that must not allocate and of how much is kept.
//!
//! A test binary names it as its `#[global_allocator]` and compares [`on_this_thread`] or [`held_by_this_thread`] before and after.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting.
#[derive(Debug)]
pub struct Counting;

/// How often this thread has allocated, or made an allocation larger.
#[must_use]
pub fn on_this_thread() -> u64 {
    COUNT.with(Cell::get)
}

/// Bytes that this thread has allocated and not given back, with what the C library adds: a word of its own, in steps of 16, and 32
/// at least.
#[must_use]
pub fn held_by_this_thread() -> i64 {
    HELD.with(Cell::get)
}

fn count() {
    COUNT.with(|count| count.set(count.get() + 1));
}

fn hold(size: usize, sign: i64) {
    let taken = (size + 8).next_multiple_of(16).max(32) as i64;
    HELD.with(|held| held.set(held.get() + sign * taken));
}

// SAFETY: every call is passed on as it is; the counter is a plain number of the thread and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size(), 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(layout.size(), -1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        hold(layout.size(), -1);
        hold(size, 1);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
