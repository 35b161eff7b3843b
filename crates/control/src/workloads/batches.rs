//! Many writes at once, carefully: one first, then twice as many each time, and no more after the first failure.

use futures::future::join_all;
use std::future::Future;

/// Calls `write` up to `count` times in growing batches. Returns what succeeded and the first error.
pub(crate) async fn slow_start<T, E, F>(count: usize, mut write: impl FnMut(usize) -> F) -> (Vec<T>, Option<E>)
where
    F: Future<Output = Result<T, E>>,
{
    let mut done = Vec::new();
    let (mut next, mut size) = (0, 1);
    while next < count {
        let end = (next + size).min(count);
        let mut failure = None;
        for result in join_all((next..end).map(&mut write)).await {
            match result {
                Ok(value) => done.push(value),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_some() {
            return (done, failure);
        }
        (next, size) = (end, size * 2);
    }
    (done, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn batches_double_and_stop_at_the_first_failure() {
        // What can be written before the quota is full, and how many attempts that costs for ten: 1 + 2 + 4 + 3.
        for (quota, attempts, written) in [(10, 10, 10), (0, 1, 0), (1, 3, 1), (2, 3, 2), (3, 7, 3), (7, 10, 7)] {
            let tries = AtomicUsize::new(0);
            let (done, failure) = slow_start(10, |_| {
                let attempt = tries.fetch_add(1, Ordering::SeqCst);
                async move { if attempt < quota { Ok(attempt) } else { Err("quota") } }
            })
            .await;
            assert_eq!((tries.into_inner(), done.len()), (attempts, written), "quota {quota}");
            assert_eq!(failure.is_some(), quota < 10);
        }
    }
}
