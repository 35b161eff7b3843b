//! An allocator that counts, for tests of paths that must not allocate.
//!
//! A test binary names it as its `#[global_allocator]` and compares [`on_this_thread`] before and after.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting.
#[derive(Debug)]
pub struct Counting;

/// How often this thread has allocated, or made an allocation larger.
#[must_use]
pub fn on_this_thread() -> u64 {
    COUNT.with(Cell::get)
}

fn count() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on as it is; the counter is a plain number of the thread and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
