//! What this process may have. Called by the binary before anything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit of open files to the highest that is allowed without asking anybody, as Go programs do at start: the
/// usual 1,024 are kept low for programs that use `select`, and an API server has more connections than that.
pub fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_becomes_the_highest_that_is_allowed() {
        let before = getrlimit(Resource::Nofile);
        // What the other tests of this process have open fits.
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), ..before }).unwrap();
        for _ in 0..2 {
            raise_open_files().unwrap();
            assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: before.maximum, ..before });
        }
    }
}
