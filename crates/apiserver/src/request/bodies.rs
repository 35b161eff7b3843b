//! How much of request bodies is kept in memory, in all and of one user.
//!
//! Bodies are read before a request gets its seat, so that a slow one keeps nobody waiting. What keeps them from filling the
//! memory instead is this budget: it counts bytes that arrived, not those that were announced.

use api::error::ApiError;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// The budget.
pub struct Bodies {
    in_all: usize,
    per_user: usize,
    kept: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: usize,
    users: HashMap<String, usize>,
}

impl Default for Bodies {
    /// A hundred and seventy of the largest bodies, twenty-one of one user.
    fn default() -> Self {
        Self::new(512 * 1024 * 1024, 64 * 1024 * 1024)
    }
}

impl Bodies {
    /// So many bytes in all, so many of one user.
    pub fn new(in_all: usize, per_user: usize) -> Self {
        Self { in_all, per_user, kept: Mutex::default() }
    }

    /// A body that begins to arrive.
    pub fn begin(self: &Arc<Self>, user: &str) -> Kept {
        Kept { bodies: Arc::clone(self), user: user.to_owned(), bytes: 0 }
    }
}

/// What is kept of one body; given back when dropped.
pub struct Kept {
    bodies: Arc<Bodies>,
    user: String,
    bytes: usize,
}

impl Kept {
    /// So much more of it is kept, or 429.
    pub fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut counts = self.bodies.kept.lock();
        let own = counts.users.get(&self.user).copied().unwrap_or_default();
        if own + bytes > self.bodies.per_user || counts.total + bytes > self.bodies.in_all {
            return Err(ApiError::too_many_requests("Too many requests, please try again later.", 1));
        }
        counts.total += bytes;
        match counts.users.get_mut(&self.user) {
            Some(own) => *own += bytes,
            None => drop(counts.users.insert(self.user.clone(), bytes)),
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut counts = self.bodies.kept.lock();
        counts.total -= self.bytes;
        if let Some(own) = counts.users.get_mut(&self.user) {
            *own -= self.bytes;
            if *own == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_the_memory_of_all() {
        let bodies = Arc::new(Bodies::new(10, 6));
        let (mut one, mut two, mut other) = (bodies.begin("a"), bodies.begin("a"), bodies.begin("b"));
        one.add(4).unwrap();
        assert_eq!(two.add(3).unwrap_err().code, 429);
        two.add(2).unwrap();
        other.add(4).unwrap();
        assert_eq!(other.add(1).unwrap_err().code, 429, "in all");
        drop(one);
        other.add(2).unwrap();
        drop((two, other));
        let counts = bodies.kept.lock();
        assert!(counts.total == 0 && counts.users.is_empty());
    }
}
